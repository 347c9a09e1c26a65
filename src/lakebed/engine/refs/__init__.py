"""Branches, tags and commits: the records, and the ways through them."""
