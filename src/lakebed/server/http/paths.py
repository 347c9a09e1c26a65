"""Refuses requests whose path is not UTF-8."""

from collections.abc import Iterable
from typing import Final
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from lakebed.server.http.request import current_record

_KIND: Final = "bad_request"
_REFUSED: Final = (
    b'{"message":"the path of the request is not UTF-8, or holds a NUL","kind":"bad_request"}'
)
_HEADERS: Final = [("Content-Type", "application/json"), ("Content-Length", str(len(_REFUSED)))]


class CheckedPaths:
    """An application that never sees a path which others would read in another way.

    The server hands paths on decoded, byte by byte; Falcon would put a mark in the place of bytes
    that are not UTF-8, and so take two paths for one.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request, by 400 if its path is not valid."""
        path = environ["PATH_INFO"]
        if not path.isascii() or "\x00" in path:
            try:
                valid = "\x00" not in path.encode("latin-1").decode()
            except UnicodeError:
                valid = False
            if not valid:
                record = current_record()
                if record is not None:
                    record.kind = _KIND
                start_response("400 Bad Request", _HEADERS)
                return [_REFUSED]
        return self._app(environ, start_response)
