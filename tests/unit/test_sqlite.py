"""What is special about the sqlite driver; what all drivers do is in the conformance suite."""

import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest

from lakebed.kv import (
    ABSENT,
    EXISTS,
    ForeignStore,
    InvalidArgument,
    KeyNotFound,
    OutcomeUnknown,
    PredicateFailed,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
    open_store,
)
from lakebed.kv.drivers.sqlite import writer as writer_module
from lakebed.kv.drivers.sqlite.driver import DROP_CHUNK, SqliteStore
from lakebed.kv.drivers.sqlite.file import DatabaseFile
from lakebed.kv.drivers.sqlite.writer import Writer, _Operation
from lakebed.runtime import ThreadRuntime

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
        # The thread has taken one and waits with it for the lock.
        wait_until(lambda: store.writer._queue.qsize() == len(calls) - 1)
        yield futures


def contents(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite://host/file.db",
        "sqlite:file.db",
        "sqlite:///folder/",
        "sqlite:///file.db?mode=ro",
        "sqlite:///file.db#part",
    ],
)
def test_urls_that_name_no_file_are_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgument):
        open_store(url)
    assert list(tmp_path.iterdir()) == []


def test_three_slashes_are_relative_to_the_folder_at_the_time_of_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///data/new/100% no.db") as store:
        store.set(b"p", b"k", b"v")
        monkeypatch.chdir("/")
        with ThreadPoolExecutor(4) as pool:  # some of them need new connections
            values = [pool.submit(store.get, b"p", b"k").result().value for _ in range(8)]
    assert values == [b"v"] * 8
    assert (tmp_path / "data" / "new" / "100% no.db").is_file()


# Files of others


def make_text(path: Path) -> None:
    path.write_text("some notes, longer than the header of a database\n" * 100)


def make_short(path: Path) -> None:
    path.write_bytes(b"x")


def make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE entries (partition, key, value, version)")


def make_crashed_database(path: Path) -> None:
    """A database with a log that its owner left behind, which opening it would work off."""
    with closing(sqlite3.connect(path.with_name("owner"), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (value)")
        for suffix in ("", "-wal"):
            shutil.copy(path.with_name("owner" + suffix), path.with_name(path.name + suffix))
    path.with_name("owner").unlink()
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def make_log_without_file(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"the last writes")


@pytest.mark.parametrize(
    "make", [make_text, make_short, make_database, make_crashed_database, make_log_without_file]
)
def test_files_of_others_are_refused_and_left_untouched(
    make: Callable[[Path], None], path: Path, tmp_path: Path
) -> None:
    make(path)
    before = contents(tmp_path)
    with pytest.raises(ForeignStore, match=r"lakebed\.db"):
        open_store(f"sqlite:///{path}")
    assert contents(tmp_path) == before


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ForeignStore, match="not a file"):
        open_store(f"sqlite:///{tmp_path}")


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with open_store(f"sqlite:///{path}") as store:
        store.set(b"p", b"k", b"v")
    with open_store(f"sqlite:///{path}") as store:
        assert store.get(b"p", b"k").value == b"v"


def test_a_folder_that_cannot_be_made_is_named(path: Path) -> None:
    path.write_text("in the way")
    with pytest.raises(StoreUnavailable, match=r"lakebed\.db"):
        open_store(f"sqlite:///{path}/below/lakebed.db")


def test_looking_at_a_file_keeps_the_locks_on_it(path: Path) -> None:
    """Closing a file drops this process's locks on it, unless SQLite does the closing."""
    take_lock = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)\n"
        "connection.execute('PRAGMA locking_mode = EXCLUSIVE')\n"
        "connection.execute('BEGIN EXCLUSIVE')\n"
        "connection.execute('DELETE FROM entries')\n"
    )
    with open_driver(path) as first:
        first.set(b"p", b"k", b"v")
        open_driver(path).close()
        other = subprocess.run(
            [sys.executable, "-c", take_lock, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert "database is locked" in other.stderr


# Several at once


def test_racing_threads_create_a_store_together(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / str(number) / "lakebed.db"
        barrier = threading.Barrier(8)

        def open_and_write(
            thread: int, path: Path = path, barrier: threading.Barrier = barrier
        ) -> None:
            barrier.wait()
            with open_store(f"sqlite:///{path}") as store:
                store.set(b"p", b"%d" % thread, b"v")

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(open_and_write, range(8)))
        with open_store(f"sqlite:///{path}") as store:
            assert len(list(store.scan(b"p"))) == 8


def test_racing_processes_create_a_store_together(path: Path) -> None:
    code = (
        "import sys\n"
        "from lakebed.kv import open_store\n"
        "print(flush=True)\n"
        "sys.stdin.readline()\n"
        "with open_store(sys.argv[1]) as store: store.set(b'p', sys.argv[2].encode(), b'v')\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, f"sqlite:///{path}", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    with open_store(f"sqlite:///{path}") as store:
        assert [entry.key for entry in store.scan(b"p")] == [b"0", b"1", b"2", b"3"]


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
    store.set_many(b"p", [(b"%04d" % number, bytes(1000)) for number in range(500)])
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
    calls = [partial(store.set_if, b"p", b"k", b"v", ABSENT)] * 10
    before = store.writer.commits
    with queued(store, path, calls) as futures:
        pass
    outcomes = [future.exception() for future in futures]
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, PredicateFailed) for outcome in outcomes) == 9
    winner = futures[outcomes.index(None)].result()
    assert store.get(b"p", b"k").predicate == winner
    assert store.writer.commits == before + 1


def test_a_batch_has_a_largest_size(store: SqliteStore, path: Path) -> None:
    calls = [partial(store.set, b"p", b"%d" % number, bytes(100)) for number in range(10)]
    before = store.writer.commits
    with patch.object(writer_module, "BATCH_BYTES", 300), queued(store, path, calls):
        pass
    assert store.writer.commits == before + 4


def test_many_keys_at_once_are_written_all_or_none(store: SqliteStore) -> None:
    store.writer._connection.execute("PRAGMA max_page_count = 40")
    with pytest.raises(StoreFull):
        store.set_many(b"p", [(b"%04d" % number, bytes(1000)) for number in range(1000)])
    assert list(store.scan(b"p")) == []


def test_dropping_a_partition_lets_others_write_in_between(store: SqliteStore) -> None:
    store.set_many(b"p", [(b"%06d" % number, b"v") for number in range(3 * DROP_CHUNK + 1)])
    store.set_many(b"q", [(b"k", b"v")])
    before = store.writer.commits
    store.drop_partition(b"p")
    assert store.writer.commits >= before + 4
    assert list(store.scan(b"p")) == []
    assert store.get(b"q", b"k").value == b"v"
    store.drop_partition(b"p")


# Trouble


def test_a_full_disk_is_reported_and_changes_nothing(store: SqliteStore) -> None:
    store.set(b"p", b"k", b"old")
    (pages,) = store.writer._connection.execute("PRAGMA page_count").fetchone()
    store.writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match=r"lakebed\.db: the disk is full"):
        store.set_if(b"p", b"k", bytes(100_000), EXISTS)
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
        patch.object(writer_module, "PATIENCE_SECONDS", 0.2),
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


