"""Multipart uploads, by S3 and by presigned URLs.

Imports `lakebed.engine` and `lakebed.block`. Public: `uploads` (create, list, parts, abort) and
`complete`, which has the protocol.
"""
