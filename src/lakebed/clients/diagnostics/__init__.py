"""Looking into an installation that may be broken, without changing anything in it."""
