"""Errors, clock and chance, ids, caches, leases and tracing: modules that all packages may import.

Imports nothing else of Lakebed. Public inside of the project: every module.
"""
