"""A write and the read behind it on PostgreSQL: what it sees, who shares it, and how it fails.

Rivals hold locks, so that each step happens when the test says so.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, sleep
from typing import Any

import psycopg
import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import (
    ABSENT,
    EXISTS,
    OutcomeUnknown,
    PredicateFailed,
    StoreUnavailable,
    group_commit,
)
from lakebed.kv.drivers.postgresql import PostgreSQLStore
from lakebed.kv.drivers.postgresql.batches import PostgresWrite
from lakebed.kv.drivers.postgresql.driver import CREATE
from lakebed.kv.drivers.postgresql.link import (
    PIPED_BYTES,
    PostgresLink,
    PostgresTimeouts,
    Query,
    Replies,
)
from lakebed.kv.group_commit import GroupCommit
from lakebed.kv.store import Item, Put, new_version
from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.proxy import Fault
from tests.kit.postgresql import conninfo
from tests.system.test_postgresql_faults import Bench

SECONDS = 60.0
PATIENCE = PostgresTimeouts(start_seconds=SECONDS, run_seconds=SECONDS, reply_seconds=3 * SECONDS)
SEEN = [(b"p", b"seen"), (b"p", b"absent")]
_OTHERS = "SELECT count(*) FROM pg_locks AS lock JOIN pg_database AS base ON base.oid = database"
WAITING_FOR_A_ROW = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event = 'transactionid'"
)
WAITING_TO_COMMIT = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event = 'advisory'"
)
WAITING_FOR_THE_TABLE = (
    f"{_OTHERS} WHERE datname = current_database() AND NOT granted AND mode = 'AccessExclusiveLock'"
)
WAITING_TO_READ = (
    f"{_OTHERS} WHERE datname = current_database() AND NOT granted AND mode = 'AccessShareLock'"
)
# A commit runs this when its statements have ended.
TRIGGER = """
CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {}; RETURN NULL; END';
CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON lakebed_kv DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.key = 'held up') EXECUTE FUNCTION at_commit()
"""
INSERT = "INSERT INTO lakebed_kv VALUES ('p', %s, 'of a rival', '0123456789abcdef')"


@dataclass
class Scene:
    """A store, threads that write by it, and connections that do not go through it."""

    bench: Bench
    asked: list[tuple[Query, Query | None]]
    """What the store has asked the server, writes only."""
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(20))

    @property
    def store(self) -> PostgreSQLStore:
        return self.bench.store

    def write(self, key: bytes, predicate: Any = ABSENT) -> "Future[list[Item | None]]":
        """Begin to write a key and to read behind that."""
        return self.pool.submit(self.store.write, [Put(b"p", key, b"new", predicate)], SEEN)

    def look(self, query: str) -> Any:
        with psycopg.connect(conninfo(self.bench.direct_url), autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def wait_for(self, query: str) -> None:
        wait_until(lambda: self.look(query) > 0)

    @contextmanager
    def rival(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction of another process, which is rolled back at the end."""
        connection = psycopg.connect(conninfo(self.bench.direct_url))
        try:
            yield connection
        finally:
            connection.rollback()
            connection.close()

    @contextmanager
    def held_up(self, key: bytes = b"held up") -> Iterator["Future[list[Item | None]]"]:
        """A write that waits for a rival, which created the same key, until the block ends."""
        with self.rival() as rival:
            rival.execute(INSERT, [key])
            write = self.write(key)
            self.wait_for(WAITING_FOR_A_ROW)
            yield write

    def at_commit(self, action: str) -> None:
        """Have something done when a transaction that created the key "held up" is committed."""
        with psycopg.connect(conninfo(self.bench.direct_url), autocommit=True) as connection:
            connection.execute(TRIGGER.format(action).encode())

    @contextmanager
    def commit_held_up(self) -> Iterator["Future[list[Item | None]]"]:
        """A write that has done its work, and is committed when the block ends."""
        self.at_commit("PERFORM pg_advisory_xact_lock(1)")
        with self.rival() as rival:
            rival.execute("SELECT pg_advisory_xact_lock(1)")
            write = self.write(b"held up")
            self.wait_for(WAITING_TO_COMMIT)
            yield write

    def begin_behind(
        self,
        queue: GroupCommit[PostgresWrite],
        begin: Sequence[Callable[[], "Future[list[Item | None]]"]],
    ) -> list["Future[list[Item | None]]"]:
        """Begin writes that wait for the batch under way."""
        begun = []
        for number, each in enumerate(begin, start=1):
            begun.append(each())
            wait_until(lambda number=number: len(queue._queue) == number)  # type: ignore[misc]
        return begun

    def transactions(self, condition: str) -> int:
        """How many transactions wrote the rows that are there."""
        found: int = self.look(
            f"SELECT count(DISTINCT xmin::text) FROM lakebed_kv WHERE {condition}"
        )
        return found


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = monotonic() + SECONDS
    while not condition():
        assert monotonic() < give_up_at
        sleep(0.001)


