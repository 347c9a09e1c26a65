"""The versioning engine: no HTTP, no storage library; of an entry it reads key and identity."""
