"""A client that costs little: prepared requests over a few connections, in one thread.

What a Python client library spends on a request is more than what the server spends; so requests
are made beforehand, as bytes, and of an answer only its length is looked at.
"""

import itertools
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

RECEIVE_BYTES = 1 << 18


@dataclass(slots=True)
class _Connection:
    """One connection, with a request under way."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    expected: int | None = None
    """How long the whole answer is, once its head is there."""


def requests_per_second(
    port: int,
    requests: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    with_bodies: bool = True,
) -> float:
    """Return how many requests a server answers, with a success each, in a second.

    Answers to HEAD tell a length and have no body: `with_bodies` is false for them.
    """
    selector = selectors.DefaultSelector()
    for _ in range(connections):
        connection = _Connection(socket.create_connection(("127.0.0.1", port)))
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.socket.sendall(next(requests))
    begun = time.perf_counter()
    answered = 0
    while time.perf_counter() - begun < seconds:
        for key, _ in selector.select(timeout=5):
            if _receive(key.data, with_bodies=with_bodies):
                answered += 1
                key.data.socket.sendall(next(requests))
    elapsed = time.perf_counter() - begun
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    selector.close()
    return answered / elapsed


def _receive(connection: _Connection, *, with_bodies: bool) -> bool:
    """Take what came; return whether an answer is complete."""
    chunk = connection.socket.recv(RECEIVE_BYTES)
    if not chunk:
        raise ConnectionError("the server closed the connection")
    connection.received += chunk
    if connection.expected is None:
        head_end = connection.received.find(b"\r\n\r\n")
        if head_end < 0:
            return False
        length = _body_length(bytes(connection.received[:head_end]))
        connection.expected = head_end + 4 + (length if with_bodies else 0)
    if len(connection.received) < connection.expected:
        return False
    connection.received.clear()
    connection.expected = None
    return True


def _body_length(head: bytes) -> int:
    status, *headers = head.split(b"\r\n")
    if not status.startswith(b"HTTP/1.1 2"):
        raise ConnectionError(f"the server answered {status!r}")
    for header in headers:
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def repeated(make: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield a request for each number from 0 on."""
    return map(make, itertools.count())
