"""Response heads: from ``start_response`` to bytes."""

import time
from collections.abc import Callable
from operator import itemgetter
from typing import Final
from wsgiref.handlers import format_date_time

from lakebed.httpd.heads import BadHeadError

Headers = list[tuple[str, str]]
_LENGTH: Final = "content-length"
_NO_CONTENT: Final = "204"
_BODILESS: Final = frozenset({_NO_CONTENT, "304"})
_name_of: Final = itemgetter(0)
_date: tuple[int, str] = (0, "")


class ResponseHead:
    """Head of the response to a request."""

    def __init__(self, method: str, *, is_old: bool = False) -> None:
        """Prepare the response to a request; `is_old` means HTTP/1.0."""
        self._method = method
        self._is_old = is_old
        self._status = ""
        self._headers: Headers = []
        self.has_body = False
        """Whether bytes may follow the head; known once the response has started."""

    def start(
        self, status: str, headers: Headers, _exc_info: object = None, /
    ) -> Callable[[bytes], object]:
        """Set status and headers: WSGI's ``start_response``."""
        self._status = status
        self._headers = headers
        self.has_body = self._method != "HEAD" and status[:3] not in _BODILESS
        return _refuse_to_write

    def encode(self, *, length: int | None, keeps_alive: bool) -> bytes:
        """Return the head as bytes.

        Args:
            length: Number of bytes that follow, or None if only the application knows.
            keeps_alive: Whether the connection stays open.

        Raises:
            ValueError: The length is unknown, or a header has more than one line.
        """
        headers = self._headers
        if self._status.startswith(_NO_CONTENT):  # RFC 9110, 8.6: no Content-Length
            headers = [each for each in headers if each[0].lower() != _LENGTH]
        lines = [f"HTTP/1.1 {self._status}", *map(": ".join, headers)]
        if self.has_body and _LENGTH not in map(str.lower, map(_name_of, headers)):
            if length is None:
                raise ValueError("a streamed response needs a Content-Length")
            lines.append(f"Content-Length: {length}")
        lines.append(f"Date: {_now()}")
        if not keeps_alive:
            lines.append("Connection: close")
        elif self._is_old:
            lines.append("Connection: keep-alive")
        text, breaks = "\r\n".join(lines), len(lines) - 1
        if text.count("\r") != breaks or text.count("\n") != breaks or "\0" in text:
            raise ValueError("a header of the response has more than one line")
        return f"{text}\r\n\r\n".encode("latin-1")


def refusal(error: BadHeadError) -> bytes:
    """Return the whole response to a refused head."""
    text = f"{error.reason}\n".encode("latin-1", "replace")
    response = ResponseHead("GET")
    headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(text))),
        # Some reasons quote the request: browsers must not render them as a page or script.
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Security-Policy", "sandbox; default-src 'none'"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ]
    response.start(f"{error.status.value} {error.status.phrase}", headers)
    return response.encode(length=None, keeps_alive=False) + text


def _now() -> str:
    global _date  # noqa: PLW0603 - made once a second, in one assignment
    seconds = int(time.time())
    known, text = _date
    if known != seconds:
        text = format_date_time(seconds)
        _date = (seconds, text)
    return text


def _refuse_to_write(_data: bytes) -> object:
    raise NotImplementedError("return the body from the application: write() is not supported")
