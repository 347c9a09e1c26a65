"""Branches, tags and commits: their records, their creation, ref expressions and history.

Imports `lakebed.kv`, `lakebed.formats` and, for logs of objects, `lakebed.engine.committed`;
nothing of `commits`. Public: `branches`, `tags`, `commits`, `resolve`, `ancestry`, `log`,
`protection`, `dump` and `restore`.
"""
