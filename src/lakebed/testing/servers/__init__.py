"""Real servers for tests, from packages.

Starting a server raises `ServerMissingError` if its program is missing or does not start.
"""


class ServerMissingError(RuntimeError):
    """A server required by a test is not installed, or does not start."""
