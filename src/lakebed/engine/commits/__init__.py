"""What moves a branch to another commit: commits, merges, reverts, cherry-picks and resets."""
