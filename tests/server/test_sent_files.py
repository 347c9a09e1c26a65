"""Objects in local storage, which the server of connections sends without reading them."""

import errno
import logging
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import Any, Final
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest
from prometheus_client import REGISTRY

from lakebed.block import Between, BlockStore, ByteStream, LocalSettings, Namespace, open_block
from lakebed.block.ranges import FileSection
from lakebed.httpd import HTTPLimits, TLSContext, WSGIServer, listen
from lakebed.httpd import connection as connection_module
from lakebed.httpd.bodies import StallError
from lakebed.httpd.connection import ClientConnection
from lakebed.server.http.logs import ACCESS
from lakebed.server.http.pipeline import Pipeline, Step
from lakebed.server.processes.worker import count_cut
from tests.block.local_storage import open_files
from tests.kit.certificates import write_certificate
from tests.kit.served import PATIENCE_SECONDS, eventually

ADDRESS: Final = Namespace.parse("local://data").address("object")
DATA: Final = os.urandom((9 << 20) + 123)
LEAST: Final = 2 << 20
"""What is smaller is read."""
LARGE_BYTES: Final = 1 << 30
"""More than the system keeps for a client that takes nothing."""
GET: Final = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


class World:
    """A storage, an application that serves an object of it, and what became of the answers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "data" / "object"
        self.store: BlockStore = open_block(LocalSettings(root))
        self.store.put(ADDRESS, [DATA])
        self.idle_files = open_files(root)
        self.streams: deque[ByteStream] = deque(maxlen=100)
        self.lines: deque[dict[str, Any]] = deque(maxlen=100)
        self.before_sending: Callable[[], object] = lambda: None

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer with the bytes that the path names: from-to, or nothing for all."""
        first, _, last = environ["PATH_INFO"][1:].partition("-")
        wanted = Between(int(first), int(last)) if last else None
        stream = self.store.get(ADDRESS, byte_range=wanted)
        assert stream.file is not None
        start("200 OK", [("Content-Length", str(stream.file.size))])
        self.streams.append(stream)
        self.before_sending()
        return stream

    @property
    def taken(self) -> int:
        """How much of the last answer was sent without being read."""
        file = self.streams[-1].file
        assert file is not None
        return file.taken

    @contextmanager
    def served(
        self,
        tls: TLSContext | None = None,
        stall_seconds: float = PATIENCE_SECONDS,
        rate_min: int = 1,
        patience_seconds: float = 60.0,
    ) -> Iterator[int]:
        limits = HTTPLimits(
            stall_seconds=stall_seconds,
            response_bytes_per_second=rate_min,
            patience_seconds=patience_seconds,
        )
        server = WSGIServer(
            Pipeline([Step.of("app", self)]),
            listen("127.0.0.1", 0),
            limits,
            tls=tls,
            report=count_cut,
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        yield server._listener.getsockname()[1]
        server.stop()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()

    def ended(self) -> dict[str, Any]:
        """Wait for the end of one answer; return its access line. Nothing of it is open then."""
        eventually(lambda: len(self.lines) == 1)
        eventually(lambda: open_files(self.root) == self.idle_files)
        return self.lines.pop()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            made.lines.append(vars(record)["fields"])

    handler, level = Lines(), ACCESS.level
    ACCESS.addHandler(handler)
    ACCESS.setLevel(logging.INFO)
    yield made
    ACCESS.removeHandler(handler)
    ACCESS.setLevel(level)
    made.store.close()


@pytest.fixture
def port(world: World) -> Iterator[int]:
    with world.served() as port:
        yield port


def connect(port: int, *, receives: int | None = None) -> socket.socket:
    client = socket.socket()
    if receives is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    client.settimeout(PATIENCE_SECONDS)
    client.connect(("127.0.0.1", port))
    return client


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


RANGES: Final = [
    (0, len(DATA)),
    (0, LEAST),
    (1, LEAST + 1),
    (4096, 4096 + LEAST),
    (4095, len(DATA) - 1),
    (len(DATA) - LEAST, len(DATA)),
]


def test_whole_objects_and_ranges_on_one_connection(world: World, port: int) -> None:
    before = counted("lakebed_block_bytes_total", driver="local", direction="out")
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        for first, last in RANGES:
            client.request("GET", f"/{first}-{last}")
            answer = client.getresponse()
            assert answer.read() == DATA[first:last]
            # The client may have it all before the server has counted it.
            assert world.ended()["bytes"] == last - first
            assert world.taken == last - first
            assert not answer.will_close
    total = sum(last - first for first, last in RANGES)
    after = counted("lakebed_block_bytes_total", driver="local", direction="out")
    assert after - before == total


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "192.0.2.7", "fe80::1%eth0"])
def test_less_is_on_its_way_to_a_client_on_this_machine(world: World, peer: str) -> None:
    """For clients far away the system alone knows how much must be."""
    received = bytearray()

    def receive(client: socket.socket) -> None:
        while chunk := client.recv(1 << 20):
            received.extend(chunk)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = connect(listener.getsockname()[1])
        connected, _ = listener.accept()
    with client, connected, world.store.get(ADDRESS) as stream:
        connected.setblocking(False)
        connection = connection_at(connected, peer, HTTPLimits())
        thread = threading.Thread(target=receive, args=[client])
        thread.start()
        connection.stream(b"head", stream)
        size = connected.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        connected.shutdown(socket.SHUT_WR)
        thread.join(PATIENCE_SECONDS)
    assert received == b"head" + DATA
    assert (size == 1 << 19) == (peer in {"127.0.0.1", "::1"})


