"""Branches, tags and commits: their records, and how to find a way through them."""
