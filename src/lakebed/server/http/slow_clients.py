"""Cuts off clients that stop in the middle: each of them holds a thread, and a slot.

The HTTP server has no time limit for bodies. (Nor can a thread be freed by answering the request
while another thread still reads its body: that brings the whole worker to a standstill.) What ends
a read or a write is the end of the connection, so this closes connections. It looks now and then at
what the system knows of each of them; listening sockets and threads are left alone.

**Clients that take nothing.** A connection is closed if its queue is not empty and the client has
acknowledged nothing for `stall_seconds`. Clients that have gone away are found in this way too.

**Clients that send nothing.** The record of a request shows that its body stands still, but not
which connection it came by. So the connection is found by the address of the peer and by the time
when data last came. It is closed if it received nothing for `stall_seconds`, nothing that came is
left to be read, and its last data fits a request that stands still and no other request. If it may
be that of another one, nothing is done until that one has ended and the HTTP server has had time to
send its answer. So a request that is alive is not cut off; one that stands still may last longer.
A connection without a request may fit by chance: its client just opens another when it needs one.

**Clients that are gone** without a word, between two requests, are found by keep-alive probes.

Where the system does not know these things (other than Linux), clients that stop are left alone.
"""

import fcntl
import logging
import os
import socket
import stat
import struct
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final

from lakebed.server.http import refusals
from lakebed.server.http.refusals import Refusal
from lakebed.server.http.request import RequestRecord, records_under_way

_LOGGER: Final = logging.getLogger(__name__)
_HANDLES: Final = Path("/dev/fd")
_LOOKS_A_STALL: Final = 8

# The system may have data before a thread takes it up, and the clock is read a little later. On a
# machine that has too much to do, all of this takes longer: see `Stalls.look`.
_BEHIND_SECONDS: Final = 30.0
BEFORE_SECONDS: Final = 5.0
_AFTER_SECONDS: Final = 1.0

# Behind eight bytes of flags: the twelfth number is the age of the last data in milliseconds
# (tcpi_last_data_recv), and behind 24 numbers and two rates are the bytes acknowledged.
_INFO: Final = struct.Struct("=8x44xI64xQ")
_SO_COOKIE: Final = 57
_RESOLUTION_SECONDS: Final = 0.1
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


