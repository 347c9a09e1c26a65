"""The engine, and a server of which a worker is killed, on each database of which we have a server.

There are two workers, but on RocksDB, which only one process can open.
"""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from lakebed.kv import open_store
from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import (
    DatabaseServer,
    azurite_server,
    azurite_url,
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)
from lakebed.testing.servers.java_databases import (
    cassandra_server,
    cassandra_url,
    hbase_server,
    hbase_url,
)
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.more_databases import (
    bigtable_server,
    bigtable_url,
    cosmos_server,
    cosmos_url,
    gcs_server,
    gcs_url,
    mariadb_server,
    mariadb_url,
    mongodb_server,
    mongodb_url,
    spanner_server,
    spanner_url,
)
from tests.engine.test_engine_machine import EngineMachine
from tests.kit.growth import check_growth
from tests.kit.rounds import rounds
from tests.kit.served import eventually
from tests.system.api_kit import RawClient, create_repository, workers

pytestmark = [pytest.mark.extended, pytest.mark.slow]

Run = Callable[[], AbstractContextManager[DatabaseServer]]
SERVERS: dict[str, tuple[Run, Callable[[int], str]]] = {
    "dynamodb": (partial(dynamodb_server, durable=False), dynamodb_url),
    "etcd": (partial(etcd_server, durable=False), etcd_url),
    "valkey": (valkey_server, valkey_url),
    "azblob": (azurite_server, azurite_url),
    "mysql": (mariadb_server, mariadb_url),
    "bigtable": (bigtable_server, bigtable_url),
    "spanner": (spanner_server, spanner_url),
    "mongodb": (mongodb_server, mongodb_url),
    "cassandra": (cassandra_server, cassandra_url),
    "hbase": (hbase_server, hbase_url),
    "gcs": (partial(gcs_server, durable=False), gcs_url),
    "cosmos": (cosmos_server, cosmos_url),
}
FETCHED = {"mysql", "bigtable", "spanner", "mongodb", "cassandra", "hbase", "gcs", "cosmos"}
"""Those that `make test-all PARTS=fetched` fetches."""
CLEANED = 'lakebed_background_runs_total{outcome="success",task="cleaner"}'
CLIENTS = 3
UPLOADS = 8


@contextmanager
def database_url(name: str, folder: Path) -> Iterator[str]:
    if name == "rocksdb":
        yield f"rocksdb:///{folder}/kv"
        return
    run, url = SERVERS[name]
    with run() as database:
        yield url(database.port)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.fetched if name in FETCHED else ())
        for name in (*SERVERS, "rocksdb")
    ],
)
def url(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    aws_credentials: None,
    azure_key: None,
    cosmos_key: None,
) -> Iterator[str]:
    with database_url(request.param, tmp_path_factory.mktemp("database")) as found:
        yield found


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[LakebedServer]:
    with lakebed_server(tmp_path, settings={"database": {"url": url}}) as started:
        yield started


def test_the_engine_agrees_with_plain_dicts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        EngineMachine, "url", f"{url}{'&' if '?' in url else '?'}namespace={{unique}}"
    )
    histories = settings(
        max_examples=rounds(3, long=30),
        stateful_step_count=25,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(EngineMachine, settings=histories)


def test_the_database_keeps_no_keys_of_what_was_staged(url: str) -> None:
    with open_store(f"{url}{'&' if '?' in url else '?'}namespace={uuid4().hex}") as store:
        check_growth(store, rounds=10, uploads=100)


def test_acknowledged_writes_are_committed_after_a_worker_is_killed(
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


def test_on_rocksdb_the_worker_does_what_a_process_beside_it_does_elsewhere(tmp_path: Path) -> None:
    options = {"database": {"url": f"rocksdb:///{tmp_path}/kv"}}
    with lakebed_server(tmp_path, settings=options) as server:
        assert len(workers(server)) == 1
        assert "the database allows one process: the server runs one worker" in server.log()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)

        def has_cleaned() -> bool:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
            return any(line.startswith(CLEANED) for line in page.splitlines())

        eventually(has_cleaned)
        connection.close()


def is_uploaded(client: RawClient, path: str) -> bool:
    at = "/repositories/lake/branches/main/objects"
    try:
        answer = client.call("POST", at, body=path.encode(), path=path)
    except (OSError, http.client.HTTPException):
        return False  # its worker was killed
    assert answer.status in {201, 503}, answer
    return answer.status == 201


def commit(client: RawClient) -> None:
    """Commit, as soon as a worker is there again."""

    def is_committed() -> bool:
        try:
            made = client.post_json("/repositories/lake/branches/main/commits", {"message": "all"})
        except (OSError, http.client.HTTPException):
            return False
        assert made.status == 201, made
        return True

    eventually(is_committed)
