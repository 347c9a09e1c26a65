"""The S3 gateway: a bucket is a repository, a key is ``<ref>/<path>``.

A request goes through these modules:

- `gateway` takes it, and turns errors into answers (`translation`, `errors`)
- `router` finds out which operation it is; `unsupported` refuses those that Lakebed does not have
- `sigv4` and `sigv2` check who sent it
- ``operations/`` has one file for each operation; each gets an `S3Request` (`request`)
- `payload` and `chunked` check the body while an operation reads it
- `xml_reader` and `xml_writer` read and write the documents
"""
