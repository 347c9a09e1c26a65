"""The S3 gateway: a bucket is a repository, a key is ``<ref>/<path>``.

A request passes through these modules:

- `gateway` handles it, and turns errors into answers (`translation`, `errors`)
- `router` determines the operation; `unsupported` refuses those that Lakebed does not have
- `sigv4` and `sigv2` authenticate it
- ``operations/`` has one file per operation; each gets an `S3Request` (`request`)
- `payload` and `chunked` verify the body while an operation reads it
- `xml_reader` and `xml_writer` read and write the documents
"""
