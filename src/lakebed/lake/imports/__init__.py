"""Imports: objects that exist become entries of a branch, without being copied."""
