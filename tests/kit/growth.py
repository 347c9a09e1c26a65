"""Uploads, commits and passes of the Cleaner, and how many keys a database keeps of them."""

from collections.abc import Callable

from lakebed.block import MemorySettings, open_block
from lakebed.engine.commits.requests import CommitRequest
from lakebed.kv import Store
from lakebed.kv.fenced import Cell, CellDatabase, FencedStore
from lakebed.kv.managed import ManagedStore
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.cleaner import Cleaner
from tests.kit.lake import MAIN, REPOSITORY, Lake, TurnableClock, make_lake

GRACE_SECONDS = 900.0
PASSES = 3
"""The first pass after the grace period deletes keys; the next two find that none is left."""

_COMMIT = CommitRequest(committer="ann", message="m")


class SleeplessClock(TurnableClock):
    """A clock of which sleeping moves the time on, without waiting."""

    def sleep(self, seconds: float) -> None:
        self.ahead_seconds += seconds


class NotingCells(CellDatabase):
    """A database of which every key that was ever written is known."""

    def __init__(self, inner: CellDatabase) -> None:
        self.name = inner.name
        self.limits = inner.limits
        self.shared_between_processes = inner.shared_between_processes
        self.tombstone_seconds = inner.tombstone_seconds
        self.erases = inner.erases
        self.written: set[tuple[bytes, bytes]] = set()
        self._inner = inner

    def count(self) -> int:
        """Return how many keys there are that the database will not remove by itself."""
        cells = [self._inner.read(*place) for place in self.written]
        return sum(cell is not None and self._stays(cell) for cell in cells)

    def _stays(self, cell: Cell) -> bool:
        return cell.value is not None or self.erases or self.tombstone_seconds is None

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        return self._inner.read(partition, key)

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        self.written.add((partition, key))
        return self._inner.swap(partition, key, stamp, new)

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        self._inner.erase(partition, key, stamp)

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
        return self._inner.page(partition, start, limit)

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return self._inner.partition_page(cursor)

    def close(self) -> None:
        self._inner.close()


class MemoryCells(CellDatabase):
    """A database in memory that removes no tombstone by itself."""

    name = "cells"
    shared_between_processes = False
    tombstone_seconds = None
    erases: bool = True

    def __init__(self, like: Store) -> None:
        self.limits = like.limits
        self._cells: dict[tuple[bytes, bytes], Cell] = {}

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        return self._cells.get((partition, key))

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        there = self.read(partition, key)
        if (None if there is None else there.stamp) != stamp:
            return there
        self._cells[partition, key] = new
        return new

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        if self._cells[partition, key].stamp == stamp:
            del self._cells[partition, key]

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
        found = sorted(key for of, key in self._cells if of == partition and key >= start)
        cells = [(key, self._cells[partition, key]) for key in found[:limit]]
        return cells, found[limit] if len(found) > limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return sorted({partition for partition, _ in self._cells}), None

    def close(self) -> None:
        pass


def check_growth(store: Store, *, rounds: int, uploads: int) -> None:
    """Make sure that each round of uploads, a commit and a pass adds nothing but the commit."""
    count = counting(store)
    with open_block(MemorySettings()) as block:
        lake = make_lake(store, block)
        clock = SleeplessClock()
        cleaner = Cleaner(store, clock, grace_seconds=GRACE_SECONDS)

        def play_round(name: str) -> None:
            upload_and_commit(lake, name, uploads)
            cleaner.run_once()
            clock.sleep(GRACE_SECONDS)
            for _ in range(PASSES):
                cleaner.run_once()

        play_round("first")
        before = count()
        for number in range(rounds):
            play_round(str(number))
    assert count() - before == rounds, "keys that a round leaves beside the record of its commit"


def upload_and_commit(lake: Lake, name: str, uploads: int) -> None:
    """Upload, delete some of it again, and commit."""
    paths = [f"{name}/{number}".encode() for number in range(uploads)]
    lake.clock.map_parallel(lambda path: lake.upload(path, "text"), paths, limit=4)
    for path in paths[::10]:
        lake.catalog.objects.delete(REPOSITORY, MAIN, path)
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, _COMMIT)


def counting(store: Store) -> Callable[[], int]:
    """Return a function that counts the keys of a database, tombstones included."""
    driver = store.driver if isinstance(store, ManagedStore) else store
    if isinstance(driver, FencedStore):
        driver._cells = cells = NotingCells(driver._cells)
        return cells.count
    return lambda: sum(1 for partition in store.partitions() for _ in store.scan(partition))
