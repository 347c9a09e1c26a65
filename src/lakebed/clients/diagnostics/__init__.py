"""Read-only examination of an installation that may be broken.

Imports the engine, `lakebed.auth` and the server's settings. Public: `fsck`, `survey`, `records`,
`health` and `bundle`, for `lakebed fsck`, `lakebed kv inspect` and `lakebed diagnose`.
"""
