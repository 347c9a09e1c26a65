"""The Python API: a lake in a folder, or on a server, with the same objects.

`lakebed.open` and `lakebed.connect` are the entrances (`lake`), `refs` and `objects` what they lead
to. All of it calls a `Backend`: `embedded` calls `lakebed.lake` in this process, `remote` a server.
Imports `lakebed.installation`, never `lakebed.server`. Public: the names that `lakebed` exports.
`filesystem` shows a lake to fsspec, and so to pandas, DuckDB, PyArrow and Dask.
"""
