"""What a client sees of connections: kept, closed, shared by many requests, and cut when idle."""

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pyarrow as pa
import pytest

from lakebed.server.settings import LimitSettings
from tests.kit.served import Served, Servers, eventually

LIMITS: Any = {
    "work_slots": 1,
    "transfer_slots": 1,
    "body_slots": 1,
    "queue_length": 1,
    "stall_seconds": 3,
}
PID = b"GET /pid HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    servers = Servers(tmp_path_factory.mktemp("served"), [])
    yield servers.serve(processes={"workers": 1}, limits=LIMITS)
    servers.end()


def head_of(connection: socket.socket) -> bytes:
    """Read the head of an answer, byte by byte, so that nothing behind it is lost."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, head
        head += byte
    return head


def answer_of(connection: socket.socket) -> tuple[bytes, bytes]:
    head = head_of(connection)
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return head, body


def is_closed(connection: socket.socket) -> bool:
    return connection.recv(1) == b""


def test_a_connection_is_used_again_and_answers_come_in_order(served: Served) -> None:
    with served.connect(PID) as connection:
        first = answer_of(connection)
        connection.sendall(b"PUT /raw/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + PID)
        assert answer_of(connection)[1] == b"3"
        assert answer_of(connection)[1] == first[1]
        head = b"PUT /raw/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall((head + b"2\r\nab\r\n0\r\n\r\n" + PID) * 20)
        assert [answer_of(connection)[1] for _ in range(40)] == [b"2", first[1]] * 20
    (served.objects / "a").unlink()


def test_a_connection_is_closed_as_the_client_wants(served: Served) -> None:
    for head in (b"GET /pid HTTP/1.0\r\n\r\n", PID[:-2] + b"Connection: close\r\n\r\n"):
        with served.connect(head) as connection:
            assert b"Connection: close" in answer_of(connection)[0]
            assert is_closed(connection)
    old = b"GET /pid HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    with served.connect(old) as connection:
        assert b"Connection: keep-alive" in answer_of(connection)[0]
        connection.sendall(old)
        answer_of(connection)


def test_a_head_alone_is_answered_by_a_head(served: Served) -> None:
    with served.connect(PID.replace(b"GET", b"HEAD") + PID) as connection:
        assert b"Content-Length: " in head_of(connection)
        assert answer_of(connection)[0].startswith(b"HTTP/1.1 200 ")


def test_a_body_that_nobody_reads_ends_the_connection_after_the_answer(served: Served) -> None:
    large = 8 << 20  # more than the system keeps
    head = b"PUT /pid HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % large
    with served.connect(head, b"x" * large) as connection:
        assert b"Connection: close" in answer_of(connection)[0]
        assert is_closed(connection)


def test_a_client_that_asks_is_told_to_send_its_body(served: Served) -> None:
    head = b"PUT /%s HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with served.connect(head % b"raw/asked") as connection:
        assert head_of(connection) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        assert answer_of(connection)[1] == b"3"
    (served.objects / "asked").unlink()
    with served.connect(head % b"pid") as connection:  # which reads none
        assert answer_of(connection)[0].startswith(b"HTTP/1.1 200 ")


def test_the_environment_of_a_request_is_not_that_of_the_process(served: Served) -> None:
    with served.connect(PID.replace(b"pid", b"environment")) as connection:
        port = connection.getsockname()[1]
        text = answer_of(connection)[1].decode()
    assert f'"REMOTE_PORT": "{port}"' in text
    assert '"PATH"' not in text


def test_clients_that_take_nothing_of_large_answers_hold_no_thread(served: Served) -> None:
    marks = served.log().count("download stalled")
    with ExitStack() as stack:
        number = LimitSettings(**LIMITS).threads + 1
        for _ in range(number):
            stack.enter_context(served.connect(PID.replace(b"pid", b"large")))
        line = f'lakebed_http_seconds_count{{operation="large",status="200"}} {number}.0'
        eventually(lambda: line in served.get("metrics").text)
        eventually(lambda: served.log().count("download stalled") > marks)
        assert served.get("healthcheck").status_code == 200


def test_a_client_that_takes_a_large_answer_late_gets_it_whole(served: Served) -> None:
    with served.connect(PID.replace(b"pid", b"large") + PID) as connection:
        assert len(answer_of(connection)[1]) == 6 << 20
        assert answer_of(connection)[1].isdigit()


def test_workers_serve_as_many_connections_each(servers: Servers) -> None:
    served = servers.serve(processes={"workers": 2})
    served.worker_pids()
    with ExitStack() as stack:
        answers: Counter[bytes] = Counter()
        for _ in range(24):
            connection = stack.enter_context(served.connect(PID))
            answers[answer_of(connection)[1]] += 1
    # A worker that has two more than another lets it go first, if that one runs.
    assert len(answers) == 2
    assert min(answers.values()) >= 8


@pytest.mark.parametrize("chosen", [None, "system"])
def test_workers_have_the_memory_pool_that_suits_commits_unless_told_otherwise(
    servers: Servers, chosen: str | None
) -> None:
    environment = {} if chosen is None else {"ARROW_DEFAULT_MEMORY_POOL": chosen}
    served = servers.serve(processes={"workers": 1}, environment=environment)
    [worker] = served.worker_pids(1)
    pool = psutil.Process(worker).environ()["ARROW_DEFAULT_MEMORY_POOL"]
    assert pool == (chosen or "jemalloc")
    assert pool in pa.supported_memory_backends()
