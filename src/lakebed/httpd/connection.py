"""A connection: its socket, bytes received and not read, bytes not sent yet.

At most one thread owns a connection; none while it waits at the selector for the event given by its
`stage`.
"""

import fcntl
import os
import select
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum, StrEnum, auto
from ipaddress import ip_address
from typing import Final, Protocol
from wsgiref.types import WSGIEnvironment

from lakebed.httpd.bodies import StallError
from lakebed.httpd.heads import HeadReader
from lakebed.httpd.limits import HTTPLimits
from lakebed.httpd.tls import TLSSocket

_RECEIVE_BYTES: Final = 1 << 16
_FILE_BYTES_MIN: Final = 2 << 20
"""Smaller file regions are sent as fast by reading them."""
_SENT_BYTES: Final = 1 << 18
"""Bytes of a file per call. With more, a local client is woken more often, and waking it takes
longer than sending."""
_LOCAL_BUFFER_BYTES: Final = 1 << 18
"""Send buffer for a local client; the kernel doubles it. If the kernel puts both processes on one
CPU, a sender that never waits starves the client and takes two to four times as long. A sender that
blocks now and then is moved to another CPU when it resumes."""
_NOTHING: Final = memoryview(b"")
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


class ClientCut(StrEnum):
    """Reason for closing a connection that the client still used."""

    STALLED_UPLOAD = auto()
    """The client sent nothing of a body for too long."""
    STALLED_DOWNLOAD = auto()
    """The client accepted nothing of a response for too long, or accepted it too slowly."""
    OVERLOADED = auto()
    """Too many connections, or too much memory for slow clients."""


Report = Callable[[ClientCut, str, str], object]
"""Called with kind, reason and client address when a connection is cut."""


class FileRegion(Protocol):
    """Region of an open file that contains the bytes of a response.

    The server may send a response iterable with a `FileRegion` as its attribute `file` (or None) by
    ``sendfile``: it calls `take` for the bytes sent, and the iterator yields the rest.
    """

    @property
    def descriptor(self) -> int:
        """Descriptor of the file, open until the iterable is closed."""
        ...

    @property
    def start(self) -> int:
        """Offset of the first byte."""
        ...

    @property
    def size(self) -> int:
        """Number of bytes."""
        ...

    @property
    def taken(self) -> int:
        """Number of bytes sent so far."""
        ...

    def take(self, size: int, seconds: float, /) -> None:
        """Count bytes as sent, and the time spent."""
        ...


class Stage(IntEnum):
    """Event that a connection waits for while no thread owns it.

    An IntEnum, because hashing other members takes a Python call.
    """

    IDLE = auto()
    """The first byte of a request."""
    HEAD = auto()
    """The rest of a head."""
    READY = auto()
    """A free thread: (part of) the next request has been received."""
    SENDING = auto()
    """The client accepting the rest of a response."""
    LINGERING = auto()
    """The client closing its end; bytes that it still sends are dropped. Closing at once would
    reset the connection, and the client might not read the response."""


class ResponseBrokenOffError(Exception):
    """The application could not finish a response."""


