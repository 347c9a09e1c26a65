"""The server in this process: events that no client can cause at will."""

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from lakebed.httpd import server as module
from lakebed.httpd.connection import ClientConnection, Stage
from lakebed.httpd.limits import HTTPLimits
from lakebed.httpd.listening import listen
from lakebed.httpd.server import WSGIServer
from tests.kit.served import PATIENCE_SECONDS, eventually

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PEER = ("127.0.0.1", 1)


class Panic(BaseException):
    """Like exceptions of some libraries: not an `Exception`."""


def app(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Respond according to the path."""
    path = environ["PATH_INFO"]
    if path == "/panic":
        raise Panic
    header = "two\r\nlines" if path == "/lines" else "\N{SNOWMAN}" if path == "/snow" else "x"
    start("200 OK", [("X", header)])
    return [b"ok"]


@pytest.fixture(params=[selectors.DefaultSelector, selectors.SelectSelector])
def server(request: pytest.FixtureRequest) -> Iterator[WSGIServer]:
    """A server with a port and no threads: the tests act as its threads."""
    made = WSGIServer(app, listen("127.0.0.1", 0), selector=request.param)
    yield made
    for connection in list(made._connections):
        made._close(connection)
    for each in (made._listener, made._stops, made._tells_to_stop, *made._wakes):
        each.close()


def take_in(server: WSGIServer) -> tuple[ClientConnection, socket.socket]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(PATIENCE_SECONDS)
    server._add_connection(ours, *PEER)
    return next(reversed(server._waiting)), theirs


def work_off(server: WSGIServer) -> None:
    """Handle all events."""
    server._checks_from = time.monotonic() + PATIENCE_SECONDS
    while any(has_work(key) for key, _ in server._selector.select(0)):
        server._handle(server._find_event())


def has_work(key: selectors.SelectorKey) -> bool:
    """Return whether the event is more than the byte that ends a poll."""
    return not isinstance(key.data, socket.socket)


def answer_to(server: WSGIServer, client: socket.socket, request: bytes = GET) -> bytes:
    client.sendall(request)
    work_off(server)
    return client.recv(4096)


class Interrupted(ClientConnection):
    """A connection whose deadline is checked by a thread, while another thread acts."""

    meanwhile: Callable[[], object] | None = None

    @property
    def deadline(self) -> float:
        found = self._deadline
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return found

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value


def test_a_new_connection_with_the_handle_of_a_closed_one_is_not_lost(
    server: WSGIServer,
) -> None:
    old, first = take_in(server)
    new: list[socket.socket] = []

    def replace() -> None:
        assert server._take(old)
        server._close(old)
        made, theirs = socket.socketpair()
        # Any lower handle may be free, too.
        ours = made
        if made.fileno() != old.handle:
            os.dup2(made.fileno(), old.handle, inheritable=False)
            ours = socket.socket(fileno=old.handle)
            made.close()
        server._add_connection(ours, *PEER)
        theirs.sendall(GET)
        new.append(theirs)

    old.__class__ = Interrupted
    old.deadline = 0.0
    assert isinstance(old, Interrupted)
    old.meanwhile = replace
    with closing(first):
        server._check_deadlines()
    with closing(new[0]) as client:
        client.settimeout(PATIENCE_SECONDS)
        work_off(server)
        assert client.recv(4096).endswith(b"ok")
        assert len(server._waiting) == len(server._connections) == 1


@pytest.mark.parametrize("together", [False, True], ids=["apart", "together"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_a_body_that_the_application_did_not_read_is_no_request(
    server: WSGIServer, *, together: bool, chunked: bool
) -> None:
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(GET)
    head = b"PUT / HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n"
    _, client = take_in(server)
    with closing(client):
        answer = answer_to(server, client, head + GET if together else head)
        assert b"\r\nConnection: close\r\n" in answer
        assert answer.endswith(b"ok")
        assert answer_to(server, client) == b"", "what follows is not answered"


def test_a_head_that_is_refused_is_no_page_for_a_browser(server: WSGIServer) -> None:
    _, client = take_in(server)
    with closing(client):
        coding = b"Transfer-Encoding: <script>alert(1)</script>"
        answer = answer_to(server, client, b"GET / HTTP/1.1\r\nHost: x\r\n" + coding + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nX-Content-Type-Options: nosniff\r\n" in answer
    assert b"\r\nContent-Security-Policy: sandbox;" in answer
    assert b"\r\nCross-Origin-Resource-Policy: same-origin\r\n" in answer


def test_a_connection_that_was_served_meanwhile_has_not_waited_for_too_long(
    server: WSGIServer,
) -> None:
    connection, client = take_in(server)
    connection.__class__ = Interrupted
    connection.deadline = 0.0
    assert isinstance(connection, Interrupted)
    with closing(client):
        connection.meanwhile = lambda: answer_to(server, client)
        server._check_deadlines()
        assert answer_to(server, client).endswith(b"ok")


def test_late_events_of_a_connection_are_harmless(server: WSGIServer) -> None:
    connection, client = take_in(server)
    with closing(client):
        server._handle(connection)  # which waits, and nothing has come
        assert answer_to(server, client).endswith(b"ok")
        assert server._take(connection)
        server._close(connection)
        server._handle(connection)
        assert not server._connections


def test_another_leader_leaves_a_connection_alone_that_a_thread_holds(server: WSGIServer) -> None:
    connection, client = take_in(server)
    with closing(client):
        assert server._take(connection)
        client.sendall(GET)
        work_off(server)  # ends, for the event does not come again and again
        assert connection.events == 0
        server._wait_at(connection, Stage.IDLE, PATIENCE_SECONDS)
        work_off(server)
        assert client.recv(4096).endswith(b"ok")


def test_a_leader_that_was_replaced_may_poll_beside_the_new_one(server: WSGIServer) -> None:
    connection, client = take_in(server)
    server._checks_from = time.monotonic() + PATIENCE_SECONDS
    with closing(client), ThreadPoolExecutor(2) as pool:
        found = [pool.submit(server._find_event) for _ in range(2)]
        eventually(lambda: any(each.running() for each in found))
        client.sendall(b"x")
        eventually(lambda: any(each.done() for each in found))
        assert connection.receive_now() == b"x"
        client.sendall(b"x")
        eventually(lambda: all(each.done() for each in found))
    assert [each.result() for each in found] == [connection] * 2


def test_a_connection_that_waits_again_while_the_leader_polls_is_noticed(
    server: WSGIServer,
) -> None:
    connection, client = take_in(server)
    assert server._take(connection)
    with server._changing:
        server._register(connection, 0)
    server._checks_from = time.monotonic() + PATIENCE_SECONDS
    with closing(client), ThreadPoolExecutor(1) as pool:
        found = pool.submit(server._find_event)
        eventually(server._polling.locked)
        client.sendall(GET)
        server._wait_at(connection, Stage.IDLE, PATIENCE_SECONDS)
        assert found.result(PATIENCE_SECONDS / 4) is connection


def test_whatever_an_application_raises_the_thread_goes_on(server: WSGIServer) -> None:
    _, client = take_in(server)
    with closing(client):
        assert answer_to(server, client, GET.replace(b"/ ", b"/panic ")) == b""
    assert not server._connections


@pytest.mark.parametrize("path", [b"/lines ", b"/snow "])
def test_an_answer_with_an_impossible_header_is_an_error_of_the_server(
    server: WSGIServer, path: bytes
) -> None:
    _, client = take_in(server)
    with closing(client):
        answer = answer_to(server, client, GET.replace(b"/ ", path))
        assert answer.startswith(b"HTTP/1.1 500 ")
        assert b"\r\nConnection: close\r\n" in answer


def test_a_connection_that_cannot_be_waited_for_does_not_end_the_port(
    server: WSGIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real = server._selector.register
    with socket.create_connection(server._listener.getsockname()) as client:
        client.settimeout(PATIENCE_SECONDS)
        monkeypatch.setattr(server._selector, "register", refuse)
        server._accept()
        assert not server._connections
        assert client.recv(1) == b""
    monkeypatch.setattr(server._selector, "register", real)
    server._checks_from = 0.0
    server._handle(server._find_event())
    with socket.create_connection(server._listener.getsockname()) as client:
        client.settimeout(PATIENCE_SECONDS)
        eventually(lambda: answer_of_started(server, client))


def answer_of_started(server: WSGIServer, client: socket.socket) -> bool:
    return answer_to(server, client).endswith(b"ok")


def test_a_request_that_came_before_the_end_is_answered(server: WSGIServer) -> None:
    _, asks = take_in(server)
    _, idle = take_in(server)
    asks.sendall(GET)
    server._begin_to_stop()
    work_off(server)
    with closing(asks), closing(idle):
        assert b"\r\nConnection: close\r\n" in asks.recv(4096)
        assert idle.recv(1) == b""


def test_a_connection_that_no_worker_is_woken_for_is_taken(server: WSGIServer) -> None:
    # As if the system woke a worker that died before accepting.
    server._listen(wanted=False)
    with closing(socket.create_connection(server._listener.getsockname())) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(GET)
        assert server._find_event() is None
        server._handle(None)
        work_off(server)
        assert client.recv(4096).endswith(b"ok")


def test_connections_not_accepted_by_a_stopped_worker_go_to_another(
    server: WSGIServer,
) -> None:
    stopped = WSGIServer(app, server._listener.dup())
    with closing(socket.create_connection(server._listener.getsockname())) as client:
        client.settimeout(PATIENCE_SECONDS)
        assert stopped._find_event() is None  # and goes no further
        assert answer_to(server, client).endswith(b"ok")
    stopped._handle(None)
    assert not stopped._connections
    for each in (stopped._listener, stopped._stops, stopped._tells_to_stop):
        each.close()


def test_a_server_with_more_connections_than_another_leaves_the_next_to_it() -> None:
    counts = [0, 0, 7]
    first = WSGIServer(app, listen("127.0.0.1", 0), counts=counts)
    other = WSGIServer(app, first._listener.dup(), number=1, counts=counts)
    with ExitStack() as stack:
        for each in (first, other):
            for opened in (each._listener, each._stops, each._tells_to_stop):
                stack.enter_context(opened)

        def connect() -> None:
            port = first._listener.getsockname()
            stack.enter_context(socket.create_connection(port, PATIENCE_SECONDS))

        first._find_event()  # the check with which it begins
        for _ in range(2):
            connect()
            first._handle(first._find_event())
        assert counts == [2, 0, 7]
        connect()
        assert first._selector.select(0) == []
        assert other._find_event() is None
        other._handle(None)
        assert counts == [2, 1, 7]
        # The pause ends, whatever the counts, and an idle server does not pause.
        assert first._find_event() is None
        first._handle(None)
        connect()
        assert first._selector.select(PATIENCE_SECONDS)
        first._handle(None)
        assert counts == [3, 1, 7]
        for each in (first, other):
            for connection in list(each._connections):
                each._close(connection)
        assert counts == [0, 0, 7]


def test_a_server_that_stops_answers_the_connections_in_the_queue(
    server: WSGIServer,
) -> None:
    port = server._listener.getsockname()
    with closing(socket.create_connection(port)) as client, closing(socket.create_connection(port)):
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(GET)
        server._begin_to_stop()
        work_off(server)
        assert b"\r\nConnection: close\r\n" in client.recv(4096)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(port)
    server._handle(None)  # an event of the port that comes late
    server._accept()


@pytest.mark.slow
def test_the_thread_that_waits_for_requests_shows_that_it_does(server: WSGIServer) -> None:
    beats: list[float] = []
    server._heartbeat = lambda: beats.append(time.monotonic())
    for number in (1, 2, 3):
        assert server._find_event() is None
        assert len(beats) == number
    assert beats[2] - beats[0] >= 2 * module.CHECK_SECONDS * 0.99


def test_idle_connections_whose_requests_have_come_do_not_make_room(
    server: WSGIServer,
) -> None:
    _, asks = take_in(server)
    _, idle = take_in(server)
    asks.sendall(GET)
    assert server._close_idlest() == 1
    with closing(asks), closing(idle):
        assert answer_to(server, asks, b"").endswith(b"ok")
        assert idle.recv(1) == b""


def test_buffers_of_slow_clients_are_bounded_and_the_largest_are_cut_first(
    server: WSGIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUFFERED_BYTES_MAX", 40_000)
    modest, first = take_in(server)
    greedy = [take_in(server) for _ in range(3)]
    head = GET[:-2] + b"X: " + b"x" * 15_000
    for connection, client in [(modest, first), *greedy]:
        if connection is not modest:
            connection.environ["REMOTE_ADDR"] = "127.0.0.2"
        client.sendall(head)
        work_off(server)
        assert connection.stage is Stage.HEAD
    server._check_deadlines()
    assert modest in server._connections
    assert [connection in server._connections for connection, _ in greedy] == [False, False, True]
    for client in (first, *(client for _, client in greedy)):
        client.close()


def test_an_idle_connection_keeps_nothing_of_its_last_answer(server: WSGIServer) -> None:
    connection, client = take_in(server)
    with closing(client):
        assert answer_to(server, client).endswith(b"ok")
    assert connection.unsent.obj == b""


def test_clients_that_do_not_end_their_heads_make_room_for_others(server: WSGIServer) -> None:
    server._limits = HTTPLimits(connections=2)
    slow = [take_in(server) for _ in range(2)]
    for _, client in slow:
        client.sendall(GET[:-2])
        work_off(server)
    _, client = take_in(server)
    with closing(client), closing(slow[0][1]), closing(slow[1][1]):
        assert answer_to(server, client).endswith(b"ok")


def test_a_closed_connection_keeps_nobody_from_looking_at_others(server: WSGIServer) -> None:
    closed, first = take_in(server)
    late, second = take_in(server)
    closed.deadline = late.deadline = 0.0
    server._close(closed)
    with closing(first), closing(second):
        server._check_deadlines()
        assert not server._connections
        assert not server._waiting


def test_a_connection_that_there_is_no_memory_for_does_not_end_the_port(
    server: WSGIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_named: object) -> ClientConnection:
        monkeypatch.setattr(module, "ClientConnection", ClientConnection)
        raise MemoryError

    monkeypatch.setattr(module, "ClientConnection", fail)
    port = server._listener.getsockname()
    with closing(socket.create_connection(port)):
        work_off(server)
    server._checks_from = 0.0
    server._handle(server._find_event())
    with closing(socket.create_connection(port)) as client:
        work_off(server)
        assert answer_to(server, client).startswith(b"HTTP/1.1 200 OK")
