"""What gives a branch another head: commits, merges, reverts, cherry-picks and resets."""
