"""Uncommitted changes: staging by writers, and reading by readers and committers.

Imports `lakebed.kv`, `lakebed.formats` and, to read committed entries, `lakebed.engine.committed`.
Public: `Writer`, `Reader` and `StagedChanges`. Only `cells` reads a token's cell of a key.
"""
