"""The HTTP server: doors to the catalog. No versioning logic is here."""
