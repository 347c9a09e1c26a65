"""The REST API: the table of operations, and their dispatch.

Imports `lakebed.wire` for the shapes, and `lakebed.lake`, `lakebed.reclaim` and `lakebed.auth` for
the work; no component of the engine and no store. Public: `operations.ROUTES` and `dispatch`.
"""
