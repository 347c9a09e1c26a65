"""The web UI: one document, and the modules that it loads.

`assets` has the files, `pages` the addresses. All data comes from the REST API, with its
permissions, so it imports no component of the layers below. Public: `pages.add_pages`. See
design/0014-web-ui.md.
"""
