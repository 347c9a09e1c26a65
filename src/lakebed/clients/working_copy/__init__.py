"""Working copies: local directories that mirror a path of a repository.

`copy.py` has the operations, `state.py` the file `.lakefs_ref.yaml`, `folder.py` the file system
access, `remote.py` the requests, `compare.py` the three-way comparison, `hashes.py` the cache of
hashes. Imports `lakebed.clients.http` and `lakebed.wire`. Public: `copy` and `errors`. See
design/0019-working-copies.md.
"""
