"""The PostgreSQL driver when processes race, servers restart and clients die."""

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from itertools import count
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from lakebed.base.runtime import ThreadRuntime, call_before_waiting
from lakebed.kv import (
    ABSENT,
    ForeignStore,
    InvalidArgument,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    Store,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
    UnsafeStore,
    Version,
    open_store,
)
from lakebed.kv.drivers.postgresql import PostgreSQLStore, open_driver
from lakebed.kv.drivers.postgresql.batches import PostgresWrite
from lakebed.kv.drivers.postgresql.driver import CREATE, SWAP
from lakebed.kv.drivers.postgresql.link import BackendProcess, PostgresLink, PostgresTimeouts
from lakebed.kv.pool import POOL_SIZE
from lakebed.kv.store import Put, new_version, puts
from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import PostgreSQLServer
from tests.kit.postgresql import conninfo
from tests.kit.rounds import rounds

KILL_ROUNDS = rounds(2, long=40)


def execute(url: str, statements: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(statements.encode())


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def wait_until_alone(url: str) -> None:
    """Wait until nobody else is connected to the database."""
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    give_up_at = monotonic() + 60
    while rows(url, others + " AND pid <> pg_backend_pid()"):
        assert monotonic() < give_up_at
        sleep(0.01)


def start_child(program: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a Python program and wait until it says that it is ready."""
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


# Opening


OPEN_AT_ONCE = """
import sys
from lakebed.kv import ABSENT, open_store
import lakebed.kv.drivers.postgresql
print("ready", flush=True)
sys.stdin.readline()
with open_store(sys.argv[1]) as store:
    store.set(b"p", sys.argv[2].encode(), b"", ABSENT)
"""


def test_racing_processes_open_a_new_database(postgresql_url: str) -> None:
    children = [start_child(OPEN_AT_ONCE, postgresql_url, str(number)) for number in range(5)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        child.communicate(timeout=60)  # it prints nothing more
        assert child.returncode == 0
    with open_store(postgresql_url) as store:
        assert [entry.key for entry in store.scan(b"p")] == [b"0", b"1", b"2", b"3", b"4"]


def test_racing_threads_open_a_new_database(postgresql_url: str) -> None:
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        open_store(postgresql_url).close()

    in_threads([work] * 8)


def test_a_server_that_may_lose_acknowledged_writes_is_refused(postgresql_url: str) -> None:
    wrong = "fsync is off and must be on; full_page_writes is off and must be on"
    with pytest.raises(UnsafeStore, match=rf"{wrong}\. .* add \?durable=true if"):
        open_store(conninfo(postgresql_url))
    with pytest.raises(InvalidArgument, match="durable must be true or false, not '1'"):
        open_store(f"{conninfo(postgresql_url)}&durable=1")
    assert rows(postgresql_url, "SELECT relname FROM pg_class WHERE relname LIKE 'lakebed%'") == []
    open_store(f"{postgresql_url}&pool_size=2").close()


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE lakebed_kv (partition bytea, key bytea, value text, version bytea)",
        "CREATE VIEW lakebed_kv AS SELECT 1 AS partition",
    ],
)
def test_a_foreign_table_is_left_alone(postgresql_url: str, statement: str) -> None:
    execute(postgresql_url, statement)
    with pytest.raises(ForeignStore, match="not a Lakebed store"):
        open_store(postgresql_url)
    there = rows(postgresql_url, "SELECT relname FROM pg_class WHERE relname LIKE 'lakebed%'")
    assert there == [("lakebed_kv",)]


def test_a_table_of_an_older_version_goes_on(postgresql_url: str) -> None:
    execute(
        postgresql_url,
        "CREATE TABLE lakebed_kv (partition bytea NOT NULL, key bytea NOT NULL,"
        " value bytea NOT NULL, version bytea NOT NULL, PRIMARY KEY (partition, key))"
        " PARTITION BY HASH (partition)",
    )
    for number in range(16):
        execute(
            postgresql_url,
            f"CREATE TABLE lakebed_kv_{number} PARTITION OF lakebed_kv"
            f" FOR VALUES WITH (MODULUS 16, REMAINDER {number})",
        )
    partitions = [b"p%d" % number for number in range(50)]
    with open_store(postgresql_url) as store:
        for partition in partitions:
            store.write(puts(partition, [(b"a", partition), (b"b", b"2"), (b"c", b"3")]))
            version = store.set(partition, b"new", b"4", ABSENT)
            with pytest.raises(PredicateFailed):
                store.set(partition, b"new", b"5", ABSENT)
            store.delete(partition, b"new", version)
        found = store.get_many([(partition, b"a") for partition in partitions])
        assert [item and item.value for item in found] == partitions
        assert [item.key for item in store.scan(b"p7", prefix=b"b")] == [b"b"]
        assert set(store.partitions()) >= set(partitions)
        for key in (b"a", b"b", b"c"):
            store.delete(b"p7", key)
        assert not list(store.scan(b"p7"))
    with PostgreSQLStore(postgresql_url, ThreadRuntime()) as driver:
        batch = [
            PostgresWrite(
                item.value, b"a", b"new", new_version(ThreadRuntime()), predicate=item.predicate
            )
            for item in found
            if item is not None
        ]
        expected = [partition != b"p7" for partition in partitions]
        assert [each.applied for each in driver._commit(batch, SWAP)] == expected


def test_each_write_of_a_batch_is_judged_by_itself(postgresql_url: str) -> None:
    with PostgreSQLStore(postgresql_url, ThreadRuntime()) as store:
        there = store.set(b"p", b"there", b"old")
        batch = [
            PostgresWrite(b"p", key, b"new", Version(key.ljust(16)))
            for key in (b"b", b"there", b"a", b"c")
        ]
        applied = [each.applied for each in store._commit(batch, CREATE)]
        assert applied == [True, False, True, True]
        found = {item.key: (item.value, item.predicate) for item in store.scan(b"p")}
        created = {write.key: (b"new", write.version) for write in batch if write.key != b"there"}
        assert found == created | {b"there": (b"old", there)}


def test_of_those_who_create_a_key_at_once_one_wins(postgresql_url: str) -> None:
    threads, keys = 12, [b"%d" % number for number in range(40)]
    winners: Counter[bytes] = Counter()
    barrier = threading.Barrier(threads)
    with open_store(postgresql_url) as store:

        def work() -> None:
            for key in keys:
                barrier.wait()
                try:
                    store.set(b"p", key, b"", ABSENT)
                except PredicateFailed:
                    continue
                winners[key] += 1

        in_threads([work] * threads)
    assert winners == dict.fromkeys(keys, 1)


class TickingRuntime(ThreadRuntime):
    """A clock that goes on by so much each time that it is read."""

    def __init__(self) -> None:
        self.tick = 0.0
        self._time = super().monotonic()

    def monotonic(self) -> float:
        self._time += self.tick
        return self._time


class LastingPoll:
    """Waits for a reply, however little time it is given."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def poll(self, _milliseconds: float) -> Any:
        return self._inner.poll(60_000)


def test_work_is_handed_over_only_while_a_server_is_far(postgresql_url: str) -> None:
    runtime = TickingRuntime()
    link = PostgresLink.connect(conninfo(postgresql_url), PostgresTimeouts(), runtime)
    link._input = LastingPoll(link._input)  # type: ignore[assignment]  # a slow machine is no matter
    handed_over: list[None] = []

    def ask(times: int) -> int:
        before = len(handed_over)
        for _ in range(times):
            assert link.read("SELECT 1::int4", ()).ntuples == 1
        return len(handed_over) - before

    def work() -> None:
        call_before_waiting(lambda: handed_over.append(None))
        assert link.read("SELECT 1::int4", ()).ntuples == 1  # it is prepared
        assert ask(20) == 0
        runtime.tick = 0.001
        ask(20)
        assert ask(20) == 20  # it is far
        runtime.tick = 0.0
        ask(1)
        assert ask(20) == 0  # and near again

    in_threads([work])
    link.close()


@pytest.mark.parametrize(
    ("malformed", "error", "message"),
    [
        ("postgresql://u:s3cret@/no_such_database?host={host}", StoreUnavailable, "not exist"),
        ("postgresql://u:s3cret@127.0.0.1:1/db", StoreUnavailable, "refused"),
        ("postgresql://u:s3cret@127.0.0.1:port/db", StoreUnavailable, "port"),
        ("postgresql://u:s3cret@127.0.0.1/db?unknown=1", InvalidArgument, "malformed"),
        ("postgresql://u:s3cret%zz@127.0.0.1/db", InvalidArgument, "malformed"),
    ],
)
def test_connection_errors_do_not_contain_the_password(
    postgresql: PostgreSQLServer, malformed: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        open_store(malformed.format(host=postgresql.socket.parent))
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in str(caught.value.__cause__)


# Errors of the server


@pytest.mark.parametrize(("state", "error"), [("53100", StoreFull), ("XX000", StoreUnavailable)])
def test_a_refusal_by_the_server_changed_nothing(
    postgresql_url: str, state: str, error: type[StoreUnavailable]
) -> None:
    with open_driver(postgresql_url, ThreadRuntime()) as store:
        execute(
            postgresql_url,
            f"""
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '{state}'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT OR DELETE ON lakebed_kv
            FOR EACH ROW EXECUTE FUNCTION refuse()
            """,
        )
        with pytest.raises(error, match="no room") as caught:
            store.set(b"p", b"key", b"value")
        assert type(caught.value) is error
        with pytest.raises(KeyNotFound):
            store.get(b"p", b"key")
        execute(postgresql_url, "DROP TRIGGER refuse ON lakebed_kv")
        store.set(b"p", b"key", b"value")


def test_a_later_step_that_fails_does_not_say_that_nothing_changed(postgresql_url: str) -> None:
    items = [(b"%05d" % number, b"") for number in range(1500)]
    with open_driver(postgresql_url, ThreadRuntime()) as store:
        execute(postgresql_url, "ALTER TABLE lakebed_kv ADD CONSTRAINT few CHECK (key < '01200')")
        with pytest.raises(OutcomeUnknown, match="applied in part") as caught:
            store.write(puts(b"p", items))
        assert not isinstance(caught.value, StoreUnavailable)
        assert rows(postgresql_url, "SELECT count(*) FROM lakebed_kv") == [(1000,)]


def test_values_in_several_partitions_are_written_all_or_none(postgresql_url: str) -> None:
    with open_driver(postgresql_url, ThreadRuntime()) as store:
        store.write([Put(b"p", b"key", b"old"), Put(b"q", b"key", b"old")])
        execute(postgresql_url, "ALTER TABLE lakebed_kv ADD CONSTRAINT no CHECK (value <> 'no')")
        with pytest.raises(StoreUnavailable):
            store.write([Put(b"p", b"key", b"new"), Put(b"q", b"key", b"no")])
        found = store.get_many([(b"p", b"key"), (b"q", b"key")])
        assert [item and item.value for item in found] == [b"old", b"old"]


def test_values_are_all_checked_before_the_first_is_written(postgresql_url: str) -> None:
    fine = [(b"p", b"%05d" % number, b"") for number in range(1500)]
    with open_driver(postgresql_url, ThreadRuntime()) as store:
        with pytest.raises(InvalidArgument):
            store.write([Put(*each) for each in [*fine, (b"p", b"", b"")]])
        assert list(store.scan(b"p")) == []
        store.write([Put(*each) for each in fine])
        assert len(list(store.scan(b"p"))) == len(fine)


def test_a_lost_table_is_reported_in_our_terms(postgresql_url: str) -> None:
    with open_driver(postgresql_url, ThreadRuntime()) as store:
        execute(postgresql_url, "DROP TABLE lakebed_kv")
        with pytest.raises(StoreUnavailable, match="lakebed_kv"):
            store.get(b"p", b"key")
        with pytest.raises(StoreUnavailable, match="lakebed_kv"):
            store.set(b"p", b"key", b"value")


# Connections


def test_connections_are_few_and_given_back(postgresql_url: str) -> None:
    with open_driver(postgresql_url, ThreadRuntime()) as store:

        def work() -> None:
            for number in range(10):
                store.set(b"p", b"%d" % number, b"")

        in_threads([work] * (2 * POOL_SIZE))
        [(most,)] = rows(
            postgresql_url,
            "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()",
        )
    assert 1 <= most <= POOL_SIZE
    wait_until_alone(postgresql_url)
    with pytest.raises(StoreClosed):
        store.get(b"p", b"1")


def test_a_process_that_got_a_number_again_is_left_alone(postgresql_url: str) -> None:
    patience, runtime = PostgresTimeouts(), ThreadRuntime()
    one = PostgresLink.connect(conninfo(postgresql_url), patience, runtime)
    other = PostgresLink.connect(conninfo(postgresql_url), patience, runtime)
    earlier = BackendProcess(
        other.backend.pid, other.backend.started - 1, other.backend.server_started
    )
    one.end(earlier)
    assert other.is_usable()
    assert other.execute("SELECT 1", ()).fetchone() == (1,)
    one.end(other.backend)
    with pytest.raises(psycopg.OperationalError):
        other.execute("SELECT 1", ())
    one.close()
    other.close()


# Restarts


def test_a_restart_between_calls_goes_unnoticed(mortal_postgresql: PostgreSQLServer) -> None:
    with open_driver(mortal_postgresql.create_database(), ThreadRuntime()) as store:
        barrier = threading.Barrier(8)

        def work() -> None:
            barrier.wait()
            for number in range(20):
                store.set(b"p", b"%d" % number, b"")

        in_threads([work] * 8)
        mortal_postgresql.stop()
        mortal_postgresql.start()
        in_threads([work] * 8)
        mortal_postgresql.kill()
        with pytest.raises(StoreUnavailable):
            store.get(b"p", b"0")
        mortal_postgresql.start()
        in_threads([work] * 8)


class _Writer:
    """Creates keys of its own, one after the other, and notes what it was told about each."""

    def __init__(self, store: Store, partition: bytes) -> None:
        self._store = store
        self.partition = partition
        self.applied: dict[bytes, bytes] = {}
        self.not_applied: set[bytes] = set()
        self.errors: Counter[str] = Counter()

    def run(self, stop: threading.Event) -> None:
        for number in count():
            if stop.is_set():
                return
            self._create(b"%08d" % number)

    def _create(self, key: bytes) -> None:
        try:
            self.applied[key] = self._store.set(self.partition, key, b"", ABSENT)
        except StoreUnavailable:
            self.not_applied.add(key)
            self.errors["unavailable"] += 1
        except OutcomeUnknown:
            self.errors["unknown"] += 1
        except PredicateFailed:
            self.errors["predicate"] += 1  # nobody else creates this key: a write applied twice


@pytest.mark.parametrize("retries", [False, True])
def test_outcomes_stay_true_while_the_server_restarts(
    mortal_postgresql: PostgreSQLServer, *, retries: bool
) -> None:
    url = mortal_postgresql.create_database()
    with open_store(url) if retries else open_driver(url, ThreadRuntime()) as store:
        writers = [_Writer(store, b"w%d" % number) for number in range(6)]
        stop = threading.Event()

        def restart() -> None:
            try:
                for end in (mortal_postgresql.stop, mortal_postgresql.kill) * 2:
                    sleep(0.3)
                    end()
                    sleep(0.05)
                    mortal_postgresql.start()
            finally:
                sleep(0.3)
                stop.set()

        in_threads([restart, *(lambda writer=writer: writer.run(stop) for writer in writers)])
        for writer in writers:
            there = {entry.key: entry.predicate for entry in store.scan(writer.partition)}
            assert writer.errors["predicate"] == 0
            assert {key: there.get(key) for key in writer.applied} == writer.applied
            assert not writer.not_applied & there.keys()
            assert len(writer.applied) > 0
    failed = sum((writer.errors for writer in writers), Counter[str]())
    assert retries or failed.total() > 0  # or nothing was shown


# Clients that die

CHILD = """
import sys
from lakebed.kv import ABSENT, PredicateFailed, open_store
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    while True:
        entry = store.get(b"p", b"counter")
        number = int(entry.value) + 1
        try:
            store.set(b"p", b"counter", b"%d" % number, entry.predicate)
        except PredicateFailed:
            continue
        print(number, flush=True)
"""


def kill(child: "subprocess.Popen[str]") -> list[int]:
    """Kill a child without warning; return what it acknowledged before."""
    child.send_signal(signal.SIGKILL)
    assert child.stdout is not None
    # Not by `communicate`, which would miss what came together with the line read before.
    output = child.stdout.read()
    child.communicate(timeout=60)
    # A last line cut short by the kill was not acknowledged.
    return [int(line) for line in output.splitlines(keepends=True) if line.endswith("\n")]


def test_killed_clients_lose_nothing_and_apply_nothing_twice(postgresql_url: str) -> None:
    chance = random.Random(1)
    total = 0
    with open_store(postgresql_url) as store:
        store.set(b"p", b"counter", b"0")
    for _ in range(KILL_ROUNDS):
        children = [start_child(CHILD, postgresql_url) for _ in range(2)]
        sleep(chance.uniform(0.05, 0.3))
        numbers = [number for child in children for number in kill(child)]
        wait_until_alone(postgresql_url)
        with open_store(postgresql_url) as store:
            value = int(store.get(b"p", b"counter").value)
        # Every number was given to one child only, none is missing but those nobody heard of.
        assert len(set(numbers)) == len(numbers)
        assert value - total - len(children) <= len(numbers) <= value - total
        assert max(numbers, default=total) <= value
        total = value
    assert total > KILL_ROUNDS


def test_patience_is_consistent() -> None:
    patience = PostgresTimeouts()
    assert patience.reply_seconds > patience.start_seconds + patience.run_seconds
    assert PostgreSQLStore.limits.partition_bytes + PostgreSQLStore.limits.key_bytes < 2704
