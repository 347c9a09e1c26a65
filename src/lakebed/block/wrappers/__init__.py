"""Wrappers of every storage: metrics and traces."""
