"""Repositories: creation and deletion without transactions, and ownership of namespaces.

Imports `lakebed.kv` and `lakebed.block`. Public: `Repositories`.
"""
