"""All that deletes data: garbage collection, retention, purges, and the Cleaner.

It imports the catalog and the engine, which know nothing of it but the marks and leases that lie in
them. Public: `lakebed.reclaim.service.Reclaim` for the server and the library, and for jobs, which
need no record store, `lakebed.reclaim.collector`.
"""
