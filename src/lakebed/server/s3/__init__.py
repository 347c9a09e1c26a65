"""The S3 gateway: a bucket is a repository, a key is ``<ref>/<path>``.

`lakebed.server.s3.router` says which operation a request is, `sigv4` who sent it, `payload` proves
its body; ``operations/`` has one file for each operation.
"""
