"""The REST API as data: its structs and its operations, which server and clients share.

Imports msgspec, and nothing else of Lakebed. Public: every module. Each one has the structs of one
resource and a class of its operations, `BranchesAPI` for example: the server adds a handler to
each, and an instance of the class is a client of it.
"""
