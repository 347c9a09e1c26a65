"""Bodies of uploads through the API: cut, slow and large ones."""

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Final, Self

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.rounds import rounds
from tests.kit.served import eventually
from tests.system.api_kit import (
    BASE_PATH,
    RawClient,
    authorization,
    begin,
    create_repository,
    drafts,
    workers,
)

CONTENT: Final = bytes(range(256)) * 4096  # some reads of the server long
FORM: Final = (
    b'--b\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n\r\n'
    + CONTENT
    + b"\r\n--b--\r\n"
)
FORM_TYPE: Final = "Content-Type: multipart/form-data; boundary=b"
LARGE_BYTES: Final = rounds(300, long=1024) << 20
GROWTH_BYTES_MAX: Final = 100 << 20


def chunked(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)


CHUNKED: Final = "Transfer-Encoding: chunked"
FRAMINGS: Final = {
    "raw with length": ([f"Content-Length: {len(CONTENT)}"], CONTENT),
    "raw in chunks": ([CHUNKED], chunked(CONTENT)),
    "form with length": ([FORM_TYPE, f"Content-Length: {len(FORM)}"], FORM),
    "form in chunks": ([FORM_TYPE, CHUNKED], chunked(FORM)),
}


@pytest.fixture
def client(sqlite_lakebed: LakebedServer) -> Iterator[RawClient]:
    with RawClient(sqlite_lakebed) as made:
        yield made


@pytest.fixture
def lake(client: RawClient, repository_name: str) -> str:
    """Where the objects of a repository of its own are put."""
    create_repository(client, repository_name)
    return f"/repositories/{repository_name}/branches/main/objects"


def status_of(connection: socket.socket) -> int:
    """The status of the answer; 0 if the connection ends without one."""
    with connection, connection.makefile("rb") as file, suppress(ConnectionError):
        line = file.readline()
        return int(line.split()[1]) if line else 0
    return 0


def is_there(client: RawClient, lake: str, path: str) -> bool:
    at = lake.replace("/branches/", "/refs/")
    answer = client.call("GET", f"{at}/stat", path=path)
    assert answer.status in {200, 404}
    return answer.status == 200


@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_whole_body_is_taken_in(
    sqlite_lakebed: LakebedServer, client: RawClient, lake: str, framing: str
) -> None:
    headers, body = FRAMINGS[framing]
    connection = begin(sqlite_lakebed, lake, "whole", headers)
    connection.sendall(body)
    assert status_of(connection) == 201
    assert is_there(client, lake, "whole")
    eventually(lambda: drafts(sqlite_lakebed) == [])


@pytest.mark.parametrize("how", ["half-closed", "closed", "reset"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_body_cut_in_half_leaves_nothing(
    sqlite_lakebed: LakebedServer, client: RawClient, lake: str, framing: str, how: str
) -> None:
    headers, body = FRAMINGS[framing]
    connection = begin(sqlite_lakebed, lake, "cut", headers)
    connection.sendall(body[: len(body) // 2])
    # It is really being written when the client leaves.
    eventually(lambda: drafts(sqlite_lakebed))
    if how == "half-closed":
        connection.shutdown(socket.SHUT_WR)
        assert status_of(connection) == 400
    else:
        if how == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        connection.close()
    eventually(lambda: drafts(sqlite_lakebed) == [])
    assert not is_there(client, lake, "cut")


def test_slow_uploads_end_well_and_keep_nobody_waiting(
    sqlite_lakebed: LakebedServer, client: RawClient, lake: str
) -> None:
    headers, body = FRAMINGS["raw with length"]
    half = len(body) // 2
    with ExitStack() as stack:
        slow = [
            stack.enter_context(begin(sqlite_lakebed, lake, f"slow{number}", headers))
            for number in range(40)
        ]
        for connection in slow:
            connection.sendall(body[:half])
        eventually(lambda: len(drafts(sqlite_lakebed)) == len(slow))
        for number in range(20):
            assert client.call("POST", lake, body=CONTENT, path=f"fast{number}").status == 201
        assert len(drafts(sqlite_lakebed)) == len(slow)
        for connection in slow:
            connection.sendall(body[half:])
            assert status_of(connection) == 201
    assert drafts(sqlite_lakebed) == []


def read_answer(file: io.BufferedReader) -> tuple[int, dict[str, str]]:
    """Read one answer to its end; return its status and headers."""
    status = int(file.readline().split()[1])
    headers = {}
    while (line := file.readline()) != b"\r\n":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    file.read(int(headers.get("content-length", 0)))
    return status, headers


@pytest.mark.parametrize("header", ["Content-Length: 5", f"Content-Length: {1 << 30}", CHUNKED])
def test_a_refused_upload_is_answered_unread_ends_the_connection_and_says_so(
    sqlite_lakebed: LakebedServer, client: RawClient, lake: str, header: str
) -> None:
    connection = begin(sqlite_lakebed, lake.replace("/main/", "/nowhere/"), "x", [header])
    with connection, connection.makefile("rb") as file:
        status, answered = read_answer(file)
        assert (status, answered["connection"]) == (404, "close")
        assert file.read() == b""


class Memory:
    """The largest that the processes of a server get while something happens."""

    def __init__(self, server: LakebedServer) -> None:
        self._processes = workers(server)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.largest = 0

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.largest = max(self.largest, self.now())

    def now(self) -> int:
        return max(process.memory_info().rss for process in self._processes)

    def __enter__(self) -> Self:
        self.largest = self.now()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()


def large_chunks() -> Iterator[bytes]:
    for _ in range(LARGE_BYTES // len(CONTENT)):
        yield CONTENT


@pytest.mark.timeout(600)
def test_a_large_object_takes_no_memory(
    sqlite_lakebed: LakebedServer, client: RawClient, lake: str
) -> None:
    for number in range(8):  # whatever is loaded with the first requests
        assert client.call("POST", lake, body=CONTENT, path=f"first{number}").status == 201
    with Memory(sqlite_lakebed) as memory:
        before = memory.now()
        upload = begin(sqlite_lakebed, lake, "large", [f"Content-Length: {LARGE_BYTES}"])
        for chunk in large_chunks():
            upload.sendall(chunk)
        assert status_of(upload) == 201
        at = lake.replace("/branches/", "/refs/")
        assert download(sqlite_lakebed, f"{at}?path=large") == LARGE_BYTES
    assert memory.largest < before + GROWTH_BYTES_MAX, (before >> 20, memory.largest >> 20)
    client.call("DELETE", lake, path="large")


def download(server: LakebedServer, target: str) -> int:
    """Read an object chunk by chunk; return how long it is."""
    head = f"GET {BASE_PATH}{target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"{head}Authorization: {authorization(server)}\r\n\r\n".encode())
        with connection.makefile("rb") as file:
            while file.readline() != b"\r\n":
                pass
            length = 0
            for expected in large_chunks():
                assert file.read(len(expected)) == expected
                length += len(expected)
            assert file.read() == b""
            return length
