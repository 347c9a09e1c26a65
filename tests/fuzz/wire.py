"""Bytes to a running server by a socket: requests to every route, sound ones and damaged ones.

Whatever comes, the server lives, no answer is its failure, and its log holds no traceback.
"""

import atexit
import base64
import re
import socket
import tempfile
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import strategies as st

from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.fuzz.api_requests import ALLOWED, rest_requests, s3_requests
from tests.fuzz.inputs import damaged
from tests.fuzz.target import Targets

targets: Final = Targets()

SILENCE_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 60.0
ANSWER_BYTES_MAX: Final = 1 << 20
WIRE_WORDS: Final = [
    b"\r\n", b"\n", b"\r\n\r\n", b"\0", b" ", b":", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2", b"GET ",
    b"Content-Length: 0\r\n", b"Content-Length: 99999999999999999999\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n",
    b"Connection: upgrade\r\n",
    b"Upgrade: h2c\r\n", b"Host: \r\n", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"\xff" * 8, b"%",
    b"Range: bytes=0-0\r\n", b"Origin: http://example.org\r\n", b"Sec-Fetch-Site: cross-site\r\n",
    b"X-Forwarded-For: 1.2.3.4\r\n", b"Cookie: internal_auth_session=x\r\n", b"a: " + b"b" * 9000,
]  # fmt: skip


class _Server:
    """A server with a repository, and what was read of its log."""

    def __init__(self, server: LakebedServer) -> None:
        self.server = server
        self._log_read = 0
        body = f'{{"name":"lake","storage_namespace":"{server.namespace}/lake"}}'.encode()
        assert self.send(self.rest("POST", "/api/v1/repositories", {}, body)) == 201

    def rest(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        """A request by the administrator."""
        pair = f"{self.server.access_key_id}:{self.server.secret_access_key}"
        basic = base64.b64encode(pair.encode()).decode()
        return _spelled(method, target, {"Authorization": f"Basic {basic}", **headers}, body)

    def s3(self, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
        """A request that the administrator signed."""
        pair = Credentials(self.server.access_key_id, self.server.secret_access_key)
        url = f"http://127.0.0.1:{self.server.port}{target}"
        request = AWSRequest(method, url, headers=headers, data=body)
        S3SigV4Auth(pair, "s3", "us-east-1").add_auth(request)
        sent = {**dict(request.headers.items()), "Host": f"127.0.0.1:{self.server.port}"}
        return _spelled(method, target, sent, body)

    def send(self, data: bytes) -> int | None:
        """Send bytes, and nothing after them; return the status of the answer, if there is one."""
        address = ("127.0.0.1", self.server.port)
        with socket.create_connection(address, timeout=PATIENCE_SECONDS) as connection:
            try:
                connection.sendall(data)
                answer = _read(connection)
            except (ConnectionResetError, BrokenPipeError):
                return None  # it may hang up on what is not HTTP
        if not answer:
            return None
        found = re.match(rb"HTTP/1\.[01] ([0-9]{3}) ", answer)
        assert found, answer[:200]
        return int(found[1])

    def check(self) -> None:
        """See that the server lives, and that its log holds no traceback since the last look."""
        assert self.server.process.poll() is None, self.server.log()[-5000:]
        log = self.server.log()
        new, self._log_read = log[self._log_read :], len(log)
        assert "Traceback" not in new, new[-5000:]
        assert "panicked" not in new, new[-5000:]


def _read(connection: socket.socket) -> bytes:
    """Return all that a server sends; say that nothing more comes if it seems to wait for that."""
    answer = b""
    connection.settimeout(SILENCE_SECONDS)
    while len(answer) < ANSWER_BYTES_MAX:
        try:
            piece = connection.recv(1 << 16)
        except TimeoutError:
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PATIENCE_SECONDS)
            piece = connection.recv(1 << 16)
        if not piece:
            break
        answer += piece
    return answer


def _spelled(method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    given = {"Host": "127.0.0.1", "Content-Length": str(len(body)), "Connection": "close"}
    if body and not any(name.lower() == "content-type" for name in headers):
        given["Content-Type"] = "application/json"
    lines = [f"{name}: {value}\r\n" for name, value in (given | headers).items()]
    head = f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
    return head.encode("latin-1", errors="replace") + body


@lru_cache
def _server() -> _Server:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakebed-fuzz-")))
        server = _Server(stack.enter_context(lakebed_server(folder)))
        atexit.register(stack.pop_all().close)
        return server


@st.composite
def sent_bytes(draw: st.DrawFn) -> bytes:
    """Requests to the REST API or to S3, whole or damaged, by the administrator of the server."""
    if draw(st.booleans()):
        method, path, query, environ, body = draw(rest_requests())
        headers = {
            name.removeprefix("HTTP_").replace("_", "-"): value.translate({10: " ", 13: " "})
            for name, value in environ.items()
        }
        target = quote(path.encode("latin-1")) + (f"?{query}" if query else "")
        sound = _server().rest(method, target, headers, body)
    else:
        method, target, body, headers = draw(s3_requests())
        sound = _server().s3(method, target, headers, body)
    return draw(st.one_of(st.just(sound), damaged(st.just(sound), WIRE_WORDS)))


@targets.add(sent_bytes())
def requests_by_a_socket(data: bytes) -> None:
    server = _server()
    status = server.send(data)
    server.check()
    assert status is None or status < 500 or status in ALLOWED, status
