"""Request processing: one ordered list of steps.

`Pipeline` creates the record of a request, asks one step after another for an answer, and finishes
the request: common headers, access line, metrics. `lakebed.server.app.build` lists the steps.

A request ends with its answer: for a streamed answer, when the server closes the iterator, after
the last byte or a disconnect. A streamed answer must have a Content-Length. On a kept-alive
connection, the client would read excess bytes as its next answer, and wait for missing ones. So an
answer that is longer or shorter than announced is aborted, and the connection closed.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from random import getrandbits
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.block.store import ByteStream
from lakebed.server.http import metrics
from lakebed.server.http.browsers import SAFE_HEADERS
from lakebed.server.http.errors import JSON_TYPE, UNEXPECTED, kind_of, note_error
from lakebed.server.http.logs import cause_of, log_access
from lakebed.server.http.presigned import PATH as PRESIGNED
from lakebed.server.http.request import SANE_ID, RequestRecord, TrustedProxies, bind_record

REQUEST_ID_HEADER: Final = "X-Request-ID"
_ID_BITS: Final = 64
_LOGGER: Final = logging.getLogger(__name__)
Headers = list[tuple[str, str]]
_name_of: Final = itemgetter(0)
_ALL_SAFE_HEADERS: Final = list(SAFE_HEADERS.values())
_FAILED: Final = (
    b'{"message":"internal error; the request id is in the header X-Request-ID","kind":"internal"}'
)


BeginSpan = Callable[[WSGIEnvironment, RequestRecord], Callable[[], None]]
"""Starts the span of a request and returns the function that detaches it from this thread. The span
ends with the request."""
Applies = Callable[[WSGIEnvironment], bool]
Act = Callable[[WSGIEnvironment, StartResponse, RequestRecord], Iterable[bytes] | None]
"""Answers a request, or returns None to pass it to the next step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of request processing."""

    name: str
    act: Act
    applies: Applies | None = None
    """Whether the step concerns a request; None: it concerns every request."""

    @classmethod
    def of(cls, name: str, app: WSGIApplication) -> "Step":
        """Return a last step: an application that answers every request."""
        return cls(name, lambda environ, start, _record: app(environ, start))


class Pipeline:
    """A WSGI application made of steps; the first answer wins."""

    def __init__(
        self,
        steps: Iterable[Step],
        proxies: TrustedProxies | None = None,
        begin_span: BeginSpan | None = None,
        update_metrics: Callable[[], object] = lambda: None,
    ) -> None:
        """Create an application; the last step answers every request.

        A server calls `update_metrics` about once a second.
        """
        self.update_metrics: Final = update_metrics
        self._steps: Final = tuple(steps)
        self._proxies = proxies or TrustedProxies()
        self._begin_span = begin_span

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request; any exception of a step becomes a 500."""
        sane_id = SANE_ID.fullmatch(environ.get("HTTP_X_REQUEST_ID", ""))
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "backslashreplace")
        record = RequestRecord(
            # Ids must be distinct, not hard to guess.
            sane_id[0] if sane_id else f"{getrandbits(_ID_BITS):016x}",
            environ["REQUEST_METHOD"],
            # The token of a presigned URL is a credential.
            f"{PRESIGNED}…" if path.startswith(PRESIGNED) else path,
            time.monotonic(),
            client=self._proxies.client_of(environ),
        )
        bind_record(record)
        metrics.IN_PROGRESS.inc()
        leave_span = self._begin_span(environ, record) if self._begin_span is not None else None
        start = _Start(start_response, record)
        try:
            for step in self._steps:
                if step.applies is None or step.applies(environ):
                    answer = step.act(environ, start, record)
                    if answer is not None:
                        break
            else:
                raise RuntimeError("no step answered the request")  # noqa: TRY301
            if not isinstance(answer, list):
                return _Answer(answer, record, start.length)
            record.bytes_sent = sum(map(len, answer))
            if start.length not in {None, record.bytes_sent} and record.method != "HEAD":
                raise RuntimeError(_wrong_length(start.length, record.bytes_sent))  # noqa: TRY301
        except BaseException as error:  # noqa: BLE001 - the last place that can answer
            # Some libraries raise subclasses of `BaseException`: release the slot for these too.
            note_error(error, UNEXPECTED, "internal")
            headers = [("Content-Type", JSON_TYPE), ("Content-Length", str(len(_FAILED)))]
            start("500 Internal Server Error", headers)
            answer = [_FAILED]
            record.bytes_sent = len(_FAILED)
        finally:
            if leave_span is not None:
                leave_span()
        _finish(record)
        return answer


@dataclass(slots=True)
class _Start:
    """The ``start_response`` of one request."""

    inner: StartResponse
    record: RequestRecord
    length: int | None = None
    """The announced length of the answer; None before its start, or if not announced."""

    def __call__(self, status: str, headers: Headers, exc_info: Any = None, /) -> Any:
        self.record.status = int(status[:3])
        # Hot path: no Python loop over the headers.
        names = list(map(str.lower, map(_name_of, headers)))
        if "content-length" in names:
            self.length = int(headers[names.index("content-length")][1])
        safe = _ALL_SAFE_HEADERS
        if not SAFE_HEADERS.keys().isdisjoint(names):
            safe = [header for name, header in SAFE_HEADERS.items() if name not in names]
        request_id = (REQUEST_ID_HEADER, self.record.request_id)
        more = self.record.answer_headers
        return self.inner(status, [*headers, *safe, request_id, *more], exc_info)


class _Answer:
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
        """The open file with exactly these bytes, if any: the server may use sendfile."""

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            chunk = next(self._iterator, None)
            self._check_length(chunk)
        except Exception as error:
            # The status is sent: the server can only close the connection.
            self._record.kind, self._record.cause = kind_of(error), cause_of(error)
            _LOGGER.exception("answer aborted: %s", self._record.kind)
            raise
        if chunk is None:
            raise StopIteration
        self._record.bytes_sent += len(chunk)
        return chunk

    def _check_length(self, chunk: bytes | None) -> None:
        """Reject an excess chunk, and an end (None) that comes too early."""
        sent = self._taken + self._record.bytes_sent + len(chunk or b"")
        if sent > self._length or (chunk is None and sent < self._length):
            raise RuntimeError(_wrong_length(self._length, sent))

    @property
    def _taken(self) -> int:
        return 0 if self.file is None else self.file.taken

    def close(self) -> None:
        """Close the application's iterator and end the request; called by the server."""
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


def _wrong_length(announced: int | None, size: int) -> str:
    return f"the answer has {size} bytes instead of {announced}"


def _finish(record: RequestRecord) -> None:
    try:
        record.end()
        metrics.IN_PROGRESS.dec()
        metrics.count(record)
        log_access(record)
    finally:
        bind_record(None)
