"""What surrounds every request: its record, its id in the answer, its access line, its metrics.

A WSGI wrapper around the whole application. The end of a request is the end of its answer: for
an answer that is streamed, when the server closes the iterator, be it that the last byte is out or
that the client went away.

A streamed answer must have a Content-Length. On a connection that is kept, the client would read
what is too much as its next answer, and what is missing it would wait for. So an answer that is
longer or shorter than announced breaks off, and the connection ends with it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.catalog.nouns import ByteStream
from lakebed.server.http import metrics
from lakebed.server.http.client_address import TrustedProxies
from lakebed.server.http.errors import JSON_TYPE, UNEXPECTED, kind_of, note_error
from lakebed.server.http.logs import cause_of, log_access
from lakebed.server.http.presigned import PATH as PRESIGNED
from lakebed.server.http.request import RequestRecord, begin_record, leave_record

REQUEST_ID_HEADER: Final = "X-Request-ID"
_LOGGER: Final = logging.getLogger(__name__)
Headers = list[tuple[str, str]]
_name_of: Final = itemgetter(0)
_FAILED: Final = (
    b'{"message":"internal error; the request id is in the header X-Request-ID","kind":"internal"}'
)


BeginSpan = Callable[[WSGIEnvironment, RequestRecord], Callable[[], None]]
"""Begins the span of a request, which ends with it; returns what to call when this thread is done
with the request."""


class Envelope:
    """An application with the record of each request around it."""

    def __init__(
        self,
        app: WSGIApplication,
        proxies: TrustedProxies | None = None,
        begin_span: BeginSpan | None = None,
    ) -> None:
        self._app = app
        self._proxies = proxies or TrustedProxies()
        self._begin_span = begin_span

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request; whatever the application raises becomes a 500."""
        record = begin_record(
            environ["REQUEST_METHOD"],
            _path_of(environ),
            client=self._proxies.client_of(environ),
            given_id=environ.get("HTTP_X_REQUEST_ID"),
        )
        metrics.IN_PROGRESS.inc()
        record.at_end(metrics.IN_PROGRESS.dec)
        if self._begin_span is None:
            return self._answer(environ, start_response, record)
        leave_span = self._begin_span(environ, record)
        try:
            return self._answer(environ, start_response, record)
        finally:
            leave_span()

    def _answer(
        self, environ: WSGIEnvironment, start_response: StartResponse, record: RequestRecord
    ) -> Iterable[bytes]:
        start = _Start(start_response, record)
        try:
            answer = self._app(environ, start)
            if not isinstance(answer, list):
                return _Answer(answer, record, start.length)
            if environ["REQUEST_METHOD"] != "HEAD":
                _check_length(start.length, answer)
        except BaseException as error:  # noqa: BLE001 - the last place that can answer
            # Some libraries raise others than `Exception`. What the request holds is given back.
            note_error(error, UNEXPECTED, "internal")
            headers = [("Content-Type", JSON_TYPE), ("Content-Length", str(len(_FAILED)))]
            start("500 Internal Server Error", headers)
            answer = [_FAILED]
        # It goes out in one piece.
        record.bytes_sent = sum(map(len, answer))
        _finish(record)
        return answer


class _Start:
    """The ``start_response`` of one request."""

    def __init__(self, inner: StartResponse, record: RequestRecord) -> None:
        self._inner = inner
        self._record = record
        self.length: int | None = None

    def __call__(self, status: str, headers: Headers, exc_info: Any = None, /) -> Any:
        self._record.status = int(status[:3])
        # Without a step of Python for each header: this is done for every answer.
        names = list(map(str.lower, map(_name_of, headers)))
        if "content-length" in names:
            self.length = int(headers[names.index("content-length")][1])
        request_id = (REQUEST_ID_HEADER, self._record.request_id)
        return self._inner(status, [*headers, request_id], exc_info)


class _Answer:
    """An answer on its way out."""

    def __init__(self, inner: Iterable[bytes], record: RequestRecord, length: int | None) -> None:
        if length is None:
            raise RuntimeError("a streamed answer needs a Content-Length")
        self._length = length
        self._inner = inner
        self._record = record
        self._iterator = iter(inner)
        self._is_closed = False
        file = inner.file if isinstance(inner, ByteStream) else None
        self.file: Final = file if file is not None and file.size == length else None
        """Where its bytes lie, if that is an open file: the server may take them there."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = next(self._iterator, None)
            self._check_length(chunk)
        except Exception as error:
            # The status is out: all that can be done is to break off, which the server does.
            self._record.kind, self._record.cause = kind_of(error), cause_of(error)
            _LOGGER.exception("an answer broke off: %s", self._record.kind)
            raise
        if chunk is None:
            raise StopIteration
        self._record.bytes_sent += len(chunk)
        return chunk

    def _check_length(self, chunk: bytes | None) -> None:
        """Refuse a chunk too many, and an end (None) that comes too early."""
        sent = self._taken + self._record.bytes_sent + len(chunk or b"")
        if sent > self._length or (chunk is None and sent < self._length):
            raise RuntimeError(f"an answer of {self._length} bytes has {sent}")

    @property
    def _taken(self) -> int:
        return 0 if self.file is None else self.file.taken

    def close(self) -> None:
        """Close the application's iterator and end the request; the server calls this, once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._record.bytes_sent += self._taken
        try:
            close: Callable[[], object] | None = getattr(self._inner, "close", None)
            if close is not None:
                close()
        finally:
            _finish(self._record)


def _check_length(length: int | None, answer: list[bytes]) -> None:
    size = sum(map(len, answer))
    if length not in {None, size}:
        raise RuntimeError(f"an answer of {length} bytes has {size}")


def _finish(record: RequestRecord) -> None:
    try:
        record.end()
        metrics.count(record)
        log_access(record)
    finally:
        leave_record()


def _path_of(environ: WSGIEnvironment) -> str:
    """Return the path as logs show it: whoever reads the rest of a presigned one could use it."""
    path: str = environ["PATH_INFO"]
    if path.startswith(PRESIGNED):
        return f"{PRESIGNED}…"
    if path.isascii():
        return path
    return path.encode("latin-1").decode("utf-8", "backslashreplace")