@pytest.fixture
def scene(
    postgresql: PostgreSQLServer, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    # Whoever waits, waits for the batch under way.
    monkeypatch.setattr(group_commit, "LONG_SECONDS", SECONDS)
    monkeypatch.setattr(group_commit, "QUEUE_SECONDS", SECONDS)
    asked: list[tuple[Query, Query | None]] = []
    ask = PostgresLink.write

    def noted(link: PostgresLink, write: Query, read: Query | None = None) -> Replies:
        asked.append((write, read))
        return ask(link, write, read)

    monkeypatch.setattr(PostgresLink, "write", noted)
    with Bench(postgresql, postgresql_url, PATIENCE) as bench:
        yield Scene(bench, asked)


@pytest.mark.parametrize("hold_up", [Scene.held_up, Scene.commit_held_up])
def test_the_read_sees_what_was_committed_before_the_write_took_effect(
    scene: Scene, hold_up: Callable[[Scene], Any]
) -> None:
    scene.store.set(b"p", b"seen", b"old")
    with hold_up(scene) as write, scene.rival() as other:
        # What the statement that writes sees by itself is older than this.
        other.execute("UPDATE lakebed_kv SET value = 'new' WHERE key = 'seen'")
        other.commit()
    seen, absent = write.result(SECONDS)
    assert seen is not None
    assert seen.value == b"new"
    assert absent is None


def test_a_commit_that_fails_changed_nothing(scene: Scene) -> None:
    """The server has said before that the statement succeeded."""
    scene.at_commit("RAISE EXCEPTION ''no''")
    with pytest.raises(StoreUnavailable, match="refused the write: no"):
        scene.store.write([Put(b"p", b"held up", b"new", ABSENT)], SEEN)
    assert scene.bench.values(b"p") == {}
    assert scene.write(b"next").result(SECONDS) == [None, None]


def test_the_read_sees_the_write(scene: Scene) -> None:
    version = new_version(ThreadRuntime())
    for predicate in (ABSENT, EXISTS, version):
        found = scene.store.write(
            [Put(b"p", b"key", b"value", predicate, version)], [(b"p", b"key")]
        )
        assert found == [(b"key", b"value", version)]


def test_writes_of_a_batch_share_one_read(scene: Scene) -> None:
    version = scene.store.set(b"p", b"seen", b"value")
    scene.store.set(b"p", b"there", b"value")
    with scene.held_up():
        scene.asked.clear()
        keys = [b"0", b"1", b"there", b"2", b"3"]
        begun = scene.begin_behind(
            scene.store._creations[0], [partial(scene.write, key) for key in keys]
        )
    refused = begun.pop(2)
    with pytest.raises(PredicateFailed):
        refused.result(SECONDS)
    for write in begun:
        assert write.result(SECONDS) == [(b"seen", b"value", version), None]
    [(_, read)] = scene.asked
    assert read is not None
    assert list(read.parameters) == [b"p", b"seen", b"p", b"absent"]
    assert scene.transactions("key IN ('0', '1', '2', '3')") == 1


def test_each_write_of_a_batch_gets_what_it_asked_for(scene: Scene) -> None:
    places = [(b"p", b"%d" % number) for number in range(20)]
    for _, key in places[:15]:
        scene.store.set(b"p", key, b"value of " + key)
    runtime = ThreadRuntime()
    batch = [
        PostgresWrite(
            b"p", b"new-%d" % number, b"", new_version(runtime), places=places[begin : begin + 3]
        )
        for number, begin in enumerate(range(0, 20, 2))
    ]
    scene.asked.clear()
    assert all(each.applied for each in scene.store._commit(batch, CREATE))
    assert len(scene.asked) == 1
    for write in batch:
        for place in write.places:
            item = write.found[place]
            expected = b"value of " + place[1] if place in places[:15] else None
            assert (item and item.value) == expected


def test_swaps_share_a_statement(scene: Scene) -> None:
    """Each is judged by itself, by what is there when its turn comes."""
    keys = [b"%d" % number for number in range(6)]
    versions = {key: scene.store.set(b"p", key, b"old") for key in keys}
    first = scene.store.set(b"p", b"first", b"old")
    with ExitStack() as later:
        rival = later.enter_context(scene.rival())
        rival.execute("UPDATE lakebed_kv SET version = version WHERE key = '3'")
        with scene.rival() as other:
            other.execute("SELECT FROM lakebed_kv WHERE key = 'first' FOR UPDATE")
            busy = scene.write(b"first", first)
            scene.wait_for(WAITING_FOR_A_ROW)
            expected = versions | {b"1": new_version(ThreadRuntime())}
            begun = scene.begin_behind(
                scene.store._swaps[0],
                [partial(scene.write, key, expected[key]) for key in keys],
            )
        assert busy.result(SECONDS) == [None, None]
        scene.wait_for(WAITING_FOR_A_ROW)
        rival.execute("UPDATE lakebed_kv SET version = '0123456789abcdef' WHERE key = '3'")
        rival.commit()
    failed = {key for key, write in zip(keys, begun, strict=True) if write.exception(SECONDS)}
    assert failed == {b"1", b"3"}
    assert [type(begun[number].exception()) for number in (1, 3)] == [PredicateFailed] * 2
    assert scene.transactions("value = 'new' AND key <> 'first'") == 1
    values = scene.bench.values(b"p")
    assert [values[key] for key in keys] == [b"new", b"old", b"new", b"old", b"new", b"new"]


@contextmanager
def read_held_up(scene: Scene, begin: Callable[[], "Future[Any]"]) -> Iterator["Future[Any]"]:
    """Begin a write of the key "held up" that is committed, and whose read waits for a lock."""
    with ExitStack() as later:
        with scene.rival() as rival:
            rival.execute(INSERT, [b"held up"])
            write = begin()
            scene.wait_for(WAITING_FOR_A_ROW)
            # It gets the table when nobody else uses it: between the write and the read.
            keeper = later.enter_context(scene.rival())
            kept = scene.pool.submit(keeper.execute, "LOCK TABLE lakebed_kv")
            scene.wait_for(WAITING_FOR_THE_TABLE)
        kept.result(SECONDS)
        scene.wait_for(WAITING_TO_READ)
        yield write


def cut(scene: Scene) -> None:
    scene.bench.proxy.break_open(Fault.CUT)


def terminate(scene: Scene) -> None:
    scene.look(WAITING_TO_READ.replace("count(*)", "pg_terminate_backend(pid)"))


def cancel(scene: Scene) -> None:
    scene.look(WAITING_TO_READ.replace("count(*)", "pg_cancel_backend(pid)"))


@pytest.mark.parametrize("fail", [cut, terminate, cancel])
def test_a_read_that_fails_does_not_say_that_nothing_changed(
    scene: Scene, fail: Callable[[Scene], None]
) -> None:
    with read_held_up(scene, lambda: scene.write(b"held up")) as write:
        fail(scene)
        error = write.exception(SECONDS)
    assert isinstance(error, OutcomeUnknown)
    assert not isinstance(error, StoreUnavailable)
    assert scene.bench.values(b"p") == {b"held up": b"new"}
    assert not scene.store._pool._idle  # the connection was left behind
    assert scene.write(b"next").result(SECONDS) == [None, None]


def test_who_wanted_no_read_is_not_hurt_by_one_that_fails(scene: Scene) -> None:
    runtime = ThreadRuntime()
    batch = [
        PostgresWrite(b"p", b"alone", b"new", new_version(runtime)),
        PostgresWrite(b"p", b"held up", b"new", new_version(runtime), places=SEEN),
    ]
    with read_held_up(scene, lambda: scene.pool.submit(scene.store._commit, batch, CREATE)) as done:
        terminate(scene)
        assert [each.applied for each in done.result(SECONDS)] == [True, True]
    assert batch[1].read_error is not None
    assert scene.bench.values(b"p") == {b"alone": b"new", b"held up": b"new"}


def test_a_large_write_is_not_sent_without_what_commits_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would send it in two parts; the second could come late."""
    version = scene.store.set(b"p", b"seen", b"value")

    def refuse(*_: object) -> Replies:
        raise AssertionError

    monkeypatch.setattr(PostgresLink, "_write_and_read", refuse)
    large = bytes(PIPED_BYTES + 1)
    found = scene.store.write([Put(b"p", b"large", large, ABSENT)], SEEN)
    assert found == [(b"seen", b"value", version), None]
    assert scene.bench.values(b"p")[b"large"] == large
