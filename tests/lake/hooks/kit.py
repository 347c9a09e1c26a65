"""One hook, run as the server runs it, and an HTTP server that may behave badly."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import CommitDetails, EventType, HookEvent
from lakebed.lake.hooks.files import HookSpec, parse_action
from lakebed.lake.hooks.kinds import run_hook
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.processes import ProcessPool
from lakebed.lake.hooks.settings import HookLimits

ON_LOOPBACK = HookLimits(allow_private_networks=True)
EVENT = HookEvent(
    event_type=EventType.PRE_COMMIT,
    run_id="run-1",
    event_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    repository_id="repo",
    repository_uid="uid",
    storage_namespace="s3://bucket/prefix",
    source_ref="main",
    username="jane",
    branch_id="main",
    commit_message="clean data",
    committer="jane",
    commit_metadata={"key": "value"},
    commit=CommitDetails(message="clean data", metadata={"key": "value"}, parents=("p1",)),
)


@dataclass
class ScriptedCaller:
    """Answers calls from a table, and keeps them."""

    answers: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    during: Callable[[], None] = lambda: None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    depth: int = 0

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        self.calls.append((name, dict(arguments)))
        self.during()
        return self.answers.get(name, (404, {"message": "not found"}))


@dataclass
class Ran:
    """How a hook ended."""

    error: str | None
    output: str


def hook_spec(kind: str, properties: dict[str, Any]) -> HookSpec:
    """A hook as an action file would give it."""
    hook = {"id": "my_hook", "type": kind, "properties": properties}
    action = {"name": "checks", "on": {"pre-commit": None}, "hooks": [hook]}
    return parse_action("_lakefs_actions/checks.yaml", json.dumps(action).encode()).hooks[0]


def run(
    kind: str,
    properties: dict[str, Any],
    *,
    settings: HookLimits = ON_LOOPBACK,
    caller: ScriptedCaller | None = None,
    runtime: Runtime | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
    pool: ProcessPool | None = None,
    event: HookEvent = EVENT,
) -> Ran:
    """Run a hook of this kind to its end."""
    runtime = runtime or ThreadRuntime()
    output = HookOutput(runtime)
    error = None
    try:
        run_hook(
            hook_spec(kind, properties),
            event,
            caller=caller or ScriptedCaller(),
            output=output,
            settings=settings,
            runtime=runtime,
            until=runtime.monotonic() + 600,
            is_cancelled=is_cancelled,
            pool=pool or ProcessPool(runtime),
        )
    except HookFailed as failed:
        error = str(failed)
    return Ran(error, output.content().decode(errors="replace"))


@dataclass
class Received:
    """A request as a server got it."""

    line: str
    headers: dict[str, str]
    body: bytes


Behaviour = Callable[["Connection"], None]


class Connection:
    """A client's connection, whose request was read."""

    def __init__(self, client: socket.socket, received: Received, stop: threading.Event) -> None:
        self.client = client
        self.received = received
        self.stop = stop

    def answer(self, status: int, body: bytes = b"", *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers]
        self.client.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)


class BadServer:
    """An HTTP server whose behaviour a function decides, by the path of the request."""

    def __init__(
        self,
        behaviours: Mapping[str, Behaviour],
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.received: list[Received] = []
        self._behaviours = behaviours
        self._tls = tls
        self._stop = threading.Event()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{host}:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        self._stop.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            serving = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(serving)
            serving.start()

    def _serve(self, client: socket.socket) -> None:
        if self._tls is not None:
            client.settimeout(60)
            try:
                client = self._tls.wrap_socket(client, server_side=True)
            except OSError:
                client.close()  # the client does not trust the certificate
                return
        with closing(client), suppress(OSError):  # the client may leave at any time
            received = _read_request(client)
            if received is None:
                return
            self.received.append(received)
            path = received.line.split()[1].partition("?")[0]
            self._behaviours[path](Connection(client, received, self._stop))


def _read_request(client: socket.socket) -> Received | None:
    client.settimeout(60)
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    line, *rest = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in rest)}
    while len(body) < int(headers.get("content-length", "0")):
        piece = client.recv(65536)
        if not piece:
            return None
        body += piece
    return Received(line, headers, body)


@contextmanager
def bad_server(
    behaviours: Mapping[str, Behaviour],
    host: str = "127.0.0.1",
    tls: ssl.SSLContext | None = None,
) -> Iterator[BadServer]:
    server = BadServer(behaviours, host, tls)
    try:
        yield server
    finally:
        server.close()
