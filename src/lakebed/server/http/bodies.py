"""Bodies of requests that prove their end.

The HTTP server does not report a connection that broke off in a body: that looks like the end of
the body. So nothing that came from a body may become visible before the body has proved that it is
whole, in one of two ways:

- its length was announced, and so many bytes came (`Body.chunks`, `Body.read`);
- its own framing has an end: the closing boundary of a form (see `forms`), the last chunk of a
  signed upload. Such a reader takes `Body.unproven_chunks` and looks for that end itself.

The coding that HTTP calls chunked has an end too, but the server hides it: such a body proves
nothing. Iterators of chunks raise at the end if the body is not whole, so a storage that makes an
object visible only when its iterator ends well never shows half an object.

    LakebedError
    └── BodyError
        ├── LengthRequired  a body without a length that does not prove its end      411
        ├── BodyCut         it ended early: the client went away, or counted wrong   400
        ├── BodyTooLarge    it is longer than what may be sent here                  413
        ├── BodyTooSlow     it took longer than any body may take, or came too slowly  408
        └── MalformedBody   it is not what its Content-Type says                     400
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final

from lakebed.errors import LakebedError
from lakebed.server.http.request import current_record, while_reading

CHUNK_BYTES: Final = 1 << 18
"""How much is read at a time, at most."""
PATIENCE_SECONDS: Final = 60.0
"""How long a client is waited for without getting anything. What it sends gives time back."""

_LENGTH_DIGITS_MAX: Final = 18

# The names are the public interface: they say what happened, not that they are errors.
# ruff: noqa: N818


class BodyError(LakebedError):
    """Something is wrong with the body of a request; nothing was done."""

    kind: ClassVar[str] = "body"


class LengthRequired(BodyError):
    """The body has no length, and nothing else that would prove its end."""

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
        self._record = current_record()
        self.length: Final = _length(environ)
        """How many bytes were announced; None if that was left open."""
        self.received = 0
        """How many bytes came so far."""

    def chunks(self) -> Iterator[bytes]:
        """Yield the whole body in chunks of bounded size.

        Raises:
            LengthRequired: No length was announced.
            BodyCut: At the end: fewer bytes came than announced.
            BodyTooSlow: It takes too long.
        """
        if self.length is None:
            raise LengthRequired
        return self.unproven_chunks()

    def unproven_chunks(self) -> Iterator[bytes]:
        """Yield the body like `chunks`, for a reader that proves its end if it has no length.

        Raises:
            BodyCut: At the end: fewer bytes came than announced.
            BodyTooSlow: It takes too long.
        """
        while chunk := self._read(self._wanted()):
            self.received += len(chunk)
            if self._clock() - self._begun > self._seconds_max:
                raise BodyTooSlow(f"the body took longer than {self._seconds_max:g} seconds")
            yield chunk
        if self.length is not None and self.received != self.length:
            raise BodyCut(f"the body ended after {self.received} of {self.length} bytes")

    def read(self, bytes_max: int) -> bytes:
        """Return the whole of a small body; it is empty if the request has none.

        Raises:
            LengthRequired: There is one, and it has no length.
            BodyTooLarge: It is longer than `bytes_max`; nothing was read.
            BodyCut: Fewer bytes came than announced.
            BodyTooSlow: It took too long.
        """
        if self.length is not None and self.length > bytes_max:
            raise BodyTooLarge(bytes_max)
        if self.length == 0:
            return b""
        with while_reading(self.length or 0):
            if self.length is None and not self._read(1):
                return b""
            return b"".join(self.chunks())

    def _read(self, size: int) -> bytes:
        """Wait for something to come, and note that in the record, for `slow_clients` to see."""
        record = self._record
        if record is not None:
            record.is_receiving = True
        begun = self._clock()
        chunk: bytes = self._input.read(size)
        waited = self._clock() - begun
        if record is not None:
            record.is_receiving = False
            record.received_at = time.monotonic()
            record.bytes_received += len(chunk)
            if not chunk or record.bytes_received == self.length:
                record.has_whole_body = True
        self._check_rate(waited, len(chunk))
        return chunk

    def _check_rate(self, waited: float, size: int) -> None:
        """Refuse a body that trickles; the time that the server itself takes does not count."""
        if not self._rate_min or not size:
            return
        self._patience += size / self._rate_min - waited
        if self._patience < 0:
            raise BodyTooSlow(
                f"the body comes too slowly: {self.received + size} bytes so far; send"
                f" {self._rate_min:g} bytes a second or more"
            )
        self._patience = min(self._patience, PATIENCE_SECONDS)

    def _wanted(self) -> int:
        if self.length is None:
            return CHUNK_BYTES
        return min(CHUNK_BYTES, self.length - self.received)


def has_body(environ: Mapping[str, Any]) -> bool:
    """Whether a request announces a body."""
    has_length = environ.get("CONTENT_LENGTH") not in {None, "", "0"}
    return has_length or "HTTP_TRANSFER_ENCODING" in environ


def _length(environ: Mapping[str, Any]) -> int | None:
    text = environ.get("CONTENT_LENGTH") or ""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX):
        raise MalformedBody(
            f"the Content-Length {text[:40]!r} is not the number of bytes of a body"
        )
    return int(text)
