"""A client that costs little: prepared requests over a few connections, in one thread.

What a Python client library spends on a request is more than what the server spends; so requests
are made beforehand, as bytes, and of an answer only its head is looked at, and how long it is.
Answers to requests of one kind are mostly equally long: one that comes in one piece, as long as the
last one, is whole.
"""

import itertools
import math
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

_received = bytearray(1 << 20)
"""What came last."""
_HEAD_BYTES = 1 << 14
"""No more than this of an answer is looked at; the system drops the rest."""
_SUCCESS = b"HTTP/1.1 2"
_REFUSAL = b"HTTP/1.1 503"
BESIDE_PER_SECOND = 40
BESIDE_CONNECTIONS = 8
"""So that each upload may take 200 ms before the next one on its connection is late."""


@dataclass(slots=True)
class _Connection:
    """One connection, with a request under way."""

    socket: socket.socket
    requests: Iterator[bytes]
    """What is to be sent."""
    head: bytearray = field(default_factory=bytearray)
    """What came of the answer until its head was there."""
    missing: int | None = None
    """How much of the answer is still to come, once its head is there."""
    usual: int = 0
    """How long the last answer was."""
    was_refused: bool = False
    interval_seconds: float = 0.0
    """How much later each request begins than the one before; 0: when that is answered."""
    due: float = 0.0
    """When the next request begins, if there is an interval."""


@dataclass(slots=True)
class Load:
    """Result of sending requests."""

    seconds: float = 0.0
    answered: int = 0
    """With a success."""
    refused: int = 0
    """By 503."""
    beside: int = 0
    """Uploads that were answered meanwhile, with a success."""

    @property
    def per_second(self) -> float:
        """How many requests were answered in a second."""
        return self.answered / self.seconds


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
    load = send(port, requests, connections=connections, seconds=seconds, with_bodies=with_bodies)
    if load.refused:
        raise ConnectionError(f"the server refused {load.refused} requests")
    return load.per_second


def send(
    port: int,
    requests: Iterator[bytes],
    *,
    connections: int,
    seconds: float,
    with_bodies: bool = True,
) -> Load:
    """Send requests for some seconds, or until there are none, one at a time on a connection."""
    return send_each(port, [requests] * connections, seconds=seconds, with_bodies=with_bodies)


def send_each(
    port: int,
    series: Sequence[Iterator[bytes]],
    *,
    seconds: float = math.inf,
    with_bodies: bool = True,
    beside: Iterator[bytes] | None = None,
) -> Load:
    """Send each series of requests on a connection of its own, one after the other.

    `beside`: uploads without end, of which `BESIDE_PER_SECOND` are sent meanwhile.
    """
    sender = _Sender(port, with_bodies=with_bodies)
    for requests in series:
        sender.connect(requests)
    begun = time.perf_counter()
    if beside is not None:
        for number in range(BESIDE_CONNECTIONS):
            sender.connect(beside, due=begun + number / BESIDE_PER_SECOND)
    while sender.is_busy and time.perf_counter() - begun < seconds:
        sender.step()
    sender.load.seconds = time.perf_counter() - begun
    sender.close()
    return sender.load


class _Sender:
    """All connections of a load."""

    def __init__(self, port: int, *, with_bodies: bool) -> None:
        self._port = port
        self._with_bodies = with_bodies
        self._poll = select.epoll()
        self._opened: dict[int, _Connection] = {}
        self._paced: list[_Connection] = []
        """Connections that wait until their next request is due."""
        self._uploads = Load()
        self.load = Load()

    @property
    def is_busy(self) -> bool:
        """Whether a connection without an interval is left."""
        return any(not each.interval_seconds for each in self._opened.values())

    def connect(self, requests: Iterator[bytes], *, due: float = 0.0) -> None:
        """Open a connection and send its first request, unless that is due later."""
        request = b"" if due else next(requests, None)
        if request is None:
            return
        connection = _Connection(socket.create_connection(("127.0.0.1", self._port)), requests)
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opened[connection.socket.fileno()] = connection
        self._poll.register(connection.socket, select.EPOLLIN)
        if due:
            connection.interval_seconds = BESIDE_CONNECTIONS / BESIDE_PER_SECOND
            connection.due = due
            self._paced.append(connection)
        else:
            connection.socket.sendall(request)

    def step(self) -> None:
        """Send the uploads that are due, and take the answers that are there."""
        for number, _ in self._poll.poll(self._send_due()):
            connection = self._opened[number]
            counted = self._uploads if connection.interval_seconds else self.load
            if _receive(connection, counted, with_bodies=self._with_bodies):
                self._go_on(connection)

    def close(self) -> None:
        """Close all connections, and count the uploads."""
        self.load.beside = self._uploads.answered
        self._poll.close()
        for connection in self._opened.values():
            connection.socket.close()

    def _send_due(self) -> float:
        """Send the uploads that are due; return how many seconds to wait for the next at most."""
        if not self._paced:
            return 5.0
        now = time.perf_counter()
        for connection in [each for each in self._paced if each.due <= now]:
            self._paced.remove(connection)
            connection.due += connection.interval_seconds
            connection.socket.sendall(next(connection.requests))
        return min((each.due - now for each in self._paced), default=5.0)

    def _go_on(self, connection: _Connection) -> None:
        """Send the next request, now or when it is due, or close the connection."""
        if not connection.was_refused:
            if connection.interval_seconds:
                self._paced.append(connection)
                return
            request = next(connection.requests, None)
            if request is not None:
                connection.socket.sendall(request)
                return
        # Behind a refusal, the server may close it: if it did not read the body.
        self._opened.pop(connection.socket.fileno()).socket.close()
        self.connect(connection.requests, due=connection.due)


def _receive(connection: _Connection, load: Load, *, with_bodies: bool) -> bool:
    """Take what came; return whether an answer is complete."""
    if connection.missing is None:
        count = connection.socket.recv_into(_received, _HEAD_BYTES)
        if not count:
            raise ConnectionError("the server closed the connection")
        if count == connection.usual and not connection.head and _received.startswith(_SUCCESS):
            load.answered += 1
            return True
        _read_head(connection, count, with_bodies=with_bodies)
    if connection.missing:
        connection.missing -= _drop(connection.socket)
    if connection.missing != 0:
        return False
    if connection.head.startswith(_SUCCESS):
        load.answered += 1
    else:
        load.refused += 1
        connection.was_refused = True
    connection.head.clear()
    connection.missing = None
    return True


def _drop(connected: socket.socket) -> int:
    """Take what came without a copy of it; return how much it was.

    To copy large answers takes a good part of what it costs to make and send them.
    """
    try:
        count = connected.recv_into(_received, 0, socket.MSG_TRUNC | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0
    if not count:
        raise ConnectionError("the server closed the connection")
    return count


def _read_head(connection: _Connection, count: int, *, with_bodies: bool) -> None:
    """Find out from the bytes that came how much of the answer is still to come."""
    before = len(connection.head)
    connection.head += memoryview(_received)[:count]
    head_end = connection.head.find(b"\r\n\r\n")
    if head_end >= 0:
        length = _body_length(bytes(connection.head[:head_end])) if with_bodies else 0
        whole = head_end + 4 + length
        connection.missing = whole - before - count
        connection.usual = whole if connection.head.startswith(_SUCCESS) else 0


def _body_length(head: bytes) -> int:
    status, *headers = head.split(b"\r\n")
    if not status.startswith((_SUCCESS, _REFUSAL)):
        raise ConnectionError(f"the server answered {status!r}")
    for header in headers:
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


def repeated(make: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield a request for each number from 0 on."""
    return map(make, itertools.count())
