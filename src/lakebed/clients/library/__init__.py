"""The Python API: a lake in a folder, or on a server, with the same objects.

`lakebed.open` and `lakebed.connect` are the entrances (`lake`), `refs` and `objects` what they lead
to. All of it asks a `Backend`: `embedded` calls the catalog in this process, `remote` a server.
`filesystem` shows a lake to fsspec, and so to pandas, DuckDB, PyArrow and Dask.
"""
