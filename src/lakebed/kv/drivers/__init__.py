"""One module a database; each loads only when its URL is opened."""
