"""Reads, group commit and trouble; what all drivers do is in the conformance suite."""

import os
import shutil
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import (
    ABSENT,
    EXISTS,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
)
from lakebed.kv.drivers.sqlite import writer as writer_module
from lakebed.kv.drivers.sqlite.driver import SqliteStore
from lakebed.kv.drivers.sqlite.file import DatabaseFile
from lakebed.kv.drivers.sqlite.writer import SQLiteWriter
from lakebed.kv.store import Put, puts

DEADLINE_SECONDS = 30.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lakebed.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """The driver without wrappers: nothing is tried twice."""
    with open_driver(path) as store:
        yield store


def open_driver(path: Path) -> SqliteStore:
    return SqliteStore(DatabaseFile(path), ThreadRuntime())


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the lock on the file, as another process that writes does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.001)


@contextmanager
def queued(
    store: SqliteStore, path: Path, calls: Sequence[Callable[[], object]]
) -> Iterator[list[Future[object]]]:
    """Let calls that write pile up behind a lock, which is released at the end of the block."""
    with ThreadPoolExecutor(len(calls)) as pool, locked(path):
        futures = [pool.submit(call) for call in calls]
        # The first leads, and waits with its own for the lock.
        wait_until(lambda: len(store.writer._group._queue) == len(calls) - 1)
        yield futures


def test_a_write_is_seen_everywhere_as_soon_as_it_returned(path: Path) -> None:
    with open_driver(path) as first, open_driver(path) as second:

        def write_and_read(thread: int) -> None:
            key = b"%d" % thread
            for number in range(100):
                value = b"%d" % number
                first.set(b"p", key, value)
                assert second.get(b"p", key).value == value
                assert first.get(b"p", key).value == value

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write_and_read, range(4)))


def test_reads_keep_no_transaction_open(store: SqliteStore, path: Path) -> None:
    store.write(puts(b"p", [(b"%04d" % number, bytes(1000)) for number in range(500)]))
    pages = store.scan(b"p")
    next(pages)
    store.get(b"p", b"0001")
    store.get_many([(b"p", b"0001"), (b"p", b"none")])
    with pytest.raises(KeyNotFound):
        store.get(b"p", b"none")
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy
    assert path.with_name("lakebed.db-wal").stat().st_size == 0
    assert len(list(pages)) == 499


def test_a_few_keys_take_one_statement(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        store.set(b"p", b"%d" % number, b"value %d" % number)
    made: list[str] = []
    connect = DatabaseFile.connect

    def traced(file: DatabaseFile) -> sqlite3.Connection:
        connection = connect(file)
        connection.set_trace_callback(made.append)
        return connection

    monkeypatch.setattr(DatabaseFile, "connect", traced)
    few = store.get_many([(b"p", b"3"), (b"p", b"absent"), (b"p", b"1"), (b"p", b"3")])
    assert [item and item.value for item in few] == [b"value 3", None, b"value 1", b"value 3"]
    assert len(made) == 1
    many = store.get_many([(b"p", b"%d" % number) for number in range(20)])
    assert [item and item.value for item in many] == [b"value %d" % n for n in range(20)]
    assert len(made) == 4
    assert store.get_many([]) == []


def test_the_log_shrinks_again_after_a_long_read(path: Path) -> None:
    with (
        patch.object(writer_module, "LARGEST_LOG_BYTES", 100_000),
        patch.object(writer_module, "_READERS_PATIENCE_SECONDS", 0.01),
        open_driver(path) as store,
    ):
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM entries").fetchall()
            for number in range(10):
                store.set(b"p", b"%d" % number, bytes(100_000))
        grown = path.with_name("lakebed.db-wal").stat().st_size
        assert grown > 1_000_000
        store.set(b"p", b"larger", bytes(2 * grown))
        store.set(b"p", b"after", b"v")  # the log is emptied after the answer
        assert path.with_name("lakebed.db-wal").stat().st_size < 100_000


# Group commit


def test_writes_that_queue_up_share_a_commit(store: SqliteStore, path: Path) -> None:
    calls = [partial(store.set, b"p", b"%d" % number, b"v") for number in range(10)]
    before = store.writer.commits, store.writer.writes
    with queued(store, path, calls):
        pass
    assert (store.writer.commits, store.writer.writes) == (before[0] + 1, before[1] + 10)
    assert len(list(store.scan(b"p"))) == 10


def test_in_one_commit_one_of_many_creates_a_key(store: SqliteStore, path: Path) -> None:
    calls = [partial(store.set, b"p", b"k", b"v", ABSENT)] * 10
    before = store.writer.commits
    with queued(store, path, calls) as futures:
        pass
    outcomes = [future.exception() for future in futures]
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, PredicateFailed) for outcome in outcomes) == 9
    winner = futures[outcomes.index(None)].result()
    assert store.get(b"p", b"k").predicate == winner
    assert store.writer.commits == before + 1


