"""The web UI: one document, and the modules that it loads.

`assets` has the files, `pages` the addresses. All data comes from the REST API, with its
permissions. See design/0014-web-ui.md.
"""
