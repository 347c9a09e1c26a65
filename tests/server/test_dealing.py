"""Workers that share the connections they accept, in this process."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lakebed.server.connections.dealing import Dealer
from lakebed.server.connections.server import ConnectionServer
from lakebed.server.processes import worker
from lakebed.server.settings import ListenSettings, ProcessSettings, ServerSettings
from tests.kit.served import PATIENCE_SECONDS, eventually
from tests.server.test_connection_server import GET, app, work_off


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test opens."""
    with ExitStack() as opened:
        yield opened


def dealers(stack: ExitStack, folder: Path, count: int) -> list[Dealer]:
    return [stack.enter_context(closing(Dealer(folder, each, count))) for each in range(count)]


def connect(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection: the server's, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = stack.enter_context(socket.create_connection(listener.getsockname()))
        accepted, _ = listener.accept()
    client.settimeout(PATIENCE_SECONDS)
    return stack.enter_context(accepted), client


def taken(dealer: Dealer) -> list[socket.socket]:
    found = []
    while True:
        try:
            found.append(dealer.accept()[0])
        except BlockingIOError:
            return found


@pytest.mark.parametrize("count", [2, 3, 5])
def test_connections_go_to_all_workers_in_turn(
    stack: ExitStack, tmp_path: Path, count: int
) -> None:
    folder = tmp_path / ("x" * 200)  # longer than the path of a socket may be
    folder.mkdir()
    workers = dealers(stack, folder, count)
    giver = workers[1]
    ends = [connect(stack) for _ in range(2 * count)]
    given = [giver.give(accepted) for accepted, _ in ends]
    assert given == 2 * [False, *[True] * (count - 1)]
    for place, taker in enumerate([*workers[2:], workers[0]], start=1):
        for number in (place, count + place):
            connected, address = taker.accept()
            with connected:
                client = ends[number][1]
                assert address == client.getsockname()
                assert ends[number][0].fileno() == -1
                connected.sendall(b"hello")
                assert client.recv(5) == b"hello"
                assert not connected.get_inheritable()
    assert not taken(giver)


def test_a_connection_for_a_worker_that_is_not_there_is_kept(
    stack: ExitStack, tmp_path: Path
) -> None:
    first = stack.enter_context(closing(Dealer(tmp_path, 0, 2)))
    kept, _ = connect(stack)
    assert not first.give(kept)  # its own turn
    assert not first.give(kept)  # never started
    dead = Dealer(tmp_path, 1, 2)
    dead.close()  # as when it is killed: its socket's file stays
    assert [first.give(kept), first.give(kept)] == [False, False]
    again = stack.enter_context(closing(Dealer(tmp_path, 1, 2)))
    assert [first.give(kept), first.give(kept)] == [False, True]
    [connected] = taken(again)
    connected.close()


def test_a_worker_that_leaves_is_given_no_more_and_can_take_what_is_there(
    stack: ExitStack, tmp_path: Path
) -> None:
    first, second = dealers(stack, tmp_path, 2)
    before, kept = connect(stack)[0], connect(stack)[0]
    assert [first.give(before), first.give(before)] == [False, True]
    second.leave()
    assert [first.give(kept), first.give(kept)] == [False, False]
    [connected] = taken(second)
    connected.close()


def test_a_worker_that_has_too_many_waiting_is_given_no_more(
    stack: ExitStack, tmp_path: Path
) -> None:
    first, second = dealers(stack, tmp_path, 2)
    given = 0
    for _ in range(2000):  # the system keeps ten, or some hundred
        accepted, _ = connect(stack)
        first.give(accepted)  # its own turn
        if not first.give(accepted):
            break
        given += 1
    assert accepted.fileno() >= 0  # it is still ours
    found = taken(second)
    for each in found:
        each.close()
    assert 0 < len(found) == given < 2000
    assert [first.give(accepted), first.give(accepted)] == [False, True]


def test_a_client_that_is_gone_is_no_error_for_the_others(stack: ExitStack, tmp_path: Path) -> None:
    first, second = dealers(stack, tmp_path, 2)
    unconnected = stack.enter_context(socket.socket())
    accepted, _ = connect(stack)
    assert [first.give(unconnected), first.give(unconnected)] == [False, True]
    assert [first.give(accepted), first.give(accepted)] == [False, True]
    with pytest.raises(ConnectionError):
        second.accept()
    [connected] = taken(second)
    connected.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[ConnectionServer]]:
    """Two servers that share connections, though not their port; tests play their threads."""
    settings = ServerSettings(listen=ListenSettings(port=0))
    servers = [
        ConnectionServer(app, settings, "127.0.0.1", dealer=Dealer(tmp_path, number, 2))
        for number in range(2)
    ]
    yield servers
    for server in servers:
        if server._sources:  # else the test has stopped it, and its handles may be used again
            server._begin_to_stop()
        for connection in list(server._connections):
            server._close(connection)
        for each in (server._stops, server._tells_to_stop):
            each.close()


