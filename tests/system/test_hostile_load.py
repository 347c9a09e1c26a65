"""Clients that want to stop a server: others are answered as if they were not there.

There is one worker, so that all of them meet the same threads and slots.
"""

import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Final

import httpx
import pytest

from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.kit.served import PATIENCE_SECONDS, eventually
from tests.system.api_kit import BASE_PATH, RawClient, authorization, create_repository, workers

pytestmark = pytest.mark.extended

STALL_SECONDS: Final = 5
"""On a machine that is busy with other tests; what is held up is held up for longer."""
JSON: Final = "Host: x\r\nContent-Type: application/json"
UPLOADS: Final = "/repositories/lake/branches/main/objects"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    settings = {
        "processes": {"workers": 1, "shutdown_seconds": 1},
        "limits": {"stall_seconds": STALL_SECONDS},
    }
    with lakebed_server(tmp_path_factory.mktemp("lakebed"), settings=settings) as started:
        with RawClient(started) as client:
            create_repository(client, "lake")
        yield started


@pytest.fixture
def attack() -> Iterator[ExitStack]:
    """Connections that are open until the test is over."""
    with ExitStack() as stack:
        yield stack


def begin(
    server: LakebedServer,
    method: str,
    target: str,
    *headers: str,
    length: int = 1000,
    source: str = "127.0.0.1",
) -> socket.socket:
    """Open a connection, and send a head that announces a body."""
    connection = socket.create_connection(
        ("127.0.0.1", server.port), timeout=30, source_address=(source, 0)
    )
    framing = f"{JSON}\r\nContent-Length: {length}\r\n\r\n"
    lines = [f"{method} {target} HTTP/1.1", *headers, framing]
    connection.sendall("\r\n".join(lines).encode())
    return connection


def status_of(connection: socket.socket) -> int:
    """Read an answer; return its status."""
    head = connection.recv(4096)
    return int(head.split()[1]) if head else 0


def assert_serves(server: LakebedServer, source: str = "127.0.0.1") -> None:
    """Make sure that requests of all kinds but uploads are answered at once."""
    signed_in = {"Authorization": authorization(server)}
    transport = httpx.HTTPTransport(local_address=source)
    with httpx.Client(
        transport=transport, base_url=server.endpoint, timeout=PATIENCE_SECONDS
    ) as client:
        assert client.get("/_health").status_code == 200
        assert client.get(f"{BASE_PATH}/healthcheck").status_code == 204
        assert client.get("/readiness").status_code == 200
        found = client.get(f"{BASE_PATH}/repositories", headers=signed_in)
        assert [each["id"] for each in found.json()["results"]] == ["lake"]


def refusals(server: LakebedServer, kind: str) -> int:
    """How many requests were refused, by the metric."""
    text = httpx.get(f"{server.endpoint}/metrics", timeout=60).text
    found = re.search(rf'^lakebed_http_refusals_total{{kind="{kind}"}} (.*)$', text, re.MULTILINE)
    return 0 if found is None else int(float(found[1]))


def test_bodies_of_refused_requests_that_never_come_hold_up_nobody(
    server: LakebedServer, attack: ExitStack
) -> None:
    unsigned = ("POST", f"{BASE_PATH}/repositories")
    wrong = ("PUT", "/lake/main/x", "Authorization: AWS4-HMAC-SHA256 nonsense")
    nowhere = ("POST", "/nowhere/at/all")
    expired = ("PUT", "/presigned/bm8=.bm8=")
    before = refusals(server, "unauthenticated")
    connections = [
        attack.enter_context(begin(server, *each))
        for _ in range(90)
        for each in (unsigned, wrong, nowhere)
    ]
    connections += [attack.enter_context(begin(server, *expired)) for _ in range(30)]
    assert_serves(server)
    assert Counter(map(status_of, connections)) == {401: 120, 400: 90, 403: 90}
    # The server does not wait for the client to close the connection either.
    assert [connection.recv(1) for connection in connections] == [b""] * 300
    assert refusals(server, "unauthenticated") == before + 120
    lines = re.findall(r"refused a request from 127.0.0.1: .* unauthenticated .*", server.log())
    assert 1 <= len(lines) <= 30  # three a minute, and not one for each


def test_slow_logins_hold_up_nobody_else(server: LakebedServer, attack: ExitStack) -> None:
    for _ in range(220):
        attack.enter_context(begin(server, "POST", f"{BASE_PATH}/auth/login")).sendall(b"{")
    assert_serves(server)
    pair = {
        "access_key_id": server.access_key_id,
        "secret_access_key": server.secret_access_key,
    }
    # The address that holds them all cannot log in, but others can.
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(transport=elsewhere, timeout=PATIENCE_SECONDS) as client:
        login = f"{server.endpoint}{BASE_PATH}/auth/login"
        assert client.post(login, json=pair).status_code == 200


