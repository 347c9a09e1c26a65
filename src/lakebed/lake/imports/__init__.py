"""Imports: existing objects become entries of a branch, without copying.

Imports `lakebed.engine` and `lakebed.block`. Public: `Imports` for the APIs, and `ImportRunner` for
the background process.
"""
