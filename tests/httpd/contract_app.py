"""A WSGI application that stores objects, using only the standard library, for any server.

An object becomes visible when the server has reported the end of the body, and the body has the
announced length.
"""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from wsgiref.types import StartResponse, WSGIEnvironment

LARGE_BYTES = 64 << 20
BLOCK = bytes(range(256)) * 256
PATIENCE_SECONDS = 60.0


class ObjectStore:
    """Stores objects in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Dispatch on the first part of the path."""
        action, _, name = environ["PATH_INFO"].strip("/").partition("/")
        headers: list[tuple[str, str]] = []
        status, body = "200 OK", b"ok"
        if action == "put":
            status, body = self._put(environ, name)
        elif action == "header":
            body = environ.get("HTTP_X_NAME", "").encode("latin-1").hex().encode()
            headers = [("X-Name", "h\xc3\xa9")]
        elif action == "wait":
            (self._folder / f"{name}.waits").touch()
            until = time.monotonic() + PATIENCE_SECONDS
            while not (self._folder / name).exists() and time.monotonic() < until:
                time.sleep(0.02)
        elif action in {"large", "broken"}:
            start("200 OK", [("Content-Length", str(LARGE_BYTES))])
            return _large() if action == "large" else _broken()
        start(status, [*headers, ("Content-Length", str(len(body)))])
        return [body]

    def _put(self, environ: WSGIEnvironment, name: str) -> tuple[str, bytes]:
        source, size = environ["wsgi.input"], 0
        length = environ.get("CONTENT_LENGTH")
        draft = self._folder / f"{name}.draft"
        try:
            with draft.open("wb") as file:
                while chunk := source.read(1 << 16):
                    size += file.write(chunk)
                    file.flush()
                    if size == int(length or -1):
                        break
        except Exception as error:  # noqa: BLE001 - each server has errors of its own
            draft.replace(self._folder / f"{name}.failed")
            return "400 Bad Request", repr(error).encode()
        is_whole = not length or size == int(length)
        draft.replace(self._folder / (name if is_whole else f"{name}.failed"))
        return "200 OK" if is_whole else "400 Bad Request", str(size).encode()


def _large() -> Iterator[bytes]:
    for _ in range(LARGE_BYTES // len(BLOCK)):
        yield BLOCK


def _broken() -> Iterator[bytes]:
    yield BLOCK
    raise RuntimeError("told to fail")


if "CONTRACT_FOLDER" in os.environ:
    application = ObjectStore(Path(os.environ["CONTRACT_FOLDER"]))
