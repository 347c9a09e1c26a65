"""Cuts off clients that stop in the middle: each of them holds a thread, and a slot.

The server has no time limit for bodies. (Nor can a thread be had back by answering the request
while another reads on: that brings the whole worker to a standstill.) What ends a read or a write
is the end of the connection, and that the system can bring about.

**Clients that take nothing.** TCP itself gives up on data that is not taken for a while, if the
socket says so. Connections inherit that from the listening socket, which the server opens; it is
looked for among the files of the process. The same goes for clients that are no longer there.

**Clients that send nothing.** A request whose body stands still is known by its trace; which of the
connections is its own, nobody says. So it is found by what the system knows of each: the address of
the peer, and when data last came. A connection is closed if it has received nothing for as long as
a stall lasts, and its last data fits a request that stands still, and fits no other request under
way. Should another one fit, it waits until that has ended. What else may fit is a connection on
which no request is under way, and whose client opens another when it needs it.

Where the system does not tell (other than Linux), clients that send nothing are left alone.
"""

import logging
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.server.logs import Trace, traces_under_way

_LOGGER: Final = logging.getLogger(__name__)
_HANDLES: Final = Path("/dev/fd")
_LISTENER_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 1.0

# The system may have data before a thread takes it up, and the clock is read a little later.
_BEHIND_SECONDS: Final = 30.0
_BEFORE_SECONDS: Final = 5.0
_AFTER_SECONDS: Final = 1.0

# tcpi_last_data_recv: the age in milliseconds, the twelfth number behind eight bytes of flags.
_LAST_RECEIVED: Final = struct.Struct("=8x44xI")
_INFO_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection of this process, as the system sees it."""

    peer: str
    received_at: float
    """When data last came, by the monotonic clock."""
    copy: socket.socket | None = None
    """A handle of it that nobody else closes."""


def fits(trace: Trace, connection: Connection) -> bool:
    """Whether a request may have come by a connection."""
    earliest = max(trace.begun, trace.received_at - _BEHIND_SECONDS) - _BEFORE_SECONDS
    latest = trace.received_at + _AFTER_SECONDS
    return trace.peer == connection.peer and earliest <= connection.received_at <= latest


def stalled(
    traces: list[Trace], connections: list[Connection], *, before: float
) -> list[Connection]:
    """Return the connections to close: nothing has come since `before`, as it should have."""
    waiting = [trace for trace in traces if trace.is_receiving and trace.received_at < before]
    others = [trace for trace in traces if trace not in waiting]
    return [
        connection
        for connection in connections
        if connection.received_at < before
        and any(fits(trace, connection) for trace in waiting)
        and not any(fits(trace, connection) for trace in others)
    ]


class Stalls:
    """Looks after the connections of one worker."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port = port
        self._seconds = seconds

    def start(self) -> None:
        """Begin to look, in a thread."""
        threading.Thread(target=self._run, name="lakebed-stalls", daemon=True).start()

    def _run(self) -> None:
        self._prepare_listener()
        while hasattr(socket, "TCP_INFO"):
            time.sleep(min(_LOOK_SECONDS, self._seconds / 4))
            try:
                self.look()
            except Exception:
                _LOGGER.exception("cannot look for clients that stopped")

    def look(self) -> None:
        """Close the connections of clients that have stopped in a body."""
        before = time.monotonic() - self._seconds
        traces = traces_under_way()
        if not any(trace.is_receiving and trace.received_at < before for trace in traces):
            return
        with ExitStack() as stack:
            connections = list(self._connections(stack))
            for connection in stalled(traces, connections, before=before):
                _LOGGER.warning("cut off a client that stopped in a body: %s", connection.peer)
                with suppress(OSError):  # it has gone by itself
                    assert connection.copy is not None
                    # The answer, that the body was cut, can still go out.
                    connection.copy.shutdown(socket.SHUT_RD)

    def _connections(self, stack: ExitStack) -> Iterator[Connection]:
        for handle in _sockets():
            with suppress(OSError):  # it listens, or is closed
                copy = stack.enter_context(socket.socket(fileno=os.dup(handle)))
                if copy.family != socket.AF_UNIX and copy.getsockname()[1] == self._port:
                    peer: str = copy.getpeername()[0]
                    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                    (age_ms,) = _LAST_RECEIVED.unpack_from(info)
                    yield Connection(peer, time.monotonic() - age_ms / 1000, copy)

    def _prepare_listener(self) -> None:
        until = time.monotonic() + _LISTENER_SECONDS
        while time.monotonic() < until:
            for handle in _sockets():
                with suppress(OSError), socket.socket(fileno=os.dup(handle)) as candidate:
                    if (
                        candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                        and candidate.getsockname()[1] == self._port
                    ):
                        _set_time_limits(candidate, max(1, int(self._seconds)))
                        return
            time.sleep(_PAUSE_SECONDS)


def _set_time_limits(listener: socket.socket, seconds: int) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", seconds),
        ("TCP_KEEPINTVL", max(1, seconds // 4)),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", seconds * 1000),
    ):
        if hasattr(socket, name):  # not all systems have all of them
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _sockets() -> list[int]:
    handles = []
    for path in _HANDLES.iterdir():
        with suppress(OSError):  # closed meanwhile
            if stat.S_ISSOCK(os.fstat(int(path.name)).st_mode):
                handles.append(int(path.name))
    return handles
