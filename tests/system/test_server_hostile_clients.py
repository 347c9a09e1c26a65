"""Clients that break off, lie, stall and flood: a clear answer, no half object, others unhurt."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.kit.served import Served, Servers, eventually

STALL_SECONDS = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    servers = Servers(tmp_path_factory.mktemp("served"), [])
    yield servers.serve(
        limits={
            "work_slots": 8,
            "transfer_slots": 64,
            "body_slots": 8,
            "queue_length": 16,
            "queue_seconds": 60,
            "header_seconds": 2,
            "stall_seconds": STALL_SECONDS,
        },
    )
    servers.end()


def request(path: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"PUT /{path} HTTP/1.1", "Host: x", *headers])
    return head.encode() + b"\r\n\r\n" + body


def chunked(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)


FORM = (
    b'--b\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n\r\n'
    b"the content of a file\r\n--b--\r\n"
)
FORM_TYPE = "Content-Type: multipart/form-data; boundary=b"
RAW = b"the content of an object"

FRAMINGS = {
    "length": ("raw", [f"Content-Length: {len(RAW)}"], RAW),
    "chunks": ("raw", ["Transfer-Encoding: chunked"], chunked(RAW)),
    "form with length": ("form", [FORM_TYPE, f"Content-Length: {len(FORM)}"], FORM),
    "form in chunks": ("form", [FORM_TYPE, "Transfer-Encoding: chunked"], chunked(FORM)),
}


def answer_of(connection: socket.socket) -> tuple[int, bytes]:
    """Read one answer to its end."""
    with connection, connection.makefile("rb") as file:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            assert line, head
            head += line
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return int(head.split()[1]), file.read(length)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_whole_body_is_kept(served: Served, framing: str) -> None:
    kind, headers, body = FRAMINGS[framing]
    with served.connect(request(f"{kind}/whole", *headers, body=body)) as connection:
        assert answer_of(connection)[0] == 200
    assert (served.objects / "whole").read_bytes() in {RAW, b"the content of a file"}
    (served.objects / "whole").unlink()


@pytest.mark.parametrize("how", ["half-closed", "closed", "reset"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_body_that_stops_anywhere_leaves_nothing(served: Served, framing: str, how: str) -> None:
    kind, headers, body = FRAMINGS[framing]
    before = completed(served, kind)
    # Every place of the framing that chunks have; forms are cut everywhere without a server too.
    cuts = range(0, len(body), 1 if framing == "chunks" else 5)
    for cut in cuts:
        connection = served.connect(request(f"{kind}/cut{cut}", *headers, body=body[:cut]))
        if how == "half-closed":
            connection.shutdown(socket.SHUT_WR)
            assert answer_of(connection) == (400, b"body_cut")
        else:
            if how == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    if how == "half-closed":
        eventually(lambda: completed(served, kind) >= before + len(cuts))
    # Drafts are there for as long as requests are under way; what became visible would stay.
    eventually(lambda: in_progress(served) == 1 and not objects_of(served))


def metric(served: Served, name: str) -> float:
    for line in served.get("metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


def completed(served: Served, kind: str) -> float:
    name = f'lakebed_http_seconds_count{{operation="{kind}",status="400"}}'
    return metric(served, name)


def objects_of(served: Served) -> list[str]:
    """What lies in the storage, but for its own folder."""
    return [path.name for path in served.objects.iterdir() if path.name != ".lakebed"]


def in_progress(served: Served) -> float:
    return metric(served, "lakebed_http_requests_in_progress")


def test_a_length_beside_chunks_is_refused(served: Served) -> None:
    headers = [f"Content-Length: {len(RAW)}", "Transfer-Encoding: chunked"]
    for each in (headers, headers[::-1]):
        wire = request("raw/x", *each, body=chunked(RAW))
        assert answer_of(served.connect(wire))[0] == 400
    assert objects_of(served) == []


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: -1"],
        ["Content-Length: +3"],
        ["Content-Length: 3, 3"],
        ["Content-Length: 99999999999999999999"],
        ["Content-Length: 3", "Content-Length: 4"],
        ["Transfer-Encoding: identity"],
    ],
)
def test_a_length_that_is_none_is_refused(served: Served, headers: list[str]) -> None:
    assert answer_of(served.connect(request("raw/x", *headers, body=b"abc")))[0] == 400


def test_a_body_longer_than_announced_is_cut_to_its_length(served: Served) -> None:
    wire = request("raw/long", "Content-Length: 3", body=b"abcdef")
    assert answer_of(served.connect(wire)) == (200, b"3")
    assert (served.objects / "long").read_bytes() == b"abc"
    (served.objects / "long").unlink()


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (request("pid", "X: " + "a" * 200_000), 431),
        (request("pid", *[f"X{number}: a" for number in range(500)]), 431),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"\x00\x01\x02\x03\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
    ],
    ids=["huge header", "many headers", "huge path", "garbage", "unknown version"],
)
def test_a_head_that_is_too_much_is_refused(served: Served, wire: bytes, status: int) -> None:
    connection = served.connect()
    with suppress(OSError):  # refused before all was sent
        connection.sendall(wire)
    assert answer_of(connection)[0] == status


def test_slow_clients_do_not_keep_others_waiting(served: Served) -> None:
    with ExitStack() as stack:
        for number in range(100):
            # Some do not get to the end of a head, some not to that of a body.
            wire = request(f"raw/slow{number}", "Content-Length: 100", body=b"a")
            slow = served.connect(wire[:20] if number % 2 else wire)
            stack.enter_context(slow)
        eventually(lambda: in_progress(served) >= 40)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: served.get("slow/0.01").status_code, range(64)))
        assert answers == [200] * 64
    eventually(lambda: in_progress(served) == 1 and not objects_of(served))


def test_idle_connections_do_not_keep_others_out(served: Served) -> None:
    with ExitStack() as stack:
        for _ in range(1500):
            stack.enter_context(served.connect())
        assert served.get("healthcheck").status_code == 200


def test_a_head_that_does_not_come_ends_the_connection(served: Served) -> None:
    with served.connect(b"GET / HT") as connection:
        assert connection.recv(1) == b""


def test_a_head_that_comes_byte_by_byte_ends_the_connection(served: Served) -> None:
    with (
        served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX: ") as connection,
        pytest.raises(ConnectionError),
    ):
        send_slowly(connection)


def send_slowly(connection: socket.socket) -> None:
    for _ in range(600):
        connection.sendall(b"A")
        time.sleep(0.05)


def test_a_client_that_leaves_a_download_ends_it(served: Served) -> None:
    with served.connect(b"GET /download/left HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        assert connection.recv(100)
        eventually((served.objects / "left.open").exists)
    eventually(lambda: not (served.objects / "left.open").exists())
    eventually(lambda: in_progress(served) == 1)


def test_clients_that_take_nothing_of_a_download_are_cut_off(served: Served) -> None:
    marks = [served.objects / f"stalled{number}.open" for number in range(8)]  # at both workers
    with ExitStack() as stack:
        for mark in marks:
            head = f"GET /download/{mark.stem} HTTP/1.1\r\nHost: x\r\n\r\n"
            connection = stack.enter_context(served.connect(head.encode()))
            assert connection.recv(100)
            eventually(mark.exists)  # the head comes before the download begins
        eventually(lambda: not any(mark.exists() for mark in marks))
    eventually(lambda: "download stalled" in served.log())


def test_a_client_that_takes_a_download_slowly_is_not(served: Served) -> None:
    mark = served.objects / "slowly.open"
    with served.connect(b"GET /download/slowly HTTP/1.1\r\nHost: x\r\n\r\n") as connection:
        until = time.monotonic() + 3 * STALL_SECONDS
        while time.monotonic() < until:
            time.sleep(STALL_SECONDS / 4)
            assert connection.recv(1 << 20)
        assert mark.exists()
    eventually(lambda: not mark.exists())


def test_a_client_that_stops_in_a_body_is_cut_off(served: Served) -> None:
    with ThreadPoolExecutor(1) as pool:
        # Of the same address, at the same time, longer than a stall; but it has not stopped.
        slow = pool.submit(served.get, "slow/6")
        # A request that no thread has begun in all the time of a stall cannot be told from a stall.
        eventually(lambda: in_progress(served) > 1)
        stopped = [
            served.connect(request(f"{kind}/stopped{number}", *headers, body=body[:number]))
            for kind, headers, body in FRAMINGS.values()
            for number in range(10)
        ]
        for connection in stopped:
            assert answer_of(connection) == (400, b"body_cut")
        assert slow.result().text == "done"
    # A client may have its answer before the server has counted it.
    eventually(lambda: in_progress(served) == 1 and not objects_of(served))


def test_a_request_whose_answer_is_late_is_not_taken_for_one_that_stopped(served: Served) -> None:
    seconds = 2 * STALL_SECONDS
    with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
        late = [pool.submit(served.get, f"late/{seconds}") for _ in range(4)]  # at both workers
        eventually(lambda: in_progress(served) > len(late))
        headers, body = FRAMINGS["length"][1:]
        stopped = [
            stack.enter_context(
                served.connect(request(f"raw/stopped{number}", *headers, body=body[:3]))
            )
            for number in range(8)
        ]
        assert [each.result().text for each in late] == ["done"] * len(late)
        for connection in stopped:
            assert answer_of(connection) == (400, b"body_cut")


def test_a_client_that_is_slow_but_goes_on_is_not_cut_off(served: Served) -> None:
    with served.connect(request("raw/steady", "Content-Length: 8")) as connection:
        for _ in range(8):
            time.sleep(0.8)
            connection.sendall(b"x")
        assert answer_of(connection) == (200, b"8")
    (served.objects / "steady").unlink()


def test_an_answer_that_fails_on_the_way_is_seen_to_break_off(served: Served) -> None:
    for _ in range(70):  # more than there are slots
        with pytest.raises(httpx.RemoteProtocolError):
            served.get("break")
    eventually(lambda: in_progress(served) == 1)
    eventually(lambda: "answer aborted" in served.log())


def test_requests_wait_for_their_turn_and_what_is_too_much_is_refused(served: Served) -> None:
    before = metric(served, 'lakebed_http_refused_total{slot="work"}')
    taken = 2 * (8 + 12)  # of two workers; one address has three quarters of the seats to wait
    with ThreadPoolExecutor(60) as pool:
        answers = [pool.submit(served.get, "held") for _ in range(60)]
        # The others still have their slots or wait: nothing has opened the gate.
        eventually(lambda: sum(answer.done() for answer in answers) >= 60 - taken)
        refused = [answer.result().status_code for answer in answers if answer.done()]
        assert set(refused) == {503}
        assert served.get("healthcheck").status_code == 200
        (served.objects / "gate").touch()
    statuses = [answer.result().status_code for answer in answers]
    assert set(statuses) == {200, 503}
    number = statuses.count(503)
    assert statuses.count(200) > 2 * 8, "some waited"
    assert metric(served, 'lakebed_http_refused_total{slot="work"}') == before + number
    (served.objects / "gate").unlink()
    assert served.get("slow/0").status_code == 200


def test_an_answer_carries_the_id_of_the_log(served: Served) -> None:
    drawn = served.get("pid").headers["X-Request-ID"]
    given = served.get("pid", headers={"X-Request-ID": "mine-1"}).headers["X-Request-ID"]
    insane = served.get("pid", headers={"X-Request-ID": 'a "b"'}).headers["X-Request-ID"]
    assert given == "mine-1"
    assert len({drawn, given, insane}) == 3
    wanted = [f'"request_id":"{request_id}"' for request_id in (drawn, given, insane)]
    eventually(lambda: all(each in served.log() for each in wanted))


def test_internal_errors_are_logged_and_not_shown(served: Served) -> None:
    answer = served.get("crash?token=hunter2")
    assert (answer.status_code, "ZeroDivision" in answer.text) == (500, False)
    eventually(lambda: "ZeroDivisionError" in served.log())
    assert "hunter2" not in served.log()


def test_a_large_upload_takes_no_memory(served: Served, tmp_path: Path) -> None:
    def content() -> Iterator[bytes]:
        for _ in range(256):
            yield b"x" * (1 << 20)

    before = max(child.memory_info().rss for child in served.processes())
    headers = {"Content-Length": str(256 << 20)}
    answer = httpx.put(f"{served.url}/raw/large", content=content(), headers=headers, timeout=60)
    assert answer.text == str(256 << 20)
    assert max(child.memory_info().rss for child in served.processes()) < before + (32 << 20)
    (served.objects / "large").unlink()
