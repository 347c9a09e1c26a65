"""A server on loopback that says what a test wants it to say."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from lakebed.base.runtime import ThreadRuntime
from lakebed.clients.http.http import Client
from lakebed.clients.http.settings import ClientSettings
from lakebed.wire import calls as wire


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    """Path and query as they came over the wire."""
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    """Break off after so many bytes of the body."""
    drop: bool = False
    """Close the connection without an answer."""


def answer_json(value: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, json.dumps(value).encode(), named)


def object_stats(path: str, **others: object) -> dict[str, object]:
    """An object as a server describes it."""
    facts = {"path_type": "object", "physical_address": f"mem://l/{path}", "checksum": "0-1"}
    return {"path": path, **facts, "mtime": 0, "size_bytes": 0, **others}


def asked(
    method: str, *segments: str, query: dict[str, Any] | None = None, body: Any = None
) -> wire.WireRequest[Any]:
    """A request for an operation that no API has; its answer is whatever JSON comes."""
    return wire.WireRequest(
        wire.Endpoint(operation="x", tag="", method=method, path="/x", status=200),
        segments,
        query or {},
        None if body is None else json.dumps(body).encode(),
        Any,
    )


Script = Callable[[Request], Answer]


@contextmanager
def scripted_server(script: Script) -> Iterator[str]:
    """A server's endpoint; the script answers each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(ConnectionError):  # clients may leave when they like
                super().handle()

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(
                self.command, self.path, dict(self.headers.items()), self.rfile.read(length)
            )
            answer = script(request)
            if answer.drop:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status != 204:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body[: answer.cut])
            if answer.cut is not None:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Clock(ThreadRuntime):
    """Time that passes only while somebody waits."""

    def __init__(self, *, may_wait: bool = True) -> None:
        self.seconds = 0.0
        self.waited: list[float] = []
        self._may_wait = may_wait

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        assert self._may_wait, f"waited for {seconds} s"
        self.seconds += seconds
        self.waited.append(seconds)


@contextmanager
def scripted_client(script: Script, *, runtime: Clock | None = None) -> Iterator[Client]:
    """A client of a scripted server; by default it must not wait."""
    with scripted_server(script) as endpoint:
        settings = ClientSettings(endpoint, "AKIAIOSFOLQUICKSTART", "secret")
        runtime = runtime or Clock(may_wait=False)
        with closing(Client(settings, runtime=runtime)) as client:
            yield client


class Numbers:
    """A list of numbers, in pages."""

    def __init__(self, count: int, *, page_max: int = 1000) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self._count = count
        self._page_max = page_max

    def __call__(self, request: Request) -> Answer:
        query = parse_qs(urlsplit(request.target).query)
        self.asked.append(query)
        start = int(query.get("after", ["0"])[0])
        amount = int(query.get("amount", ["100"])[0])
        end = min(self._count, start + min(amount, self._page_max))
        return answer_json(
            {
                "results": [{"id": str(n), "commit_id": ""} for n in range(start + 1, end + 1)],
                "pagination": {
                    "has_more": end < self._count,
                    "next_offset": str(end) if end < self._count else "",
                },
            }
        )
