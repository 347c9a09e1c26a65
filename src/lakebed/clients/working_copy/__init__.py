"""Working copies: folders on a disk that hold what is below a path of a repository.

`copy.py` has the operations, `place.py` the file that says what a folder is a copy of, `folder.py`
what is done on the disk, `remote.py` what is asked of the server, `compare.py` who changed what,
`hashes.py` what is remembered of files. Imports `lakebed.clients.http` and `lakebed.wire`. Public:
`copy` and `errors`. See design/0019-working-copies.md.
"""