def send_json(server: LakebedServer, authorization: str) -> int:
    """Send a JSON body that a handler refuses; return the status."""
    answer = httpx.post(
        f"{server.endpoint}{BASE_PATH}/repositories",
        json={"name": "lake", "storage_namespace": "local://elsewhere"},
        headers={"Authorization": authorization},
        timeout=PATIENCE_SECONDS,
    )
    return answer.status_code


def test_slow_logins_from_many_addresses_do_not_hold_up_who_is_signed_in(
    server: LakebedServer, attack: ExitStack
) -> None:
    for number in range(220):
        source = f"127.0.1.{1 + number % 100}"
        attack.enter_context(begin(server, "POST", f"{BASE_PATH}/auth/login", source=source))
    assert send_json(server, authorization(server)) == 409


def test_bodies_of_one_user_that_never_come_do_not_take_the_memory_of_others(
    server: LakebedServer, attack: ExitStack
) -> None:
    with RawClient(server) as admin:
        eve = add_user(admin, "eve")
    target = f"{BASE_PATH}/repositories"
    for _ in range(8):
        headers = f"Authorization: {eve}"
        attack.enter_context(begin(server, "POST", target, headers, length=8 << 20))
    assert send_json(server, authorization(server)) == 409


@pytest.mark.parametrize("path", ["/auth/login", "/setup_lakefs", "/setup_comm_prefs"])
def test_open_routes_take_tiny_bodies_only(
    server: LakebedServer, attack: ExitStack, path: str
) -> None:
    (worker,) = workers(server)
    before = worker.memory_info().rss
    body = json.dumps({str(number): number for number in range(400_000)}).encode()  # 7 MB
    for _ in range(24):
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        attack.enter_context(connection)
        head = f"POST {BASE_PATH}{path} HTTP/1.1\r\n{JSON}\r\nContent-Length: {len(body)}\r\n\r\n"
        with suppress(OSError):  # refused before all was sent
            connection.sendall(head.encode() + body)
        assert status_of(connection) == 413
    assert worker.memory_info().rss < before + (32 << 20)


def add_user(client: RawClient, name: str) -> str:
    """Add an administrator; return the header by which they sign in."""
    assert client.post_json("/auth/users", {"id": name}).status == 201
    joined = client.call("PUT", f"/auth/groups/Admins/members/{name}", body=b"")
    assert joined.status == 201, joined
    made = client.call("POST", f"/auth/users/{name}/credentials", body=b"").json
    pair = f"{made['access_key_id']}:{made['secret_access_key']}"
    return httpx.BasicAuth(*pair.split(":"))._auth_header


def test_stalled_uploads_of_one_user_hold_up_nobody_else_and_are_cut_off(
    server: LakebedServer, attack: ExitStack
) -> None:
    with RawClient(server) as admin:
        bob = add_user(admin, "bob")
    signed_in = f"Authorization: {authorization(server)}"
    target = f"{BASE_PATH}{UPLOADS}?path=stalled"
    before = refusals(server, "stalled_upload")
    stalled = [attack.enter_context(begin(server, "POST", target, signed_in)) for _ in range(130)]
    refused = [
        attack.enter_context(begin(server, "POST", f"{BASE_PATH}/repositories")) for _ in range(20)
    ]
    assert_serves(server)
    upload = httpx.post(
        f"{server.endpoint}{BASE_PATH}{UPLOADS}?path=of-bob",
        content=b"of bob",
        headers={"Authorization": bob},
        timeout=PATIENCE_SECONDS,
    )
    assert upload.status_code == 201, upload.text
    # More than the user's share are refused at once; the others are cut off, and told so.
    # (On a busy machine some are cut off before all have come, and leave their slots to others.)
    statuses = Counter(map(status_of, stalled))
    assert statuses.keys() == {503, 400}
    assert statuses[400] >= 36
    assert [status_of(each) for each in refused] == [401] * 20
    assert refusals(server, "stalled_upload") >= before + statuses[400]
    eventually(lambda: "client cut: upload stalled" in server.log())
    again = {"Authorization": authorization(server)}
    eventually(
        lambda: (
            httpx.post(
                f"{server.endpoint}{target}", content=b"x", headers=again, timeout=60
            ).status_code
            == 201
        ),
    )
