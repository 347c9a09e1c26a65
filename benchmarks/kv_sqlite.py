"""The sqlite driver, wrappers included, against bare `sqlite3` doing the same.

The two take turns in short rounds, so that other load on the machine meets both; the ratio is the
median of the rounds' ratios.
"""

import multiprocessing
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Self
from unittest.mock import patch

from benchmarks.report import Row
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv.drivers.sqlite.driver import SqliteStore
from lakebed.kv.drivers.sqlite.file import DatabaseFile
from lakebed.kv.drivers.sqlite.writer import SQLiteWriter
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import Store, puts

ROUNDS = 13
VALUE = bytes(200)
PARTITION = b"main-3f2504e0-4f89"
SLOW_DISK_SECONDS = 0.005

GET = "SELECT key, value, version FROM entries WHERE partition = ? AND key = ?"
SCAN = "SELECT key, value, version FROM entries WHERE partition = ? AND key >= ? ORDER BY key"
SET = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)"
SET_IF = """
    UPDATE entries SET value = ?, version = ? WHERE partition = ? AND key = ? AND version = ?
"""


@dataclass(frozen=True, slots=True)
class Speed:
    """What came out of the rounds of one comparison."""

    per_second: float
    ratio: float

    def row(self, operation: str, bar: float | None) -> Row:
        return Row(operation, "sqlite", self.per_second, self.ratio, bar)


