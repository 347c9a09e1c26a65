"""One module a storage; each loads only when its settings are opened."""
