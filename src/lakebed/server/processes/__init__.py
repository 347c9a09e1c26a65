"""The processes of a server: the supervisor, its workers, and the background process.

Imports `lakebed.httpd` and `lakebed.server.app`. Public: `supervisor`. See
design/0008-server-processes.md.
"""
