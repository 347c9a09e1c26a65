"""The server's part of garbage collection."""
