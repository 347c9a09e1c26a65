"""Policies as pure functions: which statement allows or denies an action on a resource.

Imports nothing that reads a store. Public for `lakebed.auth` alone.
"""
