"""The REST API: a table of operations, and the way from a request to one of them and back."""
