"""Bodies of requests, as the application reads them: ``wsgi.input``.

A read returns the bytes that have arrived, at most as many as were asked for, and none only at the
end of the body. It waits for the client, at most `HTTPLimits.stall_seconds`. A connection that
ends before the body does, by its framing, raises an error: it is never the end of the body.
"""

from typing import Final, Protocol

_CRLF: Final = b"\r\n"
_RECEIVE_BYTES: Final = 1 << 16
_SIZE_LINE_MAX: Final = 256
"""The longest line with the size of a chunk, what may follow the size included."""
_SIZE_DIGITS_MAX: Final = 15
_TRAILERS_BYTES_MAX: Final = 8 << 10
_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class StallError(Exception):
    """A client did nothing for too long."""


class BodyCutError(ConnectionError):
    """The connection ended, or the client stalled, before the body was complete."""


class FramingError(ValueError):
    """The body is not in chunks as RFC 9112, section 7.1, defines them."""


class Channel(Protocol):
    """The connection that a body comes by."""

    stall_seconds: float

    def receive(self, size: int) -> bytes:
        """Wait for something to come; return nothing when the client has ended the connection.

        Raises:
            StallError: Nothing came for `stall_seconds`.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send something, all of it.

        Raises:
            OSError: The connection broke.
            StallError: The client takes nothing.
        """
        ...


class RequestBody:
    """What bodies of both framings have in common."""

    def __init__(self, channel: Channel, buffer: bytes, *, expects_continue: bool = False) -> None:
        """Begin.

        Args:
            channel: Where the rest comes from.
            buffer: What has come of the body already, and maybe of the next request.
            expects_continue: Whether the client waits to be told that its body is wanted.
        """
        self._channel = channel
        self._expects_continue = expects_continue and not buffer
        self.buffer = buffer
        """What came and was not read; at the end of the body, what came behind it."""
        self.is_at_end = False
        """Whether the whole body was read."""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the body: all of them if no size is given.

        Raises:
            BodyCutError: The connection ended, or the client stopped, before the body was whole.
            FramingError: The chunks are malformed.
        """
        if size < 0:
            return b"".join(iter(lambda: self._read(_RECEIVE_BYTES), b""))
        return self._read(size) if size else b""

    def _read(self, size: int) -> bytes:
        raise NotImplementedError

    def _receive(self, size: int) -> bytes:
        try:
            if self._expects_continue:
                self._expects_continue = False
                self._channel.send(_CONTINUE)
            received = self._channel.receive(size)
        except StallError:
            raise BodyCutError(
                f"nothing more of the body came for {self._channel.stall_seconds:g} seconds"
            ) from None
        except OSError:
            received = b""
        if not received:
            raise BodyCutError(self._cut_message())
        return received

    def _cut_message(self) -> str:
        raise NotImplementedError


class BodyOfLength(RequestBody):
    """A body whose length was announced."""

    def __init__(
        self, channel: Channel, buffer: bytes, length: int, *, expects_continue: bool = False
    ) -> None:
        super().__init__(channel, buffer, expects_continue=expects_continue)
        self._length = length
        self._left = length
        self.is_at_end = not length
        if self._expects_continue and not length:
            # Nothing is waited for. But botocore, once it gets an answer in place of this word,
            # misreads the next answer on the same connection, and waits for its end in vain.
            channel.send(_CONTINUE)

    def _read(self, size: int) -> bytes:
        size = min(size, self._left)
        if not size:
            return b""
        if self.buffer:
            piece, self.buffer = self.buffer[:size], self.buffer[size:]
        else:
            piece = self._receive(size)
        self._left -= len(piece)
        self.is_at_end = not self._left
        return piece

    def _cut_message(self) -> str:
        return f"the body ended after {self._length - self._left} of {self._length} bytes"


class ChunkedBody(RequestBody):
    """A body in chunks, each with its size, the last one empty."""

    def __init__(self, channel: Channel, buffer: bytes, *, expects_continue: bool = False) -> None:
        super().__init__(channel, buffer, expects_continue=expects_continue)
        self._at = 0
        """How much of the buffer was read: to cut it at every chunk would cost much."""
        self._left = 0
        self._is_behind_chunk = False

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size and not self.is_at_end:
            if not self._left:
                if pieces and self.buffer.find(_CRLF, self._at + len(_CRLF)) < 0:
                    break  # what came is handed on before more is waited for
                self._begin_chunk()
                continue
            if self._at == len(self.buffer):
                if pieces:
                    break
                self.buffer, self._at = self._receive(_RECEIVE_BYTES), 0
            piece = self.buffer[self._at : self._at + min(size, self._left)]
            pieces.append(piece)
            self._at += len(piece)
            self._left -= len(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _begin_chunk(self) -> None:
        if self._is_behind_chunk and self._take_line(0):
            raise FramingError("a chunk of the body is longer than its size says")
        self._is_behind_chunk = True
        self._left = _parse_size(self._take_line(_SIZE_LINE_MAX))
        if not self._left:
            allowed = _TRAILERS_BYTES_MAX
            while line := self._take_line(allowed):
                allowed -= len(line)
            self.buffer, self._at = self.buffer[self._at :], 0
            self.is_at_end = True

    def _take_line(self, length_max: int) -> bytes:
        """Take a line off, and return it without its end."""
        while (end := self.buffer.find(_CRLF, self._at)) < 0:
            if len(self.buffer) - self._at > length_max + 1:
                break
            more = self._receive(_RECEIVE_BYTES)
            self.buffer, self._at = self.buffer[self._at :] + more, 0
        if not 0 <= end - self._at <= length_max:
            raise FramingError("the body is not in chunks, as its Transfer-Encoding says")
        line, self._at = self.buffer[self._at : end], end + len(_CRLF)
        if b"\r" in line or b"\n" in line:
            # Some proxies end a line there, and would see other chunks than we do.
            raise FramingError("a line between the chunks of the body does not end with CR LF")
        return line

    def _cut_message(self) -> str:
        return "the body ended before its last chunk"


def _parse_size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= _SIZE_DIGITS_MAX or not _HEX_DIGITS.issuperset(digits):
        raise FramingError(f"a chunk of the body has no size: {line[:40]!r}")
    return int(digits, 16)
