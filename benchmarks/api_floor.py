"""What a request costs at least: bare applications on Granian.

`bare` answers 204, whatever is asked. `app` does to the disk what uploads and downloads do:

PUT /small/<name>   the body into a file, durably, and one durable set in SQLite
PUT /large/<name>   the body into a file, durably, with its MD5
GET /large/<name>   the bytes of a file
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO
from wsgiref.types import StartResponse, WSGIEnvironment

FOLDER = Path(os.environ["LAKEBED_FLOOR"])
CHUNK_BYTES = 1 << 18

_lock = threading.Lock()
_connection = sqlite3.connect(FOLDER / "floor.db", check_same_thread=False, timeout=60)
_connection.execute("PRAGMA journal_mode=WAL")
_connection.execute("PRAGMA synchronous=FULL")
_connection.execute("CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
_connection.commit()


def bare(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answer that there is nothing."""
    start_response("204 No Content", [])
    return []


def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Serve the three requests."""
    _, kind, name = environ["PATH_INFO"].split("/")
    path = FOLDER / name
    if environ["REQUEST_METHOD"] == "GET":
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
        start_response("200 OK", [("Content-Length", str(size))])
        return _chunks(file)
    digest = _write(path, environ["wsgi.input"])
    if kind == "small":
        with _lock, _connection:
            _connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (name, digest))
    start_response("201 Created", [("Content-Length", "0")])
    return [b""]


def _write(path: Path, body: BinaryIO) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    draft = path.with_suffix(f".{threading.get_ident()}.draft")
    with draft.open("wb") as file:
        while chunk := body.read(CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return digest.hexdigest()


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
