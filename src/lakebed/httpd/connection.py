"""One connection: its socket, bytes received and not read, bytes not sent yet.

One thread at a time holds a connection, or none while it waits at the selector. Its `stage` says
for which event.
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
from typing import Any, Final, Protocol

from lakebed.httpd.bodies import StallError
from lakebed.httpd.heads import HeadReader
from lakebed.httpd.limits import HTTPLimits
from lakebed.httpd.tls import TLSSocket

_RECEIVE_BYTES: Final = 1 << 16
_FILE_BYTES_MIN: Final = 2 << 20
"""Less of a file is sent as fast by reading it."""
_SENT_BYTES: Final = 1 << 18
"""How much of a file is sent by one call. With more, a client on this machine is woken more often,
and to wake it takes longer than to send."""
_LOCAL_BUFFER_BYTES: Final = 1 << 18
"""How much of a file is on its way to a client on this machine; the system makes it twice as much.
If the system puts both on one processor, a sender that never waits keeps the client from it, and
has twice to four times as long. One that waits now and then is put elsewhere when it goes on."""
_NOTHING: Final = memoryview(b"")
_RESET_AT_CLOSE: Final = struct.pack("ii", 1, 0)


class ClientCut(StrEnum):
    """Why the server closed a connection that the client still used."""

    STALLED_UPLOAD = auto()
    """The client sent nothing of a body for too long."""
    STALLED_DOWNLOAD = auto()
    """The client took nothing of a response for too long, or took it too slowly."""
    OVERLOADED = auto()
    """There were too many connections, or too many bytes in memory for slow clients."""


Report = Callable[[ClientCut, str, str], object]
"""Called with the kind, the reason in words and the address of a client that was cut."""


class FileRegion(Protocol):
    """A region of an open file that holds the bytes of a response.

    A response iterable with an attribute `file` (a `FileRegion`, or None) may be sent from there by
    ``sendfile``: the server calls `take` for what it has sent, and the iterator yields the rest.
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
        """Count bytes as sent, and the time that it took."""
        ...


class Stage(IntEnum):
    """The event that a connection waits for while no thread holds it.

    Numbers, because Python hashes those by itself, and other members by a call.
    """

    IDLE = auto()
    """The first byte of a request."""
    HEAD = auto()
    """The rest of a head."""
    READY = auto()
    """A thread: what came holds the next request, or its beginning."""
    SENDING = auto()
    """The client, to take the rest of an answer."""
    LINGERING = auto()
    """The client, to end a connection that we ended: what it still sends is dropped. To close at
    once would reset the connection, and the client might not read the answer."""


class ResponseBrokenOffError(Exception):
    """The application could not finish an answer."""


