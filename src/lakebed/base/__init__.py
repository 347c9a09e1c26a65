"""Errors, clock, randomness, ids, caches, leases and tracing: importable by every package.

Imports nothing else of Lakebed. Public within the project: every module.
"""
