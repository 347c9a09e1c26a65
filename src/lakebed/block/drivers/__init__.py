"""One module per storage, imported when its settings are opened (`open_block`).

Only a driver imports the client library of its storage. Public: `open_driver` of each module.
"""
