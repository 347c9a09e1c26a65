"""Real servers for tests, from packages."""


class ServerMissingError(RuntimeError):
    """A server that a test needs is not installed, or does not start here."""
