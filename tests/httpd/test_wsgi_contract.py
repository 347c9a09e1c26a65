"""Requirements of object storage on WSGI servers: httpd and others (`make test-all PARTS=wsgi`).

Other servers fail some of them, as listed in `FAILS`; design/0008 has the results. A server that
starts to pass a test fails here (a strict xfail), so the table stays true.
"""

import hashlib
import re
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.httpd.contract_app import BLOCK, LARGE_BYTES
from tests.httpd.contract_servers import STALL_SECONDS, ContractServer, run_server
from tests.kit.served import eventually

SERVERS: Final = [
    "httpd",
    "httpd by select",
    *(pytest.param(name, marks=pytest.mark.wsgi) for name in ("gunicorn", "cheroot", "granian")),
]
FAILS: Final = {
    "gunicorn": {
        "a_client_that_stops_in_a_body_is_cut",
        "reads_return_the_bytes_that_have_arrived",
        "a_request_that_is_refused_unread_gets_no_100_continue",
        "a_malformed_head_is_refused[no host]",
        "ambiguous_framing_is_refused[coding]",
    },
    "cheroot": {
        "chunks_end_with_an_empty_line",
        "malformed_chunks_are_not_stored",
        "reads_return_the_bytes_that_have_arrived",
        "a_request_that_is_refused_unread_gets_no_100_continue",
        "head_gets_no_body_and_keeps_the_connection",
        "a_malformed_head_is_refused[two hosts]",
        "a_malformed_head_is_refused[no host]",
        "a_malformed_head_is_refused[folded line]",
        "a_malformed_head_is_refused[space before colon]",
        "ambiguous_framing_is_refused[two lengths]",
        "ambiguous_framing_is_refused[signed length]",
        "ambiguous_framing_is_refused[coding]",
        "a_server_that_stops_finishes_its_requests",
    },
    "granian": {
        "a_cut_body_in_chunks_is_not_stored",
        "chunks_end_with_an_empty_line",
        "malformed_chunks_are_not_stored",
        "a_client_that_stops_in_a_body_is_cut",
        "reads_return_the_bytes_that_have_arrived",
        "header_values_are_bytes",
        "a_malformed_head_is_refused[two hosts]",
        "a_malformed_head_is_refused[no host]",
        "ambiguous_framing_is_refused[length and chunks]",
        "ambiguous_framing_is_refused[two lengths]",
        "ambiguous_framing_is_refused[signed length]",
        "ambiguous_framing_is_refused[coding]",
    },
}
"""Tests that a server is known to fail, with the parameter where it passes others."""
GET: Final = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
BODY: Final = b"the content of an object"
CHUNKED: Final = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.fixture(scope="module", params=SERVERS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ContractServer]:
    with run_server(request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def server(request: pytest.FixtureRequest, shared: ContractServer) -> ContractServer:
    name = request.node.callspec.params["shared"]
    mark_known(request, name)
    return shared


@pytest.fixture(params=SERVERS)
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ContractServer]:
    """A server for a single test, which stops it."""
    mark_known(request, request.param)
    with run_server(request.param, tmp_path) as running:
        yield running


def mark_known(request: pytest.FixtureRequest, server: str) -> None:
    test = request.node.originalname.removeprefix("test_")
    case = request.node.callspec.id.removeprefix(f"{server}-")
    if {test, f"{test}[{case}]"} & FAILS.get(server, set()):
        request.applymarker(pytest.mark.xfail(reason=f"{server} does not", strict=True))


def put(name: str, *headers: str, body: bytes = b"") -> bytes:
    head = "\r\n".join([f"PUT /put/{name} HTTP/1.1", "Host: x", *headers])
    return head.encode() + b"\r\n\r\n" + body