_WORDS: Final = {
    Refusal.STALLED_UPLOAD: "stopped in a body",
    Refusal.STALLED_DOWNLOAD: "takes nothing of an answer",
}


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of this process, as the system sees it."""

    peer: str
    received_at: float
    """When data last came, by the monotonic clock."""
    handle: int = -1
    cookie: bytes = b""
    """What makes it different from the next connection that gets the same handle."""
    acknowledged: int = 0
    """How many bytes the client has acknowledged."""
    queued: int = 0
    """How many it has not."""
    unread: int = 0
    """How many came that the HTTP server has not read yet."""


def fits(record: RequestRecord, connection: Connection) -> bool:
    """Whether a request that stands still may have come by a connection."""
    earliest = max(record.begun, record.received_at - _BEHIND_SECONDS) - BEFORE_SECONDS
    latest = record.received_at + _AFTER_SECONDS
    return record.peer == connection.peer and earliest <= connection.received_at <= latest


def may_be_of(record: RequestRecord, connection: Connection, *, slack: float) -> bool:
    """Whether a request that is alive may have come by a connection."""
    behind = _BEHIND_SECONDS if record.is_receiving else record.received_at - record.begun
    earliest = max(record.begun, record.received_at - behind) - slack
    # What the client sends of a body is not known before somebody reads it.
    is_ahead = not record.has_whole_body and not record.is_receiving
    latest = inf if is_ahead else record.received_at + _AFTER_SECONDS
    return record.peer == connection.peer and earliest <= connection.received_at <= latest


def stalled(
    records: list[RequestRecord],
    connections: list[Connection],
    *,
    before: float,
    slack: float = BEFORE_SECONDS,
) -> list[Connection]:
    """Return the connections of bodies that stopped: nothing came since `before`.

    Args:
        records: All requests under way, and those that ended a moment ago.
        connections: All that there are.
        before: The latest that something may have come.
        slack: How long it may take from the arrival of a request until a thread begins with it.
    """
    waiting = [record for record in records if record.is_receiving and record.received_at < before]
    if not waiting:
        return []
    others = [record for record in records if record not in waiting]
    return [
        connection
        for connection in connections
        if connection.received_at < before
        and not connection.unread
        and any(fits(record, connection) for record in waiting)
        and not any(may_be_of(record, connection, slack=slack) for record in others)
    ]


class Untaken:
    """Remembers which connections have something queued, and since when nothing of it is taken."""

    def __init__(self) -> None:
        self._since: dict[bytes, tuple[int, float]] = {}

    def look(self, connections: list[Connection], now: float) -> None:
        """Take note of all connections there are."""
        before, self._since = self._since, {}
        for connection in connections:
            if connection.queued:
                acknowledged, since = before.get(connection.cookie, (-1, now))
                has_moved = acknowledged != connection.acknowledged
                self._since[connection.cookie] = (
                    connection.acknowledged,
                    now if has_moved else since,
                )

    def stalled(self, connections: list[Connection], *, before: float) -> list[Connection]:
        """Return the connections of which nothing was taken since `before`."""
        return [
            connection
            for connection in connections
            if connection.cookie in self._since and self._since[connection.cookie][1] < before
        ]


class Stalls:
    """Looks after the connections of one worker."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._seconds = seconds
        self._untaken = Untaken()

    def start(self) -> None:
        """Begin to look, in a thread."""
        if hasattr(socket, "TCP_INFO"):
            threading.Thread(target=self._run, name="lakebed-stalls", daemon=True).start()

    def _run(self) -> None:
        pause = self._seconds / _LOOKS_A_STALL
        while True:
            begun = time.monotonic()
            time.sleep(pause)
            try:
                self.look(late_seconds=time.monotonic() - begun - pause)
            except Exception:
                _LOGGER.exception("cannot look for clients that stopped")

    def look(self, *, late_seconds: float = 0.0) -> None:
        """Close the connections of clients that have stopped.

        Args:
            late_seconds: How much later than meant this is called: other threads are late as well.
        """
        slack = BEFORE_SECONDS + 2 * late_seconds
        now = time.monotonic()
        records = records_under_way(left_since=now - slack)
        connections = list(self._connections())
        before = now - self._seconds
        self._untaken.look(connections, now)
        for connection in stalled(records, connections, before=before, slack=slack):
            # The answer, that the body was cut, can still go out.
            _cut(connection, socket.SHUT_RD, Refusal.STALLED_UPLOAD)
        for connection in self._untaken.stalled(connections, before=before):
            _cut(connection, socket.SHUT_RDWR, Refusal.STALLED_DOWNLOAD)

    def _connections(self) -> Iterator[Connection]:
        for handle in _sockets():
            with suppress(OSError), _copy_of(handle) as copy:  # it listens, or is closed
                if copy.family != socket.AF_UNIX and copy.getsockname()[1] == self._port:
                    peer: str = copy.getpeername()[0]
                    self._probe_when_idle(copy)
                    yield _facts(handle, copy, peer)

    def _probe_when_idle(self, connection: socket.socket) -> None:
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
            return
        seconds = max(1, int(self._seconds))
        for name, value in (
            (socket.TCP_KEEPIDLE, seconds),
            (socket.TCP_KEEPINTVL, max(1, seconds // 4)),
            (socket.TCP_KEEPCNT, 4),
        ):
            connection.setsockopt(socket.IPPROTO_TCP, name, value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _facts(handle: int, connection: socket.socket, peer: str) -> Connection:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    age_ms, acknowledged = _INFO.unpack(info)
    return Connection(
        peer,
        time.monotonic() - age_ms / 1000,
        handle,
        _cookie(connection),
        acknowledged,
        _queue_length(connection, termios.TIOCOUTQ),
        _queue_length(connection, termios.FIONREAD),
    )


def _queue_length(connection: socket.socket, queue: int) -> int:
    return int.from_bytes(fcntl.ioctl(connection, queue, bytes(4)), "little")


def _cut(connection: Connection, how: int, why: Refusal) -> None:
    with suppress(OSError), _copy_of(connection.handle) as copy:  # it has gone by itself
        now = _facts(connection.handle, copy, connection.peer)
        is_same = now.cookie == connection.cookie
        if not is_same or now.received_at > connection.received_at + _RESOLUTION_SECONDS:
            return
        refusals.count(why, f"cut off a client that {_WORDS[why]}", client=connection.peer)
        if how == socket.SHUT_RDWR:
            # Otherwise the system would go on to keep and offer what was not taken.
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        copy.shutdown(how)


def _cookie(connection: socket.socket) -> bytes:
    return connection.getsockopt(socket.SOL_SOCKET, _SO_COOKIE, 8)


@contextmanager
def _copy_of(handle: int) -> Iterator[socket.socket]:
    """A handle of the same socket that nobody else closes."""
    with socket.socket(fileno=os.dup(handle)) as copy:
        yield copy


def _sockets() -> list[int]:
    handles = []
    for path in _HANDLES.iterdir():
        with suppress(OSError):  # closed meanwhile
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                handles.append(int(path.name))
    return handles