def test_servers_share_connections_equally(pair: list[ConnectionServer], stack: ExitStack) -> None:
    def taken_in() -> int:
        for server in pair:
            work_off(server)
        return sum(len(server._connections) for server in pair)

    clients: list[socket.socket] = []
    for _ in range(16):
        client = socket.create_connection(pair[0]._listener.getsockname(), PATIENCE_SECONDS)
        clients.append(stack.enter_context(client))
        eventually(lambda: taken_in() == len(clients))
    assert [len(server._connections) for server in pair] == [8, 8]
    for client in clients:
        client.sendall(GET)
    for server in pair:
        work_off(server)
    assert all(client.recv(4096).endswith(b"ok") for client in clients)


def test_what_a_server_was_given_before_its_end_is_answered(
    pair: list[ConnectionServer], stack: ExitStack
) -> None:
    stopping, other = pair
    assert other._dealer is not None
    accepted, client = connect(stack)
    client.sendall(GET)
    assert [other._gives(accepted), other._gives(accepted)] == [False, True]
    stopping._begin_to_stop()
    work_off(stopping)
    assert b"\r\nConnection: close\r\n" in client.recv(4096)
    kept, _ = connect(stack)
    assert [other._gives(kept), other._gives(kept)] == [False, False]


def test_a_server_that_takes_what_was_left_for_it_is_given_no_more(
    pair: list[ConnectionServer], stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping, other = pair
    dealer, (accepted, _) = stopping._dealer, connect(stack)
    assert dealer is not None
    real, given = dealer.accept, []

    def accept() -> tuple[socket.socket, object]:
        given.extend([other._gives(accepted), other._gives(accepted)])
        return real()

    monkeypatch.setattr(dealer, "accept", accept)
    stopping._begin_to_stop()
    assert given
    assert not any(given)


def test_a_server_that_stops_gives_none(pair: list[ConnectionServer], stack: ExitStack) -> None:
    server = pair[0]
    server._is_stopping = True
    kept, _ = connect(stack)
    assert [server._gives(kept), server._gives(kept)] == [False, False]


def test_a_message_that_lost_its_handle_is_an_error_as_when_there_are_too_many_files(
    stack: ExitStack, tmp_path: Path
) -> None:
    first, second = dealers(stack, tmp_path, 2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", second._paths[1])
    with pytest.raises(OSError, match="Too many open files"):
        second.accept()
    accepted, _ = connect(stack)
    assert [first.give(accepted), first.give(accepted)] == [False, True]
    [connected] = taken(second)
    connected.close()


def test_a_worker_whose_socket_cannot_be_made_serves_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServerSettings(processes=ProcessSettings(workers=2))
    assert worker._dealer(settings, tmp_path / "missing", 0) is None
    assert "gets no connections from others" in caplog.text
    alone = ServerSettings(processes=ProcessSettings(workers=1))
    assert worker._dealer(alone, tmp_path, 0) is None
