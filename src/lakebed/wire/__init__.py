"""The REST API as data: its structs and its operations, which server and clients share.

It imports msgspec and the errors of the base only. Each module has the structs of one resource and
a class of its operations, `BranchesAPI` for example: the server adds a handler to each, and an
instance of the class is a client of it.
"""
