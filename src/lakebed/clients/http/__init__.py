"""The typed client of the REST API: settings, requests, retries and pages of lists.

Imports `lakebed.wire` and `lakebed.base`. Public: `http.Client`, `settings`, `paging`, `errors`.
"""
