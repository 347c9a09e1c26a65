"""The page."""


def page(endpoint: str) -> bytes:
    """P."""
    return endpoint.encode()
