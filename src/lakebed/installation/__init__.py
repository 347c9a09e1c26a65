"""An installation, opened in this process for a server or for the library.

Imports the layers below except `lakebed.auth`: the server adds users, permissions and HTTP. Public:
`opening` (database, storage, engine, catalog, reclaim and hooks), `folder` (the layout of an
installation in one folder), and `statuses` (the HTTP status of each error).
"""
