"""Bodies of requests, bounded in size and in time.

A body is whole or an error: one that the client breaks off raises `BodyCut`, whether its length was
announced or it comes in chunks. Iterators of chunks raise at the end if the body is not whole, so a
storage that makes an object visible only when its iterator ends well never shows half an object.

    LakebedError
    └── BodyError
        ├── LengthRequired  a body without a length, where one is needed             411
        ├── BodyCut         it ended early: the client went away, or counted wrong   400
        ├── BodyTooLarge    it is longer than what may be sent here                  413
        ├── BodyTooSlow     it took longer than any body may take, or came too slowly  408
        └── MalformedBody   it is not what its Content-Type says                     400
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from lakebed.base.errors import LakebedError
from lakebed.server.http.request import while_reading

CHUNK_BYTES: Final = 1 << 18
"""How much is read at a time, at most."""
PATIENCE_SECONDS: Final = 60.0
"""How long a client is waited for without getting anything. What it sends gives time back."""

_LENGTH_DIGITS_MAX: Final = 18
_SMALL_BYTES: Final = 1 << 16


class BodyError(LakebedError):
    """Something is wrong with the body of a request; nothing was done."""

    kind: ClassVar[str] = "body"


class LengthRequired(BodyError):
    """The request does not say how long its body is, nor that it comes in chunks."""

    kind = "length_required"

    def __init__(self) -> None:
        super().__init__("the request needs a Content-Length")


class BodyCut(BodyError):
    """The body ended early."""

    kind = "body_cut"


class BodyTooLarge(BodyError):
    """The body is longer than what may be sent here."""

    kind = "body_too_large"

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body is larger than the {bytes_max} bytes that may be sent here")


class BodyTooSlow(BodyError):
    """The body took longer than any body may take, or came too slowly."""

    kind = "body_too_slow"


class MalformedBody(BodyError):
    """The body is not what its Content-Type says."""

    kind = "malformed_body"


class Body:
    """The body of one request; it can be read once."""

    def __init__(
        self,
        environ: Mapping[str, Any],
        *,
        seconds_max: float,
        rate_min: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the body from the environment of a WSGI request.

        Args:
            environ: The environment.
            seconds_max: How long the body may take.
            rate_min: The bytes per second that a client must send on average; 0: any rate will do.
            clock: Tells the time.

        Raises:
            MalformedBody: The announced length is not a number.
        """
        self._input = environ["wsgi.input"]
        self._seconds_max = seconds_max
        self._rate_min = rate_min
        self._patience = PATIENCE_SECONDS
        self._clock = clock
        self._begun = clock()
        self._is_chunked = "HTTP_TRANSFER_ENCODING" in environ
        text: str = environ.get("CONTENT_LENGTH") or ""
        if text and not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX):
            raise MalformedBody(
                f"the Content-Length {text[:40]!r} is not the number of bytes of a body"
            )
        self.length: Final = int(text) if text else None
        """How many bytes were announced; None if that was left open."""
        self.received = 0
        """How many bytes came so far."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole body in chunks of bounded size.

        Raises:
            LengthRequired: The request has neither a length nor a body in chunks.
            BodyCut: The body ended early, or the client stopped.
            MalformedBody: The chunks that it came in are not sound.
            BodyTooSlow: It takes too long.
        """
        if self.length is None and not self._is_chunked:
            raise LengthRequired
        return self._chunks()

    def read(self, bytes_max: int) -> bytes:
        """Return the whole of a small body; it is empty if the request has none.

        Raises:
            BodyTooLarge: It is longer than `bytes_max`.
            BodyCut: The body ended early, or the client stopped.
            MalformedBody: The chunks that it came in are not sound.
            BodyTooSlow: It took too long.
        """
        if self.length is None:
            return self._read_chunked(bytes_max) if self._is_chunked else b""
        if self.length > bytes_max:
            raise BodyTooLarge(bytes_max)
        if self.length == 0:
            return b""
        with while_reading(self.length):
            return b"".join(self._chunks())

    def _read_chunked(self, bytes_max: int) -> bytes:
        """Read a body of unknown length, with memory for a small one first, then for the largest.

        Most are small. To ask for the largest at once would keep others from reading theirs.
        """
        small = min(_SMALL_BYTES, bytes_max)
        parts: list[bytes] = []
        chunks = self._chunks()
        for allowed, more in ((small, small), (bytes_max, bytes_max - small)):
            with while_reading(more):
                while self.received <= allowed:
                    chunk = next(chunks, None)
                    if chunk is None:
                        return b"".join(parts)
                    parts.append(chunk)
        raise BodyTooLarge(bytes_max)

    def _chunks(self) -> Iterator[bytes]:
        while True:
            size = CHUNK_BYTES
            if self.length is not None:
                size = min(size, self.length - self.received)
            begun = self._clock()
            try:
                chunk: bytes = self._input.read(size)
            except OSError as error:
                raise BodyCut(str(error)) from error
            except ValueError as error:
                raise MalformedBody(str(error)) from error
            now = self._clock()
            if not chunk:
                break
            if self._rate_min:  # the time that the server itself takes does not count
                self._patience += len(chunk) / self._rate_min - (now - begun)
                if self._patience < 0:
                    raise BodyTooSlow(
                        f"the body comes too slowly: {self.received + len(chunk)} bytes so far;"
                        f" send {self._rate_min:g} bytes a second or more"
                    )
                self._patience = min(self._patience, PATIENCE_SECONDS)
            self.received += len(chunk)
            if now - self._begun > self._seconds_max:
                raise BodyTooSlow(f"the body took longer than {self._seconds_max:g} seconds")
            yield chunk
        if self.length is not None and self.received != self.length:
            raise BodyCut(f"the body ended after {self.received} of {self.length} bytes")
