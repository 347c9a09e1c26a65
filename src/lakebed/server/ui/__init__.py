"""The web UI: one document, and the modules it loads.

`assets` loads the files, `pages` serves them. All data comes from the REST API, with its
permissions; the package imports no component of the layers below. Public: `pages.add_pages`. See
design/0014-web-ui.md.
"""