def test_writes_of_one_commit_read_what_all_of_them_left(store: SqliteStore, path: Path) -> None:
    keys = [(b"p", b"%d" % number) for number in range(3)]
    calls = [
        partial(store.write, [Put(b"p", b"%d" % number, b"%d" % number, ABSENT)], keys)
        for number in range(3)
    ]
    before = store.writer.commits
    with queued(store, path, calls) as futures:
        pass
    assert store.writer.commits == before + 1
    found = store.get_many(keys)
    assert [item and item.value for item in found] == [b"0", b"1", b"2"]
    assert [future.result() for future in futures] == [found] * 3


def test_a_batch_has_a_largest_size(store: SqliteStore, path: Path) -> None:
    calls = [partial(store.set, b"p", b"%d" % number, bytes(100)) for number in range(10)]
    before = store.writer.commits
    with patch.object(writer_module, "BATCH_BYTES", 300), queued(store, path, calls):
        pass
    assert store.writer.commits == before + 4


def test_many_keys_at_once_are_written_all_or_none(store: SqliteStore) -> None:
    store.writer._connection.execute("PRAGMA max_page_count = 40")
    with pytest.raises(StoreFull):
        store.write(puts(b"p", [(b"%04d" % number, bytes(1000)) for number in range(1000)]))
    assert list(store.scan(b"p")) == []


def test_values_in_several_partitions_are_written_all_or_none(store: SqliteStore) -> None:
    before = store.writer.commits, store.writer.writes
    store.write([Put(b"p", b"k", b"old"), Put(b"q", b"k", b"old")])
    assert (store.writer.commits, store.writer.writes) == (before[0] + 1, before[1] + 1)
    store.writer._connection.execute("PRAGMA max_page_count = 40")
    with pytest.raises(StoreFull):
        store.write([Put(b"p", b"k", b"new"), Put(b"q", b"k", bytes(1 << 20))])
    found = store.get_many([(b"p", b"k"), (b"q", b"k")])
    assert [item and item.value for item in found] == [b"old", b"old"]


# Durability

_FULL = 2
"""What ``PRAGMA synchronous`` returns where a commit waits for the disk."""


class Watched(sqlite3.Connection):
    """Notes, before it is closed, whether commits on it waited for the disk."""

    settings: ClassVar[list[tuple[int, int]]] = []

    def close(self) -> None:
        pragmas = ("synchronous", "fullfsync")
        values = [self.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas]
        self.settings.append((values[0], values[1]))
        super().close()


def test_commits_wait_for_the_disk_on_every_connection(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def watched(database: str, **options: Any) -> sqlite3.Connection:
        if "immutable" in database:  # nothing can be written there
            return connect(database, **options)
        return connect(database, factory=Watched, **options)

    monkeypatch.setattr(sqlite3, "connect", watched)
    monkeypatch.setattr(Watched, "settings", [])
    for _ in range(2):  # a new file, and one that is there
        with open_driver(path) as store:
            store.set(b"p", b"k", b"v")
            store.writer._replace_connection()
            store.set(b"p", b"k", b"w")
            everyone_reads = threading.Barrier(3)

            def read(store: SqliteStore, everyone_reads: threading.Barrier) -> bytes:
                connection = store._readers._take()
                everyone_reads.wait(DEADLINE_SECONDS)
                store._readers._give_back(connection)
                return store.get(b"p", b"k").value

            with ThreadPoolExecutor(3) as pool:
                found = [pool.submit(read, store, everyone_reads) for _ in range(3)]
            assert {each.result() for each in found} == {b"w"}
    # Of each store: the one that made the file, two that wrote, three that read.
    assert Watched.settings == [(_FULL, 1)] * 12


# Trouble


def test_a_full_disk_is_reported_and_changes_nothing(store: SqliteStore) -> None:
    store.set(b"p", b"k", b"old")
    (pages,) = store.writer._connection.execute("PRAGMA page_count").fetchone()
    store.writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match=r"lakebed\.db: the disk is full"):
        store.set(b"p", b"k", bytes(100_000), EXISTS)
    assert store.get(b"p", b"k").value == b"old"
    store.writer._connection.execute("PRAGMA max_page_count = 100000")
    store.set(b"p", b"k", bytes(100_000))
    assert store.get(b"p", b"k").value == bytes(100_000)


