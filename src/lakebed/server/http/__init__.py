"""Steps and helpers shared by all HTTP requests.

Imports `lakebed.auth` and values of the layers below; no API imports another one through it. Public
for `lakebed.server`: `pipeline`, `admission`, `authentication`, `errors`, `bodies`, `logs`.
"""
