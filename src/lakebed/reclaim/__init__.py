"""All that deletes data: garbage collection, retention, purges, and the Cleaner.

Imports `lakebed.lake` and the layers below, which know nothing of it: the marks and leases that
they honour lie in them. Public: `lakebed.reclaim.service.Reclaim` for the server and the library,
and for jobs, which need no record store, `lakebed.reclaim.collector`.
"""