def test_a_write_that_does_not_fit_does_not_fail_the_others(store: SqliteStore, path: Path) -> None:
    calls = [partial(store.set, b"p", b"%d" % number, b"v") for number in range(5)]
    calls.insert(2, partial(store.set, b"p", b"large", bytes(1_000_000)))
    (pages,) = store.writer._connection.execute("PRAGMA page_count").fetchone()
    store.writer._connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    with queued(store, path, calls) as futures:
        pass
    outcomes = [future.exception() for future in futures]
    assert isinstance(outcomes.pop(2), StoreFull)
    assert outcomes == [None] * 5
    assert [entry.key for entry in store.scan(b"p")] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_lock_held_too_long_is_reported_and_the_writes_never_happen(
    store: SqliteStore, path: Path
) -> None:
    with (
        patch.object(writer_module, "LOCK_SECONDS", 0.2),
        ThreadPoolExecutor(5) as pool,
        locked(path),
    ):
        futures = [pool.submit(store.set, b"p", b"%d" % number, b"v") for number in range(5)]
        for future in futures:
            error = future.exception(DEADLINE_SECONDS)
            assert isinstance(error, StoreUnavailable)
            assert "locked" in str(error)
    store.set(b"p", b"later", b"v")
    assert [entry.key for entry in store.scan(b"p")] == [b"later"]


def copy_database(source: Path, target: Path) -> None:
    target.parent.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(source.with_name(source.name + suffix), target.with_name(target.name + suffix))


def test_a_commit_that_failed_at_the_last_moment_is_not_found_after_a_crash(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    """All of it is in the log, but the disk did not confirm: it must not be applied later."""
    store.set(b"p", b"k", b"old")
    store.get(b"p", b"k")
    log = path.with_name("lakebed.db-wal")
    copy_database(path, tmp_path / "twin" / "lakebed.db")
    with closing(sqlite3.connect(tmp_path / "twin" / "lakebed.db", isolation_level=None)) as twin:
        twin.execute("UPDATE entries SET value = ?", (b"new",))
        twin_log = (tmp_path / "twin" / "lakebed.db-wal").read_bytes()
    assert twin_log.startswith(log.read_bytes())
    assert len(twin_log) > log.stat().st_size

    def write_and_fail(_: SQLiteWriter) -> None:
        log.write_bytes(twin_log)
        raise sqlite3.OperationalError("disk I/O error")

    with patch.object(SQLiteWriter, "_commit", write_and_fail), pytest.raises(OutcomeUnknown):
        store.set(b"p", b"k", b"new")
    copy_database(path, tmp_path / "crashed" / "lakebed.db")
    with open_driver(tmp_path / "crashed" / "lakebed.db") as crashed:
        assert crashed.get(b"p", b"k").value == b"old"
    assert store.get(b"p", b"k").value == b"old"


def test_something_unexpected_in_the_thread_reaches_the_caller(store: SqliteStore) -> None:
    with (
        patch.object(SQLiteWriter, "_begin", side_effect=ZeroDivisionError("surprise")),
        pytest.raises(OutcomeUnknown, match="surprise"),
    ):
        store.set(b"p", b"k", b"v")
    store.set(b"p", b"k", b"v")


def test_the_writer_outlives_a_log_that_cannot_be_looked_at(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> int:
        raise NotADirectoryError

    monkeypatch.setattr(DatabaseFile, "log_bytes", fail)
    monkeypatch.setattr(writer_module, "LOG_CHECK_BYTES", 0)
    for number in range(3):
        store.set(b"p", b"k", b"%d" % number)
    assert store.get(b"p", b"k").value == b"2"


@pytest.mark.parametrize("call", ["set", "close"])
def test_a_child_does_not_wait_for_what_its_parent_does(store: SqliteStore, call: str) -> None:
    """Whoever holds a lock when a process forks stays in the parent."""
    calls: dict[str, Callable[[], object]] = {
        "set": partial(store.set, b"p", b"k", b"v"),
        "close": store.close,
    }
    with store.writer._group._lock:
        child = os.fork()
        if child == 0:
            os._exit(refused_in_child(calls[call]))
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (0 if call == "close" else 1)


def refused_in_child(call: Callable[[], object]) -> int:
    """Return 1 if a call is refused as one of a child, 0 if it is not."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(10)  # a child that hangs must not hang its parent
    try:
        call()
    except StoreClosed as error:
        return 1 if "another process" in str(error) else 2
    except BaseException:  # noqa: BLE001 - nothing may leave the child but its exit code
        return 3
    return 0


def test_closing_while_others_write_keeps_what_was_acknowledged(path: Path) -> None:
    store = open_driver(path)
    acknowledged: list[bytes] = []

    def write(thread: int) -> None:
        for number in range(100_000):
            key = b"%d/%d" % (thread, number)
            try:
                store.set(b"p", key, b"v")
                store.get(b"p", key)
            except StoreClosed:
                return
            acknowledged.append(key)

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(write, thread) for thread in range(8)]
        wait_until(lambda: len(acknowledged) > 100)
        store.close()
        for future in futures:
            future.result()
    assert not path.with_name("lakebed.db-wal").exists()  # the last connection was closed
    with open_driver(path) as store:
        there = {entry.key for entry in store.scan(b"p")}
    assert there >= set(acknowledged)