LIMITED_FILE_SIZE = """
import resource, sys
from lakebed.kv import OutcomeUnknown, StoreUnavailable, open_store

path = sys.argv[1]
with open_store(f"sqlite:///{path}") as store:
    store.set(b"p", b"before", b"v")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        store.set(b"p", b"failed", bytes(200_000))
    except OutcomeUnknown as error:
        assert not isinstance(error, StoreUnavailable), repr(error)
    else:
        sys.exit("the write fitted")
    store.set(b"p", b"small", b"v")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.set(b"p", b"after", b"v")
"""


def test_a_commit_that_fails_is_unknown_and_the_next_one_works(path: Path) -> None:
    subprocess.run([sys.executable, "-c", LIMITED_FILE_SIZE, str(path)], check=True)
    with open_store(f"sqlite:///{path}") as store:
        assert [entry.key for entry in store.scan(b"p")] == [b"after", b"before", b"small"]


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

    def write_and_fail(_: Writer) -> None:
        log.write_bytes(twin_log)
        raise sqlite3.OperationalError("disk I/O error")

    with patch.object(Writer, "_commit", write_and_fail), pytest.raises(OutcomeUnknown):
        store.set(b"p", b"k", b"new")
    copy_database(path, tmp_path / "crashed" / "lakebed.db")
    with open_driver(tmp_path / "crashed" / "lakebed.db") as crashed:
        assert crashed.get(b"p", b"k").value == b"old"
    assert store.get(b"p", b"k").value == b"old"


def test_something_unexpected_in_the_thread_reaches_the_caller(store: SqliteStore) -> None:
    with (
        patch.object(Writer, "_begin", side_effect=ZeroDivisionError("surprise")),
        pytest.raises(OutcomeUnknown, match="surprise"),
    ):
        store.set(b"p", b"k", b"v")
    store.set(b"p", b"k", b"v")


class InterruptedByTestError(Exception):
    pass


def test_an_interrupted_caller_sees_its_write_through(store: SqliteStore, path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedByTestError

    release = threading.Event()

    def hold_lock(holding: threading.Event) -> None:
        with locked(path):
            holding.set()
            release.wait(DEADLINE_SECONDS)

    def interrupt_and_release() -> None:
        main = threading.main_thread().ident or 0
        wait_until(lambda: sys._current_frames()[main].f_code is _Operation.wait.__code__)
        signal.pthread_kill(main, signal.SIGUSR1)
        time.sleep(0.05)
        release.set()

    before = signal.signal(signal.SIGUSR1, interrupt)
    holding = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        pool.submit(hold_lock, holding)
        holding.wait(DEADLINE_SECONDS)
        other = pool.submit(interrupt_and_release)
        with pytest.raises(InterruptedByTestError):
            store.set(b"p", b"k", b"v")
        assert store.get(b"p", b"k").value == b"v"
        other.result()
    signal.signal(signal.SIGUSR1, before)


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


def test_a_store_that_is_never_closed_lets_the_program_end(path: Path) -> None:
    code = (
        "import sys; from lakebed.kv import open_store\n"
        "store = open_store(sys.argv[1]); store.set(b'p', b'k', b'v')"
    )
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{path}"], check=True, timeout=60)
    with open_driver(path) as store:
        assert store.get(b"p", b"k").value == b"v"
