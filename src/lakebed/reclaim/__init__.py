"""Everything that deletes data: garbage collection, retention, purges, and the Cleaner.

Imports `lakebed.lake` and the layers below, which do not import this package: the marks and leases
that they honor are defined there. Public: `lakebed.reclaim.service.Reclaim` for the server and the
library, and `lakebed.reclaim.collector` for jobs, which need no record store.
"""
