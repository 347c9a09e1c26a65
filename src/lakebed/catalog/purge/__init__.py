"""Purges: objects that have to be gone from all history. See `purges`."""
