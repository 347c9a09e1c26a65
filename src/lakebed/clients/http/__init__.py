"""The client of a server's REST API, for the command line and for garbage collection."""
