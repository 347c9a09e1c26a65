"""Uncommitted changes: where writers put them, and how readers and committers see them."""
