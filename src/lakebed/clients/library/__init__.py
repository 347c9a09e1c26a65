"""The Python API: a lake in a directory or on a server, with the same objects.

`lakebed.open` and `lakebed.connect` (`lake`) return the objects of `refs` and `objects`. All of
them call a `Backend`: `embedded` uses `lakebed.lake` in this process, `remote` a server.
`filesystem` implements fsspec, for pandas, DuckDB, PyArrow and Dask. Imports
`lakebed.installation`, never `lakebed.server`. Public: the names that `lakebed` exports.
"""
