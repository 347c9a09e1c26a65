"""One module for each command, or for each group of commands."""
