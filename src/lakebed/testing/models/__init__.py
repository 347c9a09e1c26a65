"""Simple models to compare the real code with.

Imports values of the engine. Public: `committed.ModelCommitted`.
"""
