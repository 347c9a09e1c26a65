"""Migration from lakeFS: its metadata files and refs become commits and refs of a repository.

Imports the engine, on the stores of the server's settings. Public: `rounds`, `verify` and `adopt`,
for `lakebed migrate`. See design/0018-moving-in.md.
"""
