"""Repositories: how they are created, who owns a storage namespace, how they end."""
