"""Requests to a server byte for byte as they are written here, and its processes."""

import base64
import http.client
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlencode

import psutil

from lakebed.testing.servers.lakebed import LakebedServer

TIMEOUT_SECONDS: Final = 90.0
BASE_PATH: Final = "/api/v1"
JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class RawClient:
    """The administrator, on one connection; nothing of a request is made nicer."""

    server: LakebedServer
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)

    def call(
        self,
        method: str,
        path: str,
        /,
        *,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        **query: object,
    ) -> Answer:
        """Make a request; raises `OSError` or `HTTPException` if no answer came."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection(
                "127.0.0.1", self.server.port, timeout=TIMEOUT_SECONDS
            )
        target = f"{BASE_PATH}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            return self._call(self._connection, method, target, body, headers or {})
        except (OSError, http.client.HTTPException):
            self.close()
            raise

    def _call(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> Answer:
        connection.putrequest(method, "/", skip_accept_encoding=True)
        # What `putrequest` itself would refuse to send, it need not see.
        buffer: list[bytes] = connection._buffer  # type: ignore[attr-defined] # on purpose
        buffer[0] = f"{method} {target} HTTP/1.1".encode("latin-1")
        for name, value in {"Authorization": authorization(self.server), **headers}.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        content = answer.read()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, content)

    def post_json(self, path: str, body: object) -> Answer:
        return self.call("POST", path, body=json.dumps(body).encode(), headers=JSON)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def authorization(server: LakebedServer) -> str:
    """The header by which the administrator signs in."""
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def head_of(server: LakebedServer, at: str, path: str, headers: list[str]) -> bytes:
    """The head of an upload."""
    lines = [
        f"POST {BASE_PATH}{at}?path={path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: {authorization(server)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def begin(server: LakebedServer, at: str, path: str, headers: list[str]) -> socket.socket:
    """Open a connection, and send the head of an upload."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(head_of(server, at, path, headers))
    return connection


def create_repository(client: RawClient, name: str) -> None:
    namespace = f"{client.server.namespace}/{name}"
    made = client.post_json("/repositories", {"name": name, "storage_namespace": namespace})
    assert made.status == 201, made


def drafts(server: LakebedServer) -> list[Path]:
    """The files that are being written."""
    return list((server.folder / "objects" / ".lakebed" / "drafts").iterdir())


def workers(server: LakebedServer) -> list[psutil.Process]:
    """The processes that listen."""
    found = []
    for child in psutil.Process(server.process.pid).children():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):  # it was killed a moment ago
            ports = {each.laddr.port for each in child.net_connections("tcp")}
            if server.port in ports:
                found.append(child)
    return found
