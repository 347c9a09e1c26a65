"""One module for each database; it is imported when its URL is opened (`lakebed.kv.registry`).

Imports `lakebed.kv`, and alone the client library of its database. Public: `open_driver` of each.
"""
