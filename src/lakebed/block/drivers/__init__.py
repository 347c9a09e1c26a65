"""One module for each storage; it is imported when its settings are opened (`open_block`).

Imports `lakebed.block`, and alone the client library of its storage. Public: `open_driver` of each.
"""
