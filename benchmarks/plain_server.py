"""Plain servers that Lakebed is measured against.

`bare` is a WSGI application that answers 204. Run as a program, this is a file server: GET answers
a file by `sendfile`, PUT writes the body into a file, syncs it, and answers its MD5.

    python -m benchmarks.plain_server /tmp/folder
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

CHUNK_BYTES = 1 << 20


def bare(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer 204."""
    start_response("204 No Content", [])
    return []


class FileHandler(BaseHTTPRequestHandler):
    """Requests for the files of one folder."""

    protocol_version = "HTTP/1.1"
    folder = Path()

    def do_GET(self) -> None:
        """Answer a file by `sendfile`."""
        with (self.folder / self.path[1:]).open("rb") as file:
            self._answer(200, os.fstat(file.fileno()).st_size)
            self.connection.sendfile(file)

    def do_PUT(self) -> None:
        """Write the body into a file, sync it, and answer its MD5."""
        digest = hashlib.md5(usedforsecurity=False)
        left = int(self.headers["Content-Length"])
        with (self.folder / self.path[1:]).open("wb") as file:
            while left:
                data = self.rfile.read1(min(left, CHUNK_BYTES))
                left -= len(data)
                digest.update(data)
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._answer(201, 0, etag=digest.hexdigest())

    def _answer(self, status: int, length: int, etag: str = "") -> None:
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


if __name__ == "__main__":
    FileHandler.folder = Path(sys.argv[1])
    with ThreadingHTTPServer(("127.0.0.1", 0), FileHandler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()
