"""The versioning engine: repositories, refs, staged and committed entries, and commits.

Imports `lakebed.kv`, `lakebed.block`, `lakebed.formats` and `lakebed.base`; nothing of HTTP, users
or action files. Public: `engine.Engine`, which has all components, for `lakebed.lake` and
`lakebed.reclaim`; values (`model`, `errors`, `commits.requests`) for the APIs, too.
"""