class ClientConnection:
    """A connection with a client."""

    def __init__(
        self,
        connected: socket.socket,
        environ: dict[str, Any],
        limits: HTTPLimits,
        *,
        report: Report,
        release: Callable[[], object],
    ) -> None:
        """Take a connection that does not block.

        Args:
            connected: Its socket.
            environ: Part of the WSGI environment that all its requests share.
            limits: Those of the server.
            report: Called when the client is cut.
            release: Called before a thread waits for the client.
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
        """Events for which it is registered at the selector; 0: it is not."""
        self.stage = Stage.IDLE
        self.deadline = 0.0
        """When the connection has waited for too long, by the monotonic clock."""
        self.reader: HeadReader | None = None
        """Reads the head of the next request, once something of it came."""
        self.buffer = b""
        """What came and was not read."""
        self.unsent = _NOTHING
        """What the client has not taken yet of an answer that is finished."""
        self.keeps_alive = True
        """Whether another request may come, once all is sent."""
        self.is_read = True
        """Whether the last request was read to its end."""
        self.head_until = 0.0
        """When the head that is being read has to be whole."""
        self.dropped = 0
        """How much was dropped while it lingers."""
        self._untaken = 0

    @property
    def peer(self) -> str:
        """The address of the other end."""
        peer: str = self.environ["REMOTE_ADDR"]
        return peer

    @property
    def bytes_held(self) -> int:
        """How many bytes are kept for it: of an answer, and of requests that were not read."""
        answer: Any = self.unsent.obj
        head = 0 if self.reader is None else self.reader.size
        return head + len(self.buffer) + (len(answer) if self.unsent else 0)

    @property
    def has_something(self) -> bool:
        """Whether something came that was not received yet."""
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    @property
    def has_decrypted(self) -> bool:
        """Whether TLS has bytes that were not received yet; the system knows nothing of them."""
        return isinstance(self.socket, TLSSocket) and self.socket.pending() > 0

    def receive_now(self, size: int = _RECEIVE_BYTES) -> bytes | None:
        """Return what is there: None if nothing is, no bytes at the end of the connection."""
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def receive(self, size: int) -> bytes:
        """Wait for something to come; return nothing when the client has ended the connection.

        Raises:
            StallError: Nothing came for `stall_seconds`.
            OSError: The connection broke.
        """
        while True:
            try:
                return self.socket.recv(size)
            except BlockingIOError:
                if not self._wait(select.POLLIN):
                    reason = "cut off a client that stopped in a body"
                    self._report(ClientCut.STALLED_UPLOAD, reason, self.peer)
                    raise StallError from None

    def send_now(self) -> bool:
        """Send of `unsent` what the client takes at once; return whether that was all.

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
        # An empty view of the answer would keep all of it, while the connection is idle.
        self.unsent = _NOTHING
        return True

    def send(self, *buffers: bytes) -> None:
        """Send something, all of it; wait for the client as long as it takes some.

        Raises:
            OSError: The connection broke.
            StallError: The client took nothing for `stall_seconds`, or takes too little; the
                connection is cut.
        """
        left = [memoryview(buffer) for buffer in buffers]
        while left:
            try:
                sent = self.socket.sendmsg(left)
            except BlockingIOError:
                self._wait_for_room()
                continue
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    def stream(self, head: bytes, chunks: Iterable[bytes]) -> None:
        """Send an answer as it is made; the head goes with the first of it.

        One that lies in a file is not read, unless it is small or encrypted.

        Raises:
            ResponseBrokenOffError: The application could not finish it.
            OSError: The connection broke.
            StallError: The client took nothing for `stall_seconds`, or takes too little; the
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
        """Send a file without reading it, as far as the system can."""
        if ip_address(self.peer).is_loopback:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LOCAL_BUFFER_BYTES)
        while left := file.size - file.taken:
            begun, at = time.monotonic(), file.start + file.taken
            try:
                sent = os.sendfile(self.handle, file.descriptor, at, min(_SENT_BYTES, left))
            except BlockingIOError:
                self._wait_for_room()
                continue
            except ConnectionError:
                raise
            except OSError:  # whoever reads on sees why
                return
            if not sent:  # the file was cut short: whoever reads on says so
                return
            file.take(sent, time.monotonic() - begun)

    def note_untaken(self) -> None:
        """Note how much the client has not acknowledged, for `has_taken_some`."""
        self._untaken = self.count_untaken()

    def has_taken_some(self) -> bool:
        """Whether the client has taken something since `note_untaken`.

        The system says that there is room again only when there is much. It knows how much is left.
        """
        before = self._untaken
        self.note_untaken()
        return self._untaken < before

    def count_untaken(self) -> int:
        """Return how many bytes the client has not acknowledged."""
        try:
            return int.from_bytes(fcntl.ioctl(self.socket, termios.TIOCOUTQ, bytes(4)), "little")
        except (OSError, ValueError):  # it broke, or is closed
            return 0

    def cut(self, reason: str = "takes nothing of a response") -> None:
        """Prepare to close a connection whose client takes too little, and count that."""
        self._report(ClientCut.STALLED_DOWNLOAD, f"cut off a client that {reason}", self.peer)
        self.reset_at_close()

    def reset_at_close(self) -> None:
        """Let the system drop what was not taken; it would go on to keep and offer it."""
        with suppress(OSError):  # it is broken, so nothing is kept
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)

    def _wait_for_room(self) -> None:
        untaken, begun = self.count_untaken(), time.monotonic()
        has_room = self._wait(select.POLLOUT)
        taken = untaken - self.count_untaken()
        if not has_room and taken <= 0:
            self.cut()
            raise StallError from None
        if self._rate_min:
            # Only the time for which the client is waited for counts, as for bodies of requests.
            self._patience += max(0, taken) / self._rate_min - (time.monotonic() - begun)
            if self._patience < 0:
                self.cut(f"takes less than {self._rate_min:g} bytes a second of a response")
                raise StallError from None
            self._patience = min(self._patience, self._patience_max)

    def _wait(self, event: int) -> bool:
        self._release()
        waiting = select.poll()
        waiting.register(self.handle, event)
        return bool(waiting.poll(self.stall_seconds * 1000))
