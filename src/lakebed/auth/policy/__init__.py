"""Evaluation of policies as pure functions: is an action on a resource allowed or denied?

Imports nothing that reads a store. Public for `lakebed.auth` alone.
"""