def head_of(client: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        assert byte, head
        head += byte
    return head


def answer_of(client: socket.socket) -> tuple[int, bytes, bytes]:
    """Read a response; return its status, head and body."""
    head = head_of(client)
    found = re.search(rb"\r\ncontent-length: *(\d+)", head.lower())
    assert found, head
    left, pieces = int(found[1]), []
    while left:
        piece = client.recv(min(left, 1 << 20))
        assert piece, f"{left} bytes are missing"
        pieces.append(piece)
        left -= len(piece)
    return int(head.split()[1]), head, b"".join(pieces)


def status_of_refusal(client: socket.socket) -> int:
    """Return the status of a refused request; 400 if the server just closes the connection."""
    try:
        head = client.recv(1 << 16)
    except ConnectionResetError:
        return 400
    return int(head.split()[1]) if head else 400


def test_whole_bodies_are_stored(server: ContractServer) -> None:
    framings = (f"Content-Length: {len(BODY)}", BODY), ("Transfer-Encoding: chunked", CHUNKED)
    for number, (header, body) in enumerate(framings):
        with closing(server.connect(put(f"whole{number}", header, body=body))) as client:
            assert answer_of(client)[0] == 200
        assert (server.folder / f"whole{number}").read_bytes() == BODY


@pytest.mark.parametrize("how", ["closed", "half-closed"])
def test_a_cut_body_is_not_stored(server: ContractServer, how: str) -> None:
    name = f"cut-{how}"
    wire = put(name, f"Content-Length: {len(BODY)}", body=BODY[:10])
    assert is_refused(server, name, wire, how)


@pytest.mark.parametrize("how", ["closed", "half-closed"])
def test_a_cut_body_in_chunks_is_not_stored(server: ContractServer, how: str) -> None:
    for cut in (1, 3, 10, len(CHUNKED) - 7, len(CHUNKED) - 5):
        name = f"chunks-{how}-{cut}"
        wire = put(name, "Transfer-Encoding: chunked", body=CHUNKED[:cut])
        assert is_refused(server, name, wire, how), f"{cut} of {len(CHUNKED)} bytes"


def test_chunks_end_with_an_empty_line(server: ContractServer) -> None:
    wire = put("no-end", "Transfer-Encoding: chunked", body=CHUNKED[:-2])
    assert is_refused(server, "no-end", wire, "half-closed")


def is_refused(server: ContractServer, name: str, wire: bytes, how: str) -> bool:
    with closing(server.connect(wire)) as client:
        if how == "half-closed":
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 16):
                pass
    # Equally good: the application was never called.
    with closing(server.connect(GET % b"after")) as client:
        assert answer_of(client)[0] == 200
    draft = server.folder / f"{name}.draft"
    eventually(lambda: not draft.exists(), 10)
    return not server.exists(name)


def test_malformed_chunks_are_not_stored(server: ContractServer) -> None:
    malformed = b"3\r\nabcd\r\n0\r\n\r\n", b"x\r\nabc\r\n0\r\n\r\n", b"-3\r\nabc\r\n0\r\n\r\n"
    for number, body in enumerate(malformed):
        name = f"malformed{number}"
        with closing(server.connect(put(name, "Transfer-Encoding: chunked", body=body))) as client:
            assert status_of_refusal(client) == 400
        assert not server.exists(name), body


@pytest.mark.slow
def test_a_client_that_stops_in_a_body_is_cut(server: ContractServer) -> None:
    wire = put("stops", f"Content-Length: {len(BODY)}", body=BODY[:10])
    with closing(server.connect(wire)):
        eventually(lambda: server.exists("stops.failed"), 8 * STALL_SECONDS)


def test_reads_return_the_bytes_that_have_arrived(server: ContractServer) -> None:
    with closing(server.connect(put("slow", f"Content-Length: {len(BODY)}"))) as client:
        for at in range(0, len(BODY), 4):
            # Otherwise the application cannot distinguish a slow client from a stalled one.
            eventually(lambda end=at: has_size(server.folder / "slow.draft", end), 10)  # type: ignore[misc]
            client.sendall(BODY[at : at + 4])
        assert answer_of(client)[0] == 200


def has_size(path: Path, size: int) -> bool:
    return not size or (path.exists() and path.stat().st_size >= size)


def test_a_body_is_streamed(server: ContractServer) -> None:
    """The application receives the first bytes before the last are sent."""
    size = 32 << 20
    head = put("streamed", f"Content-Length: {size}")
    with closing(server.connect(head, bytes(1 << 16))) as client:
        eventually(lambda: has_size(server.folder / "streamed.draft", 1), 10)
        for _ in range((size >> 16) - 1):
            client.sendall(bytes(1 << 16))
        assert answer_of(client)[2] == str(size).encode()


def test_header_values_are_bytes(server: ContractServer) -> None:
    head = b"GET /header HTTP/1.1\r\nHost: x\r\nX-Name: \xc3\xa9t\xc3\xa9\xff\r\n\r\n"
    with closing(server.connect(head)) as client:
        _, head, body = answer_of(client)
    assert bytes.fromhex(body.decode()) == b"\xc3\xa9t\xc3\xa9\xff"
    assert b"h\xc3\xa9\r\n" in head


