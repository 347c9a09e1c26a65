"""Pull requests: proposals to merge one branch into another, and their merges.

Imports `lakebed.engine` and values of `lakebed.lake`. Public: `Pulls`, `model`. See
design/0013-pull-requests.md.
"""
