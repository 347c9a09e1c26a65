"""The versioning engine: repositories, refs, staged and committed entries.

It knows neither HTTP nor any storage library. Of an entry it uses the key and the identity.
"""
