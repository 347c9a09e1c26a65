"""A server with two workers on each of the new databases: one is killed, and nothing is lost."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import (
    DatabaseServer,
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url
from tests.system.api_kit import RawClient, create_repository, workers

pytestmark = pytest.mark.slow

Run = Callable[[], AbstractContextManager[DatabaseServer]]
DATABASES: dict[str, tuple[Run, Callable[[int], str]]] = {
    "dynamodb": (partial(dynamodb_server, durable=False), dynamodb_url),
    "etcd": (partial(etcd_server, durable=False), etcd_url),
    "valkey": (valkey_server, valkey_url),
    "mysql": (mariadb_server, mariadb_url),
}
FETCHED = {"mysql"}
"""Those of `make test-kv-all`."""
CLIENTS = 3
UPLOADS = 8


@pytest.fixture(
    params=[
        pytest.param(name, marks=pytest.mark.kv_all if name in FETCHED else ())
        for name in DATABASES
    ]
)
def server(
    request: pytest.FixtureRequest, tmp_path: Path, aws_credentials: None
) -> Iterator[LakebedServer]:
    run, url = DATABASES[request.param]
    with run() as database:
        settings = {"database": {"url": url(database.port)}}
        with lakebed_server(tmp_path, settings=settings) as started:
            yield started


def test_what_was_acknowledged_is_committed_though_a_worker_is_killed(
    server: LakebedServer,
) -> None:
    acknowledged: list[str] = []
    half = threading.Semaphore(0)

    def upload(number: int) -> None:
        with RawClient(server) as client:
            for each in range(UPLOADS):
                path = f"client-{number}/{each}"
                while not is_uploaded(client, path):
                    pass
                acknowledged.append(path)
                half.release()

    def kill() -> None:
        for _ in range(CLIENTS * UPLOADS // 2):
            assert half.acquire(timeout=120)
        workers(server)[0].kill()

    with RawClient(server) as client:
        create_repository(client, "lake")
        in_threads([*(partial(upload, number) for number in range(CLIENTS)), kill])
        commit(client)
        listed = client.call("GET", "/repositories/lake/refs/main/objects/ls", amount=1000).json
        assert {each["path"] for each in listed["results"]} == set(acknowledged)
        assert len(acknowledged) == CLIENTS * UPLOADS
        changes = client.call("GET", "/repositories/lake/branches/main/diff").json
        assert changes["results"] == []


def is_uploaded(client: RawClient, path: str) -> bool:
    at = "/repositories/lake/branches/main/objects"
    try:
        answer = client.call("POST", at, body=path.encode(), path=path)
    except (OSError, http.client.HTTPException):
        return False  # its worker was killed
    assert answer.status in {201, 503}, answer
    return answer.status == 201


def commit(client: RawClient) -> None:
    for _ in range(20):
        try:
            made = client.post_json("/repositories/lake/branches/main/commits", {"message": "all"})
        except (OSError, http.client.HTTPException):
            continue
        assert made.status == 201, made
        return
    raise AssertionError("the server never answered")
