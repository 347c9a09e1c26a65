"""Answers, as bytes: the head that WSGI's ``start_response`` describes, and what may follow it."""

import time
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final
from wsgiref.handlers import format_date_time

from lakebed.server.connections.heads import BadHead

Headers = list[tuple[str, str]]
_LENGTH: Final = "content-length"
_NO_CONTENT: Final = "204"
_BODILESS: Final = frozenset({_NO_CONTENT, "304"})
_name_of: Final = itemgetter(0)
_date: tuple[int, str] = (0, "")


class Answer:
    """The answer to one request, before its body."""

    def __init__(self, method: str, *, is_old: bool = False) -> None:
        """Prepare the answer to a request of some method; an old one is of HTTP/1.0."""
        self._method = method
        self._is_old = is_old
        self._status = ""
        self._headers: Headers = []
        self.has_body = False
        """Whether bytes may follow the head; known once the answer has started."""

    def start(
        self, status: str, headers: Headers, _exc_info: Any = None, /
    ) -> Callable[[bytes], object]:
        """Take the status and the headers: WSGI's ``start_response``."""
        self._status = status
        self._headers = headers
        self.has_body = self._method != "HEAD" and status[:3] not in _BODILESS
        return _refuse_to_write

    def head(self, *, length: int | None, keeps_alive: bool) -> bytes:
        """Return the head.

        Args:
            length: How many bytes follow, if it is known; the application may have said it.
            keeps_alive: Whether the connection stays.

        Raises:
            ValueError: Nobody knows the length, or a header has more than one line.
        """
        headers = self._headers
        if self._status.startswith(_NO_CONTENT):  # such an answer has no length
            headers = [each for each in headers if each[0].lower() != _LENGTH]
        lines = [f"HTTP/1.1 {self._status}", *map(": ".join, headers)]
        if self.has_body and _LENGTH not in map(str.lower, map(_name_of, headers)):
            if length is None:
                raise ValueError("a streamed answer needs a Content-Length")
            lines.append(f"Content-Length: {length}")
        lines.append(f"Date: {_now()}")
        if not keeps_alive:
            lines.append("Connection: close")
        elif self._is_old:
            lines.append("Connection: keep-alive")
        text, breaks = "\r\n".join(lines), len(lines) - 1
        if text.count("\r") != breaks or text.count("\n") != breaks or "\0" in text:
            raise ValueError("a header of the answer has more than one line")
        return f"{text}\r\n\r\n".encode("latin-1")


def refusal(error: BadHead) -> bytes:
    """Return the whole answer to a head that is refused."""
    text = f"{error.reason}\n".encode("latin-1", "replace")
    answer = Answer("GET")
    answer.start(
        f"{error.status.value} {error.status.phrase}",
        [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))],
    )
    return answer.head(length=None, keeps_alive=False) + text


def _now() -> str:
    global _date  # noqa: PLW0603 - made once a second, in one assignment
    seconds = int(time.time())
    known, text = _date
    if known != seconds:
        text = format_date_time(seconds)
        _date = (seconds, text)
    return text


def _refuse_to_write(_data: bytes) -> object:
    raise NotImplementedError("answers are returned, not written")