def measure(*, scale: float) -> list[Row]:
    """Measure everything; `scale` 1 is the real thing, less is for seeing that it runs."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_measure_reads(Path(folder), scale),
            *_measure_writes(Path(folder), scale),
        ]


def key_of(number: int) -> bytes:
    return b"key/%08d" % number


@contextmanager
def open_both(path: Path) -> Iterator[tuple[SqliteStore, Store, sqlite3.Connection]]:
    """A store as `open_store` makes it, with its driver in reach, and a bare connection."""
    runtime = ThreadRuntime()
    driver = SqliteStore(DatabaseFile(path), runtime)
    with ManagedStore(driver, runtime) as store, closing(connect_bare(path)) as bare:
        yield driver, store, bare


def connect_bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def compare(
    ours: Callable[[], object], floor: Callable[[], object], ours_count: int, floor_count: int
) -> Speed:
    """Let the two take turns; speeds are calls per second."""
    speeds = []
    for _ in range(ROUNDS):
        floor_speed = floor_count / seconds(floor)
        ours_speed = ours_count / seconds(ours)
        speeds.append((ours_speed, ours_speed / floor_speed))
    return Speed(median(each[0] for each in speeds), median(each[1] for each in speeds))


def _measure_reads(folder: Path, scale: float) -> list[Row]:
    keys = max(100, int(200_000 * scale))
    gets = max(50, int(10_000 * scale))
    with open_both(folder / "reads.db") as (_, store, bare):
        store.write(puts(PARTITION, ((key_of(number), VALUE) for number in range(keys))))
        wanted = [key_of(number * 7919 % keys) for number in range(gets)]

        def get() -> None:
            for key in wanted:
                store.get(PARTITION, key)

        def get_bare() -> None:
            for key in wanted:
                bare.execute(GET, (PARTITION, key)).fetchone()

        def scan() -> None:
            for entry in store.scan(PARTITION):
                last = entry.key
            assert last == key_of(keys - 1)

        def scan_bare() -> None:
            for row in bare.execute(SCAN, (PARTITION, b"")):
                last = row[0]
            assert last == key_of(keys - 1)

        return [
            compare(get, get_bare, gets, gets).row("get", 0.5),
            compare(scan, scan_bare, keys, keys).row("scan", 0.6),
        ]


def _measure_writes(folder: Path, scale: float) -> list[Row]:
    writes = max(20, int(1000 * scale))
    each = max(5, int(300 * scale))
    path = folder / "writes.db"
    with open_both(path) as (driver, store, bare):
        rows = [_measure_set_if(store, bare, writes)]
        before = Count.of(driver)
        speed = compare(
            lambda: set_from_threads(store, 16, each),
            lambda: set_bare(bare, writes),
            16 * each,
            writes,
        )
        rows += _with_count("set, 16 threads", speed, Count.of(driver) - before, bar=1.7)
        with writing_processes(path, 2) as processes:
            speed = compare(
                lambda: processes.write(threads=8, writes=each),
                lambda: set_bare(bare, writes),
                16 * each,
                writes,
            )
        rows += _with_count("set, 2 processes x 8 threads", speed, processes.count, bar=1.4)
        rows.append(_measure_slow_disk(store, bare, max(2, int(25 * scale))))
    return rows


def _measure_slow_disk(store: Store, bare: sqlite3.Connection, writes: int) -> Row:
    commit = SQLiteWriter._commit  # noqa: SLF001 - the place where a disk is slow

    def commit_slowly(writer: SQLiteWriter) -> None:
        time.sleep(SLOW_DISK_SECONDS)
        commit(writer)

    with patch.object(SQLiteWriter, "_commit", commit_slowly):
        speed = compare(
            lambda: set_from_threads(store, 16, writes),
            lambda: set_bare(bare, writes, pause_seconds=SLOW_DISK_SECONDS),
            16 * writes,
            writes,
        )
    return speed.row("set, 16 threads, slow disk", 6)


def _with_count(operation: str, speed: Speed, count: "Count", *, bar: float) -> list[Row]:
    per_commit = count.writes / count.commits
    return [
        speed.row(operation, bar),
        Row("  writes per commit", "sqlite", speed.per_second / per_commit, per_commit, 6),
    ]


@dataclass(frozen=True, slots=True)
class Count:
    """Writes, and the commits that carried them."""

    writes: int = 0
    commits: int = 0

    @classmethod
    def of(cls, driver: SqliteStore) -> Self:
        return cls(driver.writer.writes, driver.writer.commits)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.writes + other.writes, self.commits + other.commits)

    def __sub__(self, other: "Count") -> "Count":
        return Count(self.writes - other.writes, self.commits - other.commits)


class Processes:
    """Processes that write to one file, each through a store of its own, when told to."""

    def __init__(self, pipes: list[Pipe]) -> None:
        self.count = Count()
        self._pipes = pipes

    def write(self, *, threads: int, writes: int) -> None:
        for pipe in self._pipes:
            pipe.send((threads, writes))
        for pipe in self._pipes:
            self.count += pipe.recv()


@contextmanager
def writing_processes(path: Path, count: int) -> Iterator[Processes]:
    context = multiprocessing.get_context("spawn")
    pipes = []
    children = []
    for _ in range(count):
        ours, theirs = context.Pipe()
        child = context.Process(target=write_when_told, args=(path, theirs))
        child.start()
        theirs.close()
        pipes.append(ours)
        children.append(child)
    processes = Processes(pipes)
    processes.write(threads=1, writes=1)  # returns when all have opened the file
    processes.count = Count()
    yield processes
    for pipe in pipes:
        pipe.close()
    for child in children:
        child.join()


def write_when_told(path: Path, pipe: Pipe) -> None:
    with open_both(path) as (driver, store, _):
        while True:
            try:
                threads, writes = pipe.recv()
            except EOFError:
                return
            before = Count.of(driver)
            set_from_threads(store, threads, writes)
            pipe.send(Count.of(driver) - before)


def _measure_set_if(store: Store, bare: sqlite3.Connection, writes: int) -> Row:
    state = {b"ours": store.set(PARTITION, b"ours", VALUE), b"bare": os.urandom(16)}
    bare.execute(SET, (PARTITION, b"bare", VALUE, state[b"bare"]))

    def set_if() -> None:
        version = store.get(PARTITION, b"ours").predicate
        for _ in range(writes):
            version = store.set(PARTITION, b"ours", VALUE, version)

    def set_if_bare() -> None:
        for _ in range(writes):
            fresh = os.urandom(16)
            parameters = (VALUE, fresh, PARTITION, b"bare", state[b"bare"])
            assert bare.execute(SET_IF, parameters).rowcount == 1
            state[b"bare"] = fresh

    return compare(set_if, set_if_bare, writes, writes).row("set_if", 0.5)


def set_from_threads(store: Store, threads: int, writes: int) -> None:
    def work(thread: int) -> None:
        for number in range(writes):
            store.set(PARTITION, key_of(thread * writes + number), VALUE)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def set_bare(bare: sqlite3.Connection, writes: int, *, pause_seconds: float = 0) -> None:
    for number in range(writes):
        row = (PARTITION, key_of(number), VALUE, os.urandom(16))
        if not pause_seconds:
            bare.execute(SET, row)
            continue
        bare.execute("BEGIN IMMEDIATE")
        bare.execute(SET, row)
        time.sleep(pause_seconds)
        bare.execute("COMMIT")
