"""Imports: existing objects become entries of a branch, without a copy.

Imports `lakebed.engine` and `lakebed.block`. Public: `Imports` for the APIs, and the runner for the
background process.
"""
