"""Steps and helpers of all requests, whichever API they are for.

Imports `lakebed.auth` and values of the layers below; no API imports another one through it.
Public for `lakebed.server`: `pipeline`, `admission`, `authentication`, `errors`, `bodies`, `logs`.
"""
