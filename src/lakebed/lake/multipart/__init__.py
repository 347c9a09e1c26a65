"""Multipart uploads, through S3 and through presigned URLs.

Imports `lakebed.engine` and `lakebed.block`. Public: `uploads` (create, list, parts, abort) and
`complete`, which documents the protocol.
"""
