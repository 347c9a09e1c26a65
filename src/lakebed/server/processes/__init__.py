"""The processes of a server."""
