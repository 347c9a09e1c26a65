"""Request bodies, as ``wsgi.input``.

A read returns available bytes, at most as many as requested, and none only at the end of the body.
It waits for the client, at most `HTTPLimits.stall_seconds`. A connection that ends before the end
of the body, by its framing, raises an error instead of ending the body.
"""

from typing import Final, Protocol

_CRLF: Final = b"\r\n"
_RECEIVE_BYTES: Final = 1 << 16
_SIZE_LINE_MAX: Final = 256
"""Maximum length of a chunk-size line, including chunk extensions."""
_SIZE_DIGITS_MAX: Final = 15
_TRAILERS_BYTES_MAX: Final = 8 << 10
_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class StallError(Exception):
    """A client sent or accepted nothing for too long."""


class BodyCutError(ConnectionError):
    """The connection ended, or the client stalled, before the body was complete."""


class FramingError(ValueError):
    """The body violates the chunked coding of RFC 9112, section 7.1."""


class Channel(Protocol):
    """Connection from which a body is read."""

    stall_seconds: float

    def receive(self, size: int) -> bytes:
        """Wait for bytes and return them; empty if the client closed the connection.

        Raises:
            StallError: Nothing arrived for `stall_seconds`.
        """
        ...

    def send(self, data: bytes) -> None:
        """Send all bytes.

        Raises:
            OSError: The connection broke.
            StallError: The client accepts nothing.
        """
        ...


class RequestBody:
    """Common base of bodies of both framings."""

    def __init__(self, channel: Channel, buffer: bytes, *, expects_continue: bool = False) -> None:
        """Begin a body.

        Args:
            channel: Source of the remaining bytes.
            buffer: Bytes received so far of the body, and possibly of the next request.
            expects_continue: Whether the client waits for "100 Continue".
        """
        self._channel = channel
        self._expects_continue = expects_continue and not buffer
        self.buffer = buffer
        """Bytes received and not read; at the end of the body, the bytes after it."""
        self.is_at_end = False
        """Whether the whole body was read."""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the body; without a size, all of them.

        Raises:
            BodyCutError: The connection ended, or the client stalled, before the end of the body.
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
                f"the body stalled for {self._channel.stall_seconds:g} seconds"
            ) from None
        except OSError:
            received = b""
        if not received:
            raise BodyCutError(self._cut_message())
        return received

    def _cut_message(self) -> str:
        raise NotImplementedError


class BodyOfLength(RequestBody):
    """A body with a Content-Length."""

    def __init__(
        self, channel: Channel, buffer: bytes, length: int, *, expects_continue: bool = False
    ) -> None:
        super().__init__(channel, buffer, expects_continue=expects_continue)
        self._length = length
        self._left = length
        self.is_at_end = not length
        if self._expects_continue and not length:
            # The body is empty, but if botocore gets the response in place of "100 Continue", it
            # misreads the next response on the connection and waits for its end forever.
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
    """A body in the chunked coding."""

    def __init__(self, channel: Channel, buffer: bytes, *, expects_continue: bool = False) -> None:
        super().__init__(channel, buffer, expects_continue=expects_continue)
        self._at = 0
        """Read position in the buffer: cutting the buffer at every chunk would be expensive."""
        self._left = 0
        self._is_behind_chunk = False

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size and not self.is_at_end:
            if not self._left:
                if pieces and self.buffer.find(_CRLF, self._at + len(_CRLF)) < 0:
                    break  # return the received bytes before waiting for more
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
            raise FramingError("a chunk of the body is longer than its size")
        self._is_behind_chunk = True
        self._left = _parse_size(self._take_line(_SIZE_LINE_MAX))
        if not self._left:
            allowed = _TRAILERS_BYTES_MAX
            while line := self._take_line(allowed):
                allowed -= len(line)
            self.buffer, self._at = self.buffer[self._at :], 0
            self.is_at_end = True

    def _take_line(self, length_max: int) -> bytes:
        """Consume a line and return it without its end."""
        while (end := self.buffer.find(_CRLF, self._at)) < 0:
            if len(self.buffer) - self._at > length_max + 1:
                break
            more = self._receive(_RECEIVE_BYTES)
            self.buffer, self._at = self.buffer[self._at :] + more, 0
        if not 0 <= end - self._at <= length_max:
            raise FramingError("the body violates the chunked coding of its Transfer-Encoding")
        line, self._at = self.buffer[self._at : end], end + len(_CRLF)
        if b"\r" in line or b"\n" in line:
            # Some proxies accept this as a line end, and would see different chunks.
            raise FramingError("a line between the chunks of the body does not end with CR LF")
        return line

    def _cut_message(self) -> str:
        return "the body ended before its last chunk"


def _parse_size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= _SIZE_DIGITS_MAX or not _HEX_DIGITS.issuperset(digits):
        raise FramingError(f"a chunk of the body has no valid size: {line[:40]!r}")
    return int(digits, 16)
