"""Refuses requests whose path is not UTF-8.

The server hands paths on decoded, byte by byte; Falcon would put a mark in the place of bytes that
are not UTF-8, and so take two paths for one.
"""

from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

from lakebed.server.http.request import RequestRecord

_KIND: Final = "bad_request"
_REFUSED: Final = (
    b'{"message":"the path of the request is not UTF-8, or holds a NUL","kind":"bad_request"}'
)
_HEADERS: Final = [("Content-Type", "application/json"), ("Content-Length", str(len(_REFUSED)))]


def is_unusual(environ: WSGIEnvironment) -> bool:
    """Whether the path of a request has characters beyond ASCII, or a NUL."""
    path: str = environ["PATH_INFO"]
    return not path.isascii() or "\x00" in path


def refuse_path(
    environ: WSGIEnvironment, start: StartResponse, record: RequestRecord
) -> list[bytes] | None:
    """Answer 400 to a request whose path is not valid; return None if it is."""
    try:
        if "\x00" not in environ["PATH_INFO"].encode("latin-1").decode():
            return None
    except UnicodeError:
        pass
    record.kind = _KIND
    start("400 Bad Request", _HEADERS)
    return [_REFUSED]