def test_small_files_are_read(world: World, port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        client.request("GET", f"/0-{LEAST - 1}")
        assert client.getresponse().read() == DATA[: LEAST - 1]
    assert (world.taken, world.ended()["bytes"]) == (0, LEAST - 1)


def test_files_sent_over_tls_are_read(world: World, tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=certificate)
    with (
        world.served(TLSContext(certificate, key)) as port,
        closing(HTTPSConnection("127.0.0.1", port, context=trusting)) as client,
    ):
        client.request("GET", "/")
        assert client.getresponse().read() == DATA
    assert (world.taken, world.ended()["bytes"]) == (0, len(DATA))


def test_requests_behind_a_large_answer_are_answered_in_order(world: World, port: int) -> None:
    asked = [(0, 9), (0, len(DATA)), (5, 7), (1, len(DATA)), (0, 3)]
    expected = [DATA[first:last] for first, last in asked]
    with connect(port) as client:
        client.sendall(b"".join(GET % b"%d-%d" % each for each in asked))
        with client.makefile("rb") as answers:
            assert [read_answer(answers.readline, answers.read) for _ in asked] == expected


def read_answer(read_line: Callable[[], bytes], read: Callable[[int], bytes]) -> bytes:
    lines = list(iter(read_line, b"\r\n"))
    (length,) = [line.split()[1] for line in lines if line.startswith(b"Content-Length")]
    return read(int(length))


@pytest.mark.parametrize(
    "request_head",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"],
)
def test_a_connection_that_ends_with_the_answer(
    world: World, port: int, request_head: bytes
) -> None:
    with connect(port) as client:
        client.sendall(request_head)
        with client.makefile("rb") as answers:
            assert answers.read().partition(b"\r\n\r\n")[2] == DATA
    assert world.taken


def test_a_head_takes_nothing(world: World, port: int) -> None:
    with connect(port) as client:
        client.sendall(GET.replace(b"GET", b"HEAD") % b"" + GET % b"0-3")
        with client.makefile("rb") as answers:
            assert b"HTTP/1.1 200 OK\r\n" in iter(answers.readline, b"\r\n")
            deque(iter(answers.readline, b"\r\n"), maxlen=0)
            assert read_answer(answers.readline, answers.read) == DATA[:3]
    eventually(lambda: open_files(world.root) == world.idle_files)
    assert world.streams[0].file is not None
    assert world.streams[0].file.taken == 0


@pytest.mark.parametrize("left", [0, 1, 4096, len(DATA) // 2, len(DATA) - 1])
def test_a_file_that_is_cut_before_it_is_sent_breaks_the_answer_off(
    world: World, port: int, left: int, caplog: pytest.LogCaptureFixture
) -> None:
    world.before_sending = lambda: os.truncate(world.file, left)
    assert received_before_the_end(port) <= left
    assert_broken_off(world, caplog, left)


def test_a_file_that_is_cut_while_it_is_sent_breaks_the_answer_off(
    world: World, port: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_take = FileSection.take

    def cut_once_taken(self: FileSection, size: int, seconds: float) -> None:
        os.truncate(world.file, size)
        real_take(self, size, seconds)

    monkeypatch.setattr(FileSection, "take", cut_once_taken)
    assert received_before_the_end(port) == world.taken > 0
    assert_broken_off(world, caplog, world.taken)


def test_a_file_that_cannot_be_sent_is_read(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: int) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sendfile", refuse)
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        client.request("GET", "/")
        assert client.getresponse().read() == DATA
    assert (world.taken, world.ended()["bytes"]) == (0, len(DATA))


def test_a_system_without_sendfile_reads_files(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sendfile")
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        client.request("GET", "/")
        assert client.getresponse().read() == DATA
    assert (world.taken, world.ended()["bytes"]) == (0, len(DATA))


def received_before_the_end(port: int) -> int:
    """How much of an answer comes that does not come whole."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)) as client:
        client.request("GET", "/")
        with pytest.raises((IncompleteRead, ConnectionError)) as caught:
            client.getresponse().read()
    return len(caught.value.partial) if isinstance(caught.value, IncompleteRead) else 0


def assert_broken_off(world: World, caplog: pytest.LogCaptureFixture, most: int) -> None:
    line = world.ended()
    assert line["kind"] == "storage_unavailable"
    assert world.taken <= line["bytes"] <= most
    assert "answer aborted: storage_unavailable" in caplog.text


@pytest.mark.slow
def test_a_client_that_takes_nothing_is_cut_off(world: World) -> None:
    os.truncate(world.file, LARGE_BYTES)
    before = counted("lakebed_http_refusals_total", kind="stalled_download")
    with world.served(stall_seconds=0.5) as port, connect(port, receives=1 << 16) as client:
        client.sendall(GET % b"")
        line = world.ended()
        assert counted("lakebed_http_refusals_total", kind="stalled_download") == before + 1
        with pytest.raises(ConnectionResetError):
            deque(iter(lambda: client.recv(1 << 20), b""), maxlen=0)
    assert 0 < world.taken == line["bytes"] < LARGE_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("file_bytes_min", [0, 1 << 40], ids=["sendfile", "send"])
def test_clients_that_take_less_than_the_least_rate_are_cut_off(
    world: World, monkeypatch: pytest.MonkeyPatch, file_bytes_min: int
) -> None:
    monkeypatch.setattr(connection_module, "_FILE_BYTES_MIN", file_bytes_min)
    os.truncate(world.file, LARGE_BYTES)
    before = counted("lakebed_http_refusals_total", kind="stalled_download")
    readers = 20
    with ExitStack() as stack:
        port = stack.enter_context(world.served(rate_min=1 << 30, patience_seconds=0.5))
        clients = [stack.enter_context(connect(port, receives=1 << 14)) for _ in range(readers)]
        for client in clients:
            client.sendall(GET % b"")

        def take_some() -> bool:
            for client in clients:
                with suppress(ConnectionResetError):
                    client.recv(1 << 14)
            return len(world.lines) == readers

        eventually(take_some)
        after = counted("lakebed_http_refusals_total", kind="stalled_download")
    assert after == before + readers
    assert all(line["bytes"] < LARGE_BYTES for line in world.lines)
    eventually(lambda: open_files(world.root) == world.idle_files)


def connection_at(connected: socket.socket, peer: str, limits: HTTPLimits) -> ClientConnection:
    return ClientConnection(
        connected, {"REMOTE_ADDR": peer}, limits, report=count_cut, release=lambda: None
    )


class Trickling(ClientConnection):
    """A connection whose client takes some bytes every ten seconds, on a clock of its own."""

    def __init__(self, taken: int) -> None:
        self.sent, self.now, self.taken = 1 << 30, 0.0, taken
        ours, self.theirs = socket.socketpair()
        limits = HTTPLimits(response_bytes_per_second=1024)
        super().__init__(ours, {"REMOTE_ADDR": "x"}, limits, report=count_cut, release=lambda: None)

    def count_unacked(self) -> int:
        return self.sent

    def _wait(self, _event: int) -> bool:
        self.now += 10
        self.sent -= self.taken
        return False


@pytest.mark.parametrize(
    ("taken", "waits"), [(8 << 10, 31), (1, 7), (0, 1), (10 << 10, None), (1 << 20, None)]
)
def test_the_least_rate_is_an_average_with_a_minute_of_patience(
    monkeypatch: pytest.MonkeyPatch, taken: int, waits: int | None
) -> None:
    connection = Trickling(taken)
    with connection.socket, connection.theirs:
        monkeypatch.setattr(time, "monotonic", lambda: connection.now)
        if waits is None:
            for _ in range(1000):
                connection._wait_until_writable()
            return
        for _ in range(waits - 1):
            connection._wait_until_writable()
        with pytest.raises(StallError):
            connection._wait_until_writable()


def test_a_client_that_takes_a_large_answer_late_gets_all_of_it(world: World, port: int) -> None:
    with connect(port, receives=1 << 16) as client:
        client.sendall(GET % b"")
        eventually(lambda: world.streams and world.taken)
        with client.makefile("rb") as answers:
            assert read_answer(answers.readline, answers.read) == DATA
    assert world.ended()["bytes"] == len(DATA)


def test_a_client_that_leaves_ends_the_answer(world: World, port: int) -> None:
    os.truncate(world.file, LARGE_BYTES)
    before = counted("lakebed_block_bytes_total", driver="local", direction="out")
    with connect(port) as client:
        client.sendall(GET % b"")
        assert client.recv(1 << 20)
    line = world.ended()
    assert 0 < world.taken == line["bytes"] < LARGE_BYTES
    after = counted("lakebed_block_bytes_total", driver="local", direction="out")
    assert after - before == line["bytes"]
