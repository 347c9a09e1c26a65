"""Moving in from lakeFS: its table files and refs become commits and refs of a repository.

Imports the engine, whose stores the command opens as a server does. Public: `rounds`, `verify` and
`adopt`, for `lakebed migrate`. See design/0018-moving-in.md.
"""
