"""The typed client of the REST API: settings, requests, retries and pagination.

Imports `lakebed.wire` and `lakebed.base`. Public: `http.Client`, `settings`, `paging`, `errors`.
"""
