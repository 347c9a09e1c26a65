"""What a caller is told stays true when the network fails, and nothing is applied afterwards."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import ABSENT, EXISTS, KeyNotFound, OutcomeUnknown, Store, StoreUnavailable, Version
from lakebed.kv.drivers.postgresql import PostgreSQLStore
from lakebed.kv.drivers.postgresql.batches import PostgresWrite as BatchedWrite
from lakebed.kv.drivers.postgresql.driver import CREATE, SWAP
from lakebed.kv.drivers.postgresql.link import POLL_AFTER_SECONDS, PostgresTimeouts
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import Put, new_version, puts
from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.proxy import Fault, Proxy
from tests.kit.postgresql import conninfo

PATIENCE = PostgresTimeouts(
    connect_seconds=2, start_seconds=1.5, run_seconds=0.5, reply_seconds=2.5
)
# With deadlines too far to matter: only ending the backend keeps a write from coming late.
NO_DEADLINE = PostgresTimeouts(
    connect_seconds=2, start_seconds=600, run_seconds=600, reply_seconds=1.0
)

# Each writes to a partition that holds the keys "other" and "there", the latter of a given version.
Write = Callable[[Store, bytes, Version], object]


def create_two(store: Store, partition: bytes, _version: Version) -> None:
    """Do what one thread does for two that create a key each at the same time."""
    assert isinstance(store, PostgreSQLStore)
    versions = [new_version(ThreadRuntime()) for _ in range(2)]
    batch = [
        BatchedWrite(partition, key, b"new", version)
        for key, version in zip((b"x", b"new"), versions, strict=True)
    ]
    assert [each.applied for each in store._commit(batch, CREATE)] == [True, True]


def swap_two(store: Store, partition: bytes, version: Version) -> None:
    """Do what one thread does for two that replace a key each at the same time."""
    assert isinstance(store, PostgreSQLStore)
    batch = [
        BatchedWrite(partition, key, b"new", new_version(ThreadRuntime()), predicate=predicate)
        for key, predicate in ((b"there", version), (b"absent", new_version(ThreadRuntime())))
    ]
    assert [each.applied for each in store._commit(batch, SWAP)] == [True, False]


WRITES: dict[str, Write] = {
    "set": lambda store, part, _: store.set(part, b"there", b"new"),
    "set_if": lambda store, part, version: store.set(part, b"there", b"new", version),
    "set_if_absent": lambda store, part, _: store.set(part, b"new", b"new", ABSENT),
    "set_if_exists": lambda store, part, _: store.set(part, b"there", b"new", EXISTS),
    "create_then_get": lambda store, part, _: store.write(
        [Put(part, b"new", b"new", ABSENT)], [(part, b"other")]
    ),
    "swap_then_get": lambda store, part, version: store.write(
        [Put(part, b"there", b"new", version)], [(part, b"other")]
    ),
    "delete": lambda store, part, _: store.delete(part, b"there"),
    "delete_if": lambda store, part, version: store.delete(part, b"there", version),
    "set_many": lambda store, part, _: store.write(puts(part, [(b"there", b"n"), (b"x", b"n")])),
    "set_all": lambda store, part, _: store.write(
        [Put(part, b"there", b"n"), Put(part, b"x", b"n")]
    ),
    "create_two": create_two,
    "swap_two": swap_two,
}


@dataclass
class Bench:
    """A store behind a proxy, and a way to look at its table that does not go through either."""

    server: PostgreSQLServer
    direct_url: str
    patience: PostgresTimeouts = PATIENCE
    proxy: Proxy = field(init=False)
    store: PostgreSQLStore = field(init=False)

    def __enter__(self) -> Self:
        # The table is made with patience; only what comes then is in a hurry.
        PostgreSQLStore(self.direct_url, ThreadRuntime()).close()
        self.proxy = Proxy(self.server.socket)
        self.store = PostgreSQLStore(self.url, ThreadRuntime(), timeouts=self.patience)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.store.close()
        self.proxy.close()

    @property
    def url(self) -> str:
        database = conninfo_to_dict(conninfo(self.direct_url))["dbname"]
        options = "sslmode=disable&gssencmode=disable&durable=true"
        return f"postgresql://postgres@127.0.0.1:{self.proxy.port}/{database}?{options}"

    def cut_off(self, fault_of_new: Fault) -> None:
        """Cut the open connections, and wait until the store looks before it uses them."""
        self.proxy.break_new(fault_of_new)
        self.proxy.break_open(Fault.CUT)
        sleep(2 * POLL_AFTER_SECONDS)

    def retrying(self) -> Store:
        return ManagedStore(self.store, ThreadRuntime())

    def fill(self, partition: bytes) -> Version:
        self.store.set(partition, b"other", b"old")
        return self.store.set(partition, b"there", b"old")

    def rows(self, partition: bytes) -> list[tuple[bytes, bytes, bytes]]:
        with psycopg.connect(conninfo(self.direct_url)) as connection:
            return connection.execute(
                "SELECT key, value, version FROM lakebed_kv WHERE partition = %s ORDER BY key",
                [partition],
            ).fetchall()

    def values(self, partition: bytes) -> dict[bytes, bytes]:
        return {key: value for key, value, _ in self.rows(partition)}


@pytest.fixture
def bench(postgresql: PostgreSQLServer, postgresql_url: str) -> Iterator[Bench]:
    with Bench(postgresql, postgresql_url) as bench:
        yield bench


def for_every_write(
    server: PostgreSQLServer,
    url: str,
    check: Callable[[Bench, bytes, Write], None],
    *,
    patience: PostgresTimeouts = PATIENCE,
) -> None:
    """Run a check side by side for all writes, each with a store and a network of its own."""

    def run(name: str, write: Write) -> None:
        with Bench(server, url, patience) as bench:
            # All statements of the write are prepared on the one connection: from now on every
            # statement is one request.
            warm = b"warm-" + name.encode()
            write(bench.store, warm, bench.fill(warm))
            try:
                check(bench, name.encode(), write)
            except BaseException as error:
                error.add_note(f"with {name}")
                raise

    in_threads([partial(run, name, write) for name, write in WRITES.items()])


def test_a_lost_reply_is_not_taken_for_a_failure(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    def check(bench: Bench, partition: bytes, write: Write) -> None:
        version = bench.fill(partition)
        before = bench.rows(partition)
        # Cut when the server has answered, so the write was applied.
        bench.proxy.break_open(Fault.CUT_ON_REPLY)
        with pytest.raises(OutcomeUnknown) as caught:
            write(bench.store, partition, version)
        assert not isinstance(caught.value, StoreUnavailable)
        assert bench.rows(partition) != before

    for_every_write(postgresql, postgresql_url, check)


def test_a_request_held_up_is_not_applied_later(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    def check(bench: Bench, partition: bytes, write: Write) -> None:
        version = bench.fill(partition)
        before = bench.rows(partition)
        bench.proxy.break_open(Fault.HOLD_REQUESTS)
        with pytest.raises(OutcomeUnknown):
            write(bench.store, partition, version)
        assert bench.proxy.holds
        bench.store.close()
        bench.proxy.release_and_finish()
        assert bench.rows(partition) == before

    for_every_write(postgresql, postgresql_url, check, patience=NO_DEADLINE)


def test_a_request_held_up_is_not_applied_later_by_a_server_out_of_reach(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    def check(bench: Bench, partition: bytes, write: Write) -> None:
        version = bench.fill(partition)
        before = bench.rows(partition)
        bench.proxy.break_open(Fault.HOLD_REQUESTS)
        bench.proxy.break_new(Fault.CUT)
        begun = monotonic()
        with pytest.raises(OutcomeUnknown):
            write(bench.store, partition, version)
        assert monotonic() - begun >= PATIENCE.settled_seconds
        assert bench.proxy.holds
        bench.store.close()
        bench.proxy.release_and_finish()
        assert bench.rows(partition) == before

    for_every_write(postgresql, postgresql_url, check)


def test_a_late_write_is_refused_and_not_taken_for_a_failed_predicate(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    late = PostgresTimeouts(start_seconds=-1.0)
    with Bench(postgresql, postgresql_url) as bench:
        for name, write in WRITES.items():
            version = bench.fill(name.encode())
            before = bench.rows(name.encode())
            with (
                PostgreSQLStore(postgresql_url, ThreadRuntime(), timeouts=late) as store,
                pytest.raises(StoreUnavailable, match="refused"),
            ):
                write(store, name.encode(), version)
            assert bench.rows(name.encode()) == before


@pytest.mark.parametrize("unreachable", [False, True])
def test_a_write_under_way_is_not_applied_later(bench: Bench, *, unreachable: bool) -> None:
    version = bench.fill(b"p")
    with psycopg.connect(conninfo(bench.direct_url)) as rival:
        # The rival's lock keeps the write waiting inside the server.
        rival.execute("SELECT * FROM lakebed_kv WHERE partition = 'p' FOR UPDATE")

        def write() -> None:
            with pytest.raises(OutcomeUnknown) as caught:
                bench.store.set(b"p", b"there", b"new", version)
            assert not isinstance(caught.value, StoreUnavailable)

        def cut() -> None:
            wait_for_a_lock(bench.direct_url)
            bench.proxy.break_new(Fault.CUT if unreachable else Fault.NONE)
            bench.proxy.break_open(Fault.CUT)

        in_threads([write, cut])
        rival.rollback()
    assert wait_for_no_lock(bench.direct_url)
    assert bench.values(b"p")[b"there"] == b"old"


class InterruptedByTestError(Exception):
    pass


@pytest.mark.extended
def test_an_interrupted_write_is_not_applied_later(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedByTestError

    before = signal.signal(signal.SIGUSR1, interrupt)
    patience = PostgresTimeouts(
        connect_seconds=2, start_seconds=60, run_seconds=60, reply_seconds=60
    )
    try:
        with (
            Bench(postgresql, postgresql_url, patience) as bench,
            psycopg.connect(conninfo(bench.direct_url)) as rival,
            ThreadPoolExecutor(1) as pool,
        ):
            version = bench.fill(b"p")
            rival.execute("SELECT * FROM lakebed_kv WHERE partition = 'p' FOR UPDATE")
            main = threading.main_thread().ident or 0

            def interrupt_the_writer() -> None:
                wait_for_a_lock(bench.direct_url)
                signal.pthread_kill(main, signal.SIGUSR1)

            other = pool.submit(interrupt_the_writer)
            with pytest.raises(InterruptedByTestError):
                bench.store.set(b"p", b"there", b"new", version)
            other.result()
            assert wait_for_no_lock(bench.direct_url)
            rival.rollback()
            assert bench.values(b"p")[b"there"] == b"old"
    finally:
        signal.signal(signal.SIGUSR1, before)


def wait_for_a_lock(url: str) -> None:
    _poll(url, "SELECT count(*) FROM pg_locks WHERE NOT granted", at_least=1)


def wait_for_no_lock(url: str) -> bool:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
    return row == (0,)


def _poll(url: str, query: str, *, at_least: int) -> None:
    give_up_at = monotonic() + 60
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        while monotonic() < give_up_at:
            row = connection.execute(query.encode()).fetchone()
            if row is not None and row[0] >= at_least:
                return
    raise TimeoutError(query)


def test_a_write_that_waits_too_long_for_a_lock_changed_nothing(bench: Bench) -> None:
    version = bench.fill(b"p")
    with psycopg.connect(conninfo(bench.direct_url)) as rival:
        rival.execute("SELECT * FROM lakebed_kv WHERE partition = 'p' FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="timeout"):
            bench.store.set(b"p", b"there", b"new", version)
    assert bench.values(b"p")[b"there"] == b"old"
    bench.store.set(b"p", b"there", b"new", version)


@pytest.mark.parametrize("fault", [Fault.CUT_ON_REPLY, Fault.SWALLOW_REPLIES])
def test_a_retry_finds_its_own_write(bench: Bench, fault: Fault) -> None:
    version = bench.fill(b"p")
    store = bench.retrying()
    bench.proxy.break_open(fault)
    new = store.set(b"p", b"there", b"new", version)
    assert bench.rows(b"p")[1] == (b"there", b"new", new)


@pytest.mark.parametrize("fault", [Fault.CUT_ON_REQUEST, Fault.HOLD_REQUESTS])
def test_a_retry_repeats_what_was_not_applied(bench: Bench, fault: Fault) -> None:
    version = bench.fill(b"p")
    store = bench.retrying()
    bench.proxy.break_open(fault)
    new = store.set(b"p", b"there", b"new", version)
    assert bench.rows(b"p")[1] == (b"there", b"new", new)
    newer = bench.store.set(b"p", b"there", b"newer", new)
    store.close()
    bench.proxy.release_and_finish()
    assert bench.rows(b"p")[1] == (b"there", b"newer", newer)


def test_reads_do_not_hang_in_a_black_hole(bench: Bench) -> None:
    bench.fill(b"p")
    bench.proxy.break_open(Fault.SWALLOW_REPLIES)
    with pytest.raises(StoreUnavailable):
        bench.store.get(b"p", b"there")
    assert bench.store.get(b"p", b"there").value == b"old"


def test_connecting_does_not_hang_in_a_black_hole(bench: Bench) -> None:
    bench.cut_off(Fault.SWALLOW_REPLIES)
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        bench.store.set(b"p", b"key", b"value")


def test_without_a_connection_nothing_changes(bench: Bench) -> None:
    bench.fill(b"p")
    before = bench.rows(b"p")
    bench.cut_off(Fault.CUT)
    with pytest.raises(StoreUnavailable):
        bench.store.set(b"p", b"there", b"new")
    with pytest.raises(StoreUnavailable):
        bench.store.get(b"p", b"there")
    with pytest.raises(StoreUnavailable):
        next(bench.store.scan(b"p"))
    bench.proxy.break_new(Fault.NONE)
    assert bench.rows(b"p") == before
    with pytest.raises(KeyNotFound):
        bench.store.get(b"p", b"missing")


def test_a_connection_pooler_is_refused(bench: Bench) -> None:
    def forge_process_number(reply: bytes) -> bytes:
        # A pooler tells its clients numbers of its own; the message has 4 bytes of it.
        begin = reply.find(b"K\x00\x00\x00\x0c")
        if begin < 0:
            return reply
        return reply[: begin + 5] + b"\x00\x00\x00\x01" + reply[begin + 9 :]

    bench.proxy.forge_replies(forge_process_number)
    with pytest.raises(StoreUnavailable, match="pooler"):
        PostgreSQLStore(bench.url, ThreadRuntime())


def test_every_call_is_one_round_trip_once_its_statement_is_prepared(bench: Bench) -> None:
    replies: list[bytes] = []

    def note(reply: bytes) -> bytes:
        replies.append(reply)
        return reply

    version = bench.fill(b"p")
    bench.proxy.forge_replies(note)
    store = PostgreSQLStore(bench.url, ThreadRuntime())
    keys = [(b"p", b"there"), (b"p", b"other"), (b"p", b"absent")]
    calls: dict[str, Callable[[], object]] = {
        "get": lambda: store.get(b"p", b"there"),
        "get_many of few": lambda: store.get_many(keys),
        "get_many of many": lambda: store.get_many(keys * 10),
        "scan_page": lambda: store.scan_page(b"p", b"", 10),
        "set": lambda: store.set(b"p", b"other", b"new"),
        "set_if": lambda: store.set(b"p", b"there", b"new", version, version=version),
        "set_many": lambda: store.write(puts(b"p", [(b"x", b"1"), (b"y", b"2")])),
        "set_all": lambda: store.write([Put(b"p", b"x", b"1"), Put(b"q", b"y", b"2")]),
        "delete": lambda: store.delete(b"p", b"x"),
    }
    with store:
        for call in calls.values():
            call()
        for name, call in calls.items():
            replies.clear()
            call()
            assert len(replies) == 1, name


def test_a_value_that_is_larger_than_what_fits_on_the_way_arrives_whole(
    postgresql: PostgreSQLServer, postgresql_url: str
) -> None:
    """It is sent in pieces, as there is room for them."""
    large = bytes(range(256)) * (1 << 15)
    with Bench(postgresql, postgresql_url, PostgresTimeouts()) as bench:
        bench.store.set(b"p", b"large", large)
        assert bench.store.get(b"p", b"large").value == large
