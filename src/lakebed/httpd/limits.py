"""Limits of a server: threads, connections, sizes and times."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """Threads and connections of one process, and the sizes and times that a client is allowed."""

    threads: int = 64
    """Threads that serve requests, at most."""
    connections: int = 10_000
    """Open connections, at most. Beyond that, those that are idle for longest are closed."""
    head_bytes: int = 64 << 10
    """Largest head of a request."""
    head_seconds: float = 20.0
    """Time for a client to send a whole head."""
    stall_seconds: float = 60.0
    """A client that sends nothing of a body, or takes nothing of a response, for so long is cut."""
    response_bytes_per_second: float = 0.0
    """Least rate at which a client must take a streamed response on average; 0: any rate."""
    patience_seconds: float = 60.0
    """How far a client may fall behind that rate."""
    shutdown_seconds: float = 30.0
    """Time for requests under way to finish when the server is told to stop."""
