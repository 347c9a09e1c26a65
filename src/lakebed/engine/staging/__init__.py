"""Uncommitted changes: how writers stage entries, and how readers and committers read them.

Imports `lakebed.kv`, `lakebed.formats` and, to read what is committed, `lakebed.engine.committed`.
Public: `Writer`, `Reader` and `StagedChanges`. `cells` alone reads what a token holds for a key.
"""