class ClientConnection:
    """A connection with a client."""

    def __init__(
        self,
        connected: socket.socket,
        environ: WSGIEnvironment,
        limits: HTTPLimits,
        *,
        report: Report,
        release: Callable[[], object],
    ) -> None:
        """Take over a non-blocking connection, with the environment common to its requests.

        `report` is called when the client is cut, `release` before a thread waits for the client.
        """
        self.socket: Final = connected
        self.handle: Final = connected.fileno()
        self.environ: Final = environ
        self.stall_seconds = limits.stall_seconds
        self._rate_min = limits.response_bytes_per_second
        self._patience_max = self._patience = limits.patience_seconds
        self._report = report
        self._release = release
        self.events = 0
        """Events registered at the selector; 0 if not registered."""
        self.stage = Stage.IDLE
        self.deadline = 0.0
        """End of the current wait, by the monotonic clock."""
        self.reader: HeadReader | None = None
        """Parser of the next request's head, once its first byte has arrived."""
        self.buffer = b""
        """Bytes received and not read."""
        self.unsent = _NOTHING
        """Unsent bytes of a finished response."""
        self.keeps_alive = True
        """Whether another request may follow when all is sent."""
        self.is_read = True
        """Whether the last request was read to its end."""
        self.head_until = 0.0
        """Deadline of the head being read."""
        self.dropped = 0
        """Bytes dropped while lingering."""
        self._unacked = 0

    @property
    def peer(self) -> str:
        """Address of the client."""
        peer: str = self.environ["REMOTE_ADDR"]
        return peer

    @property
    def buffered_bytes(self) -> int:
        """Memory used by the connection: unsent response, unread requests."""
        response = self.unsent.obj
        assert isinstance(response, bytes)
        head = 0 if self.reader is None else self.reader.size
        return head + len(self.buffer) + len(response)

    @property
    def has_input(self) -> bool:
        """Whether received bytes are waiting in the socket."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    @property
    def has_decrypted(self) -> bool:
        """Whether TLS has decrypted bytes, which the selector does not report."""
        return isinstance(self.socket, TLSSocket) and self.socket.pending() > 0

    def receive_now(self, size: int = _RECEIVE_BYTES) -> bytes | None:
        """Return available bytes, or None if none; empty at the end of the connection."""
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def receive(self, size: int) -> bytes:
        """Wait for bytes and return them; empty if the client closed the connection.

        Raises:
            StallError: Nothing arrived for `stall_seconds`.
            OSError: The connection broke.
        """
        while True:
            try:
                return self.socket.recv(size)
            except BlockingIOError:
                if not self._wait(select.POLLIN):
                    reason = "client cut: upload stalled"
                    self._report(ClientCut.STALLED_UPLOAD, reason, self.peer)
                    raise StallError from None

    def send_now(self) -> bool:
        """Send as much of `unsent` as the client accepts at once; return whether all was sent.

        Raises:
            OSError: The connection broke.
        """
        try:
            while self.unsent:
                sent = self.socket.send(self.unsent)
                if sent == len(self.unsent):
                    break
                self.unsent = self.unsent[sent:]
        except BlockingIOError:
            return False
        # An empty view would keep the whole response in memory while the connection is idle.
        self.unsent = _NOTHING
        return True

    def send(self, *buffers: bytes) -> None:
        """Send all bytes, waiting as long as the client accepts some.

        Raises:
            OSError: The connection broke.
            StallError: The client accepted nothing for `stall_seconds`, or too little; the
                connection is cut.
        """
        left = [memoryview(buffer) for buffer in buffers]
        while left:
            try:
                sent = self.socket.sendmsg(left)
            except BlockingIOError:
                self._wait_until_writable()
                continue
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def stream(self, head: bytes, chunks: Iterable[bytes]) -> None:
        """Send a response as its chunks are produced; the head goes with the first chunk.

        A response in a file is not read, unless it is small or encrypted.

        Raises:
            ResponseBrokenOffError: The application could not finish the response.
            OSError: The connection broke.
            StallError: The client accepted nothing for `stall_seconds`, or too little; the
                connection is cut.
        """
        self._patience = self._patience_max
        file: FileRegion | None = getattr(chunks, "file", None)
        is_plain = not isinstance(self.socket, TLSSocket)
        if (
            file is not None
            and file.size >= _FILE_BYTES_MIN
            and is_plain
            and hasattr(os, "sendfile")
        ):
            self.send(head)
            head = b""
            self._send_file(file)
        iterator = iter(chunks)
        while True:
            try:
                chunk = next(iterator, None)
            except Exception as error:
                raise ResponseBrokenOffError from error  # the application has logged it
            if head:
                self.send(head, chunk or b"")
                head = b""
            elif chunk:
                self.send(chunk)
            if chunk is None:
                return

    def _send_file(self, file: FileRegion) -> None:
        """Send a file by ``sendfile``, as far as the system supports it."""
        if ip_address(self.peer).is_loopback:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOCAL_BUFFER_BYTES)
        while left := file.size - file.taken:
            begun, at = time.monotonic(), file.start + file.taken
            try:
                sent = os.sendfile(self.handle, file.descriptor, at, min(_SENT_BYTES, left))
            except BlockingIOError:
                self._wait_until_writable()
                continue
            except ConnectionError:
                raise
            except OSError:  # reading the rest shows the cause
                return
            if not sent:  # the file was truncated: reading the rest raises the error
                return
            file.take(sent, time.monotonic() - begun)

    def note_unacked(self) -> None:
        """Record the number of unacknowledged bytes, for `has_acked_some`."""
        self._unacked = self.count_unacked()

    def has_acked_some(self) -> bool:
        """Return whether the client has acknowledged bytes since `note_unacked`.

        The selector reports room only when much is free; the kernel's count is exact.
        """
        before = self._unacked
        self.note_unacked()
        return self._unacked < before

    def count_unacked(self) -> int:
        """Return the number of unacknowledged bytes."""
        try:
            return int.from_bytes(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)), "little")
        except (OSError, ValueError):  # broken or closed
            return 0

    def cut(self, reason: str = "download stalled") -> None:
        """Report a client that accepts too little, and prepare to close the connection."""
        self._report(ClientCut.STALLED_DOWNLOAD, f"client cut: {reason}", self.peer)
        self.reset_at_close()

    def reset_at_close(self) -> None:
        """Make closing discard unsent bytes, which the kernel would otherwise keep sending."""
        with suppress(OSError):  # if the connection is broken, nothing is kept
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)

    def _wait_until_writable(self) -> None:
        unacked, begun = self.count_unacked(), time.monotonic()
        is_writable = self._wait(select.POLLOUT)
        taken = unacked - self.count_unacked()
        if not is_writable and taken <= 0:
            self.cut()
            raise StallError from None
        if self._rate_min:
            # Only time spent waiting for the client counts, as for request bodies.
            self._patience += max(0, taken) / self._rate_min - (time.monotonic() - begun)
            if self._patience < 0:
                self.cut(f"download slower than {self._rate_min:g} bytes/s")
                raise StallError from None
            self._patience = min(self._patience, self._patience_max)

    def _wait(self, event: int) -> bool:
        self._release()
        waiting = select.poll()
        waiting.register(self.handle, event)
        return bool(waiting.poll(self.stall_seconds * 1000))
