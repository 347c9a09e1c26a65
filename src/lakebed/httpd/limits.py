"""Limits of a server: threads, connections, sizes and times."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """Threads and connections of a process, and sizes and times for clients."""

    threads: int = 64
    """Maximum number of threads that serve requests."""
    connections: int = 10_000
    """Maximum number of open connections; further ones close the longest idle."""
    head_bytes: int = 64 << 10
    """Maximum size of a request head."""
    head_seconds: float = 20.0
    """Time for a client to send a whole head."""
    stall_seconds: float = 60.0
    """Time without progress in a body or response after which a client is cut."""
    response_bytes_per_second: float = 0.0
    """Minimum average rate of a streamed response; 0 disables the check."""
    patience_seconds: float = 60.0
    """Time by which a client may fall behind `response_bytes_per_second`."""
    shutdown_seconds: float = 30.0
    """Time for running requests to finish when the server stops."""
