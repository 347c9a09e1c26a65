"""REST API declarations shared by server and clients: structs and operations.

Imports msgspec, and nothing else of Lakebed. Public: every module. Each has the structs of one
resource and a class with its operations, such as `BranchesAPI`: the server adds a handler to each
operation, and an instance of the class is a client.
"""