def test_a_client_that_expects_100_continue_is_told_when_the_body_is_read(
    server: ContractServer,
) -> None:
    headers = f"Content-Length: {len(BODY)}", "Expect: 100-continue"
    with closing(server.connect(put("expects", *headers))) as client:
        assert head_of(client).startswith(b"HTTP/1.1 100 ")
        client.sendall(BODY)
        assert answer_of(client)[0] == 200


def test_a_request_that_is_refused_unread_gets_no_100_continue(server: ContractServer) -> None:
    head = put("x", f"Content-Length: {len(BODY)}", "Expect: 100-continue")
    with closing(server.connect(head.replace(b"/put/", b"/refuse/"))) as client:
        assert answer_of(client)[0] == 200


def test_large_responses_arrive_whole(server: ContractServer) -> None:
    with closing(server.connect(GET % b"large")) as client:
        body = answer_of(client)[2]
    wanted = hashlib.sha256(BLOCK * (LARGE_BYTES // len(BLOCK))).digest()
    assert hashlib.sha256(body).digest() == wanted


def test_a_response_that_fails_is_seen_to_break_off(server: ContractServer) -> None:
    with closing(server.connect(GET % b"broken")) as client:
        client.settimeout(5)
        size = 0
        with suppress(ConnectionResetError):
            while piece := client.recv(1 << 20):
                size += len(piece)
    assert size < LARGE_BYTES


def test_head_gets_no_body_and_keeps_the_connection(server: ContractServer) -> None:
    with closing(server.connect(b"HEAD /large HTTP/1.1\r\nHost: x\r\n\r\n" + GET % b"a")) as client:
        assert b"content-length: %d\r\n" % LARGE_BYTES in head_of(client).lower()
        assert answer_of(client)[2] == b"ok"


def test_a_connection_is_kept(server: ContractServer) -> None:
    with closing(server.connect()) as client:
        for name in ("kept1", "kept2"):
            client.sendall(put(name, f"Content-Length: {len(BODY)}", body=BODY))
            assert answer_of(client)[0] == 200
            client.sendall(GET % b"a")
            assert answer_of(client)[0] == 200


def test_a_pipeline_is_answered_in_order(server: ContractServer) -> None:
    requests = [
        put(f"p{number}", f"Content-Length: {number}", body=BODY[:number]) for number in range(1, 9)
    ]
    with closing(server.connect(b"".join(requests))) as client:
        assert [answer_of(client)[2] for _ in requests] == [b"%d" % n for n in range(1, 9)]


def test_a_body_that_the_application_does_not_read_is_no_request(server: ContractServer) -> None:
    smuggled = put("smuggled", "Content-Length: 1", body=b"x")
    head = b"PUT /ignore HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    with closing(server.connect(head + smuggled)) as client:
        assert answer_of(client)[0] == 200
        client.shutdown(socket.SHUT_WR)
        while client.recv(1 << 16):
            pass
    assert not server.exists("smuggled")


@pytest.mark.parametrize(
    "head",
    [
        b"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: x\r\nX : a\r\n\r\n",
    ],
    ids=["two spaces", "two hosts", "no host", "folded line", "space before colon"],
)
def test_a_malformed_head_is_refused(server: ContractServer, head: bytes) -> None:
    with closing(server.connect(head)) as client:
        assert status_of_refusal(client) == 400


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 3", "Transfer-Encoding: chunked"],
        ["Content-Length: 3", "Content-Length: 4"],
        ["Content-Length: +3"],
        ["Transfer-Encoding: gzip, chunked"],
    ],
    ids=["length and chunks", "two lengths", "signed length", "coding"],
)
def test_ambiguous_framing_is_refused(server: ContractServer, headers: list[str]) -> None:
    with closing(server.connect(put("ambiguous", *headers, body=b"abc\r\n0\r\n\r\n"))) as client:
        assert status_of_refusal(client) in {400, 501}
    assert not server.exists("ambiguous")


def test_a_server_that_stops_finishes_its_requests(own: ContractServer) -> None:
    with closing(own.connect(GET % b"wait/go")) as client:
        eventually(lambda: own.exists("go.waits"))
        own.stop()
        eventually(lambda: refuses_or_resets(own))
        (own.folder / "go").touch()
        assert answer_of(client)[2] == b"ok"


def refuses_or_resets(server: ContractServer) -> bool:
    """Return whether new connections are refused."""
    try:
        with closing(server.connect(GET % b"a")) as client:
            client.settimeout(0.2)
            return not client.recv(1)
    except OSError:
        return True
