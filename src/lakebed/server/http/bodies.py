"""Request bodies, bounded in size and in time.

A body is complete or an error: a body cut off by the client raises `BodyCut`, whether its length
was announced or the body is chunked. Iterators of chunks raise at the end of an incomplete body, so
a storage that publishes an object only after its iterator ends well never publishes half an object.

    LakebedError
    └── BodyError
        ├── LengthRequired  a body without a required length                         411
        ├── BodyCut         the client went away, or announced a wrong length        400
        ├── BodyTooLarge    longer than the operation allows                         413
        ├── BodyTooSlow     above the time limit or below the minimum rate           408
        └── MalformedBody   contradicts its Content-Type or framing                  400
"""

import time
from collections.abc import Callable, Iterator
from typing import ClassVar, Final
from wsgiref.types import WSGIEnvironment

from lakebed.base.errors import LakebedError
from lakebed.server.http.request import while_reading

CHUNK_BYTES: Final = 1 << 18
"""The maximum size of one read."""
PATIENCE_SECONDS: Final = 60.0
"""The time budget of a client that sends nothing; received bytes extend it."""

_LENGTH_DIGITS_MAX: Final = 18
_SMALL_BYTES: Final = 1 << 16


class BodyError(LakebedError):
    """An invalid request body; the request had no effect."""

    kind: ClassVar[str] = "body"


class LengthRequired(BodyError):
    """The request has neither a Content-Length nor a chunked body."""

    kind = "length_required"

    def __init__(self) -> None:
        super().__init__("the request needs a Content-Length")


class BodyCut(BodyError):
    """The body ended early."""

    kind = "body_cut"


class BodyTooLarge(BodyError):
    """The body is longer than the operation allows."""

    kind = "body_too_large"

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the body is larger than the limit of {bytes_max} bytes")


class BodyTooSlow(BodyError):
    """The body exceeded the time limit, or fell below the minimum rate."""

    kind = "body_too_slow"


class MalformedBody(BodyError):
    """The body contradicts its Content-Type or framing."""

    kind = "malformed_body"


class Body:
    """The body of one request; it can be read once."""

    def __init__(
        self,
        environ: WSGIEnvironment,
        *,
        seconds_max: float,
        rate_min: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the body from a WSGI environment.

        `rate_min` is the minimum average rate in bytes/s; 0: no minimum.

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
                f"invalid Content-Length {text[:40]!r}: send the number of bytes of the body"
            )
        self.length: Final = int(text) if text else None
        """The announced number of bytes, or None if not announced."""
        self.received = 0

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole body in chunks of bounded size.

        Raises:
            LengthRequired: The request has neither a length nor a chunked body.
            BodyCut: The body ended early, or the client stopped.
            MalformedBody: The chunked encoding is invalid.
            BodyTooSlow: The time limit or the minimum rate was violated.
        """
        if self.length is None and not self._is_chunked:
            raise LengthRequired
        return self._chunks()

    def read(self, bytes_max: int) -> bytes:
        """Return the whole of a small body; empty if the request has none.

        Raises:
            BodyTooLarge: The body is longer than `bytes_max`.
            BodyError: As in `chunks`.
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
        """Read a body of unknown length, reserving memory for a small one first, then the maximum.

        Most bodies are small; reserving the maximum at once would block other requests.
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
            if self._rate_min:  # the server's own time does not count
                self._patience += len(chunk) / self._rate_min - (now - begun)
                if self._patience < 0:
                    raise BodyTooSlow(
                        f"the body arrives too slowly: {self.received + len(chunk)} bytes so far;"
                        f" send at least {self._rate_min:g} bytes/s"
                    )
                self._patience = min(self._patience, PATIENCE_SECONDS)
            self.received += len(chunk)
            if now - self._begun > self._seconds_max:
                raise BodyTooSlow(f"the body took longer than {self._seconds_max:g} seconds")
            yield chunk
        if self.length is not None and self.received != self.length:
            raise BodyCut(f"the body ended after {self.received} of {self.length} bytes")
