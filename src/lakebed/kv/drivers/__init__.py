"""One module per database, imported when its URL is opened (`lakebed.kv.registry`).

Imports `lakebed.kv` and the client library of its database. Public: `open_driver` of each module.
"""
