"""Real databases that are cut off, held up, killed and started again: what callers hear is true."""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from uuid import uuid4

import pytest

from lakebed.base.runtime import Runtime
from lakebed.kv import KeyNotFound, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable, fenced
from lakebed.kv.drivers.azure_blob import AzureBlobCells
from lakebed.kv.drivers.dynamodb import DynamoDBCells
from lakebed.kv.drivers.etcd import EtcdStore
from lakebed.kv.drivers.valkey import ValkeyStore
from lakebed.kv.drivers.valkey.link import ValkeyTimeouts
from lakebed.kv.fenced import FencedStore, _Outcome
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
from lakebed.testing.servers.proxy import Fault
from tests.kit.database_bench import WRITES, Bench, Database, Write
from tests.kit.more_databases import MORE_DATABASES

pytestmark = [pytest.mark.extended, pytest.mark.slow]

SIDE_BY_SIDE = 3


def open_dynamodb(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    return FencedStore(DynamoDBCells(url, runtime, reply_seconds=reply_seconds), runtime)


def open_azure(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    return FencedStore(AzureBlobCells(url, runtime, reply_seconds=reply_seconds), runtime)


def take_out_the_fence(store: Store) -> None:
    store._fence = lambda *_: _Outcome.UNKNOWN  # type: ignore[attr-defined] # of those that have one


def open_etcd(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    return EtcdStore(url, runtime, reply_seconds=reply_seconds)


def open_valkey(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    patience = ValkeyTimeouts(start_seconds=reply_seconds / 2, reply_seconds=reply_seconds)
    return ValkeyStore(url, runtime, timeouts=patience)


def move_the_deadline_away(store: Store) -> None:
    assert isinstance(store, ValkeyStore)
    store._nodes.pool_of(b"any")._timeouts = ValkeyTimeouts(start_seconds=600.0)


DATABASES = [
    Database(
        "dynamodb",
        partial(dynamodb_server, durable=True),
        dynamodb_url,
        open_dynamodb,
        take_out_the_fence,
    ),
    Database("valkey", valkey_server, valkey_url, open_valkey, move_the_deadline_away),
    Database("etcd", partial(etcd_server, durable=True), etcd_url, open_etcd, take_out_the_fence),
    Database(
        "azblob",
        azurite_server,
        azurite_url,
        open_azure,
        take_out_the_fence,
        # Azurite writes its data to the disk when it is stopped, and every few seconds.
        crash=DatabaseServer.stop,
    ),
]


ALL = [*(pytest.param(each, id=each.name) for each in DATABASES), *MORE_DATABASES]
DURABLE = [each for each in ALL if cast("Database", each.values[0]).durable]


@pytest.fixture(scope="module", params=ALL)
def database(request: pytest.FixtureRequest) -> Database:
    chosen: Database = request.param
    return chosen


@pytest.fixture(scope="module", autouse=True)
def _patience() -> Iterator[None]:
    """Servers in Java may take longer to start again than a process waits before it ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fenced, "FENCE_SECONDS", 300.0)
        yield


@pytest.fixture(scope="module")
def server(
    database: Database, aws_credentials: None, azure_key: None, cosmos_key: None
) -> Iterator[DatabaseServer]:
    with database.run() as server:
        database.open_patient(server).close()  # what is made at first takes its time
        yield server


def for_every_write(
    database: Database, server: DatabaseServer, check: Callable[[Bench, bytes, Write], None]
) -> None:
    """Run a check for all writes, a few side by side, each with a store and network of its own."""

    def run(name: str, write: Write) -> None:
        with Bench(database, server) as bench:
            try:
                check(bench, f"{name}-{uuid4().hex}".encode(), write)
            except BaseException as error:
                error.add_note(f"with {name}")
                raise

    calls: list[Callable[[], None]] = [partial(run, name, write) for name, write in WRITES.items()]
    for begin in range(0, len(calls), SIDE_BY_SIDE):
        in_threads(calls[begin : begin + SIDE_BY_SIDE])


def test_a_request_held_up_is_not_applied_later(database: Database, server: DatabaseServer) -> None:
    def check(bench: Bench, partition: bytes, write: Write) -> None:
        version = bench.fill(partition)
        bench.proxy.break_open(Fault.HOLD_REQUESTS)
        with suppress(OutcomeUnknown):  # what reads first finds another connection, and goes on
            write(bench.store, partition, version)
        assert bench.proxy.holds
        after = bench.rows(partition)
        bench.leave_and_release()
        assert bench.rows(partition) == after

    for_every_write(database, server, check)


def test_a_lost_reply_is_not_taken_for_a_failure(
    database: Database, server: DatabaseServer
) -> None:
    def check(bench: Bench, partition: bytes, write: Write) -> None:
        version = bench.fill(partition)
        before = bench.rows(partition)
        bench.proxy.break_open(Fault.CUT_ON_REPLY)
        try:
            write(bench.store, partition, version)
        except StoreUnavailable:
            assert bench.rows(partition) == before
        except OutcomeUnknown:
            pass
        else:
            assert bench.rows(partition) != before

    for_every_write(database, server, check)


def test_a_retry_finds_its_own_write(database: Database, server: DatabaseServer) -> None:
    with Bench(database, server) as bench:
        for fault in (Fault.CUT_ON_REPLY, Fault.SWALLOW_REPLIES, Fault.CUT_ON_REQUEST):
            partition = uuid4().hex.encode()
            version = bench.fill(partition)
            bench.proxy.break_open(fault)
            new = bench.retrying().set(partition, b"there", b"new", version)
            assert bench.rows(partition)[1] == (b"there", b"new", new)


def test_without_a_connection_nothing_changes(database: Database, server: DatabaseServer) -> None:
    with Bench(database, server) as bench:
        partition = uuid4().hex.encode()
        version = bench.fill(partition)
        before = bench.rows(partition)
        bench.proxy.break_new(Fault.CUT)
        bench.proxy.break_open(Fault.CUT)
        with pytest.raises(StoreUnavailable):
            bench.store.get(partition, b"there")
        with pytest.raises(StoreUnavailable):
            next(bench.store.scan(partition))
        bench.proxy.break_new(Fault.NONE)
        assert bench.rows(partition) == before
        bench.store.set(partition, b"there", b"new", version)
        with pytest.raises(KeyNotFound):
            bench.store.get(partition, b"missing")


@dataclass
class Counters:
    """Writers that each count up a key, and what they were told."""

    database: Database
    server: DatabaseServer
    partition: bytes
    enough: threading.Event = field(default_factory=threading.Event)
    acknowledged: dict[bytes, int] = field(default_factory=dict)
    counted: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def count_up(self, name: bytes) -> None:
        with self.database.open_hasty(self.server.port) as store:
            while not self.enough.is_set():
                try:
                    item = store.get(self.partition, name)
                    number = int(item.value) + 1
                    store.set(self.partition, name, b"%d" % number, item.predicate)
                except (OutcomeUnknown, PredicateFailed):
                    continue
                self.acknowledged[name] = number
                self.counted.release()

    def wait_for_counts(self) -> None:
        for _ in range(20):
            assert self.counted.acquire(timeout=120)

    def kill_twice(self) -> None:
        try:
            for _ in range(2):
                self.wait_for_counts()
                self.database.crash(self.server)
                self.server.start()
            self.wait_for_counts()
        finally:
            self.enough.set()


@pytest.mark.parametrize("database", DURABLE, indirect=True)
def test_writes_acknowledged_by_a_killed_server_exist(
    database: Database, server: DatabaseServer
) -> None:
    counters = Counters(database, server, uuid4().hex.encode())
    names = [b"ann", b"bob", b"cay"]
    with database.open_patient(server) as store:
        for name in names:
            store.set(counters.partition, name, b"0")
        in_threads([*(partial(counters.count_up, name) for name in names), counters.kill_twice])
        for name in names:
            found = int(store.get(counters.partition, name).value)
            # One more may have been applied whose reply was lost.
            assert found in {counters.acknowledged[name], counters.acknowledged[name] + 1}


def test_a_stopped_server_is_said_to_be_unreachable(
    database: Database, server: DatabaseServer
) -> None:
    partition = uuid4().hex.encode()
    with database.open_patient(server) as store:
        version = store.set(partition, b"key", b"value")
        server.stop()
        try:
            with pytest.raises(StoreUnavailable):
                store.get(partition, b"key")
            with pytest.raises(StoreUnavailable):
                database.open_patient(server)
        finally:
            server.start()
        if database.durable:
            assert store.get(partition, b"key").predicate == version


def test_without_its_fence_the_database_applies_a_held_request_later(
    database: Database, server: DatabaseServer
) -> None:
    """The first test can fail: the network does bring the request, and the server takes it.

    A client of gRPC sends the cancellation of a call behind the call. Both are held and arrive
    together, so a server may see the cancellation first: one of several requests is applied.
    """
    for _ in range(20):
        with Bench(database, server) as bench:
            database.take_out_the_fence(bench.store)
            partition = uuid4().hex.encode()
            version = bench.fill(partition)
            before = bench.rows(partition)
            bench.proxy.break_open(Fault.HOLD_REQUESTS)
            with pytest.raises(OutcomeUnknown):
                bench.store.set(partition, b"there", b"late", version)
            assert bench.rows(partition) == before
            bench.leave_and_release()
            if [value for _, value, _ in bench.rows(partition)] == [b"old", b"late"]:
                return
    pytest.fail("no held request was applied")
