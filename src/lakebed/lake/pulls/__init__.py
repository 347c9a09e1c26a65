"""Pull requests: proposals to merge one branch into another, and their merges."""
