"""Repositories: how they are created and deleted, and who may use a storage namespace."""
