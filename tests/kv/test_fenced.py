"""What the fence does when the database never answers again, and when it is closed meanwhile."""

import os
from collections.abc import Callable
from threading import Event
from typing import NoReturn

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import ABSENT, KeyNotFound, OutcomeUnknown, StoreClosed, StoreUnavailable, fenced
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.fenced import Cell, CellDatabase, FencedStore
from lakebed.kv.store import puts
from tests.kit.growth import MemoryCells
from tests.kit.hand_clock import HandClock


class ScriptedCells(CellDatabase):
    """Cells in memory; what `on_swap` and `on_read` raise is raised before anything is done."""

    name = "scripted"
    limits = MemoryStore.limits
    shared_between_processes = False
    tombstone_seconds: float | None = 1000.0

    def __init__(self) -> None:
        self.cells: dict[bytes, Cell] = {}
        self.on_swap: list[Callable[[], None]] = []
        self.on_read: list[Callable[[], None]] = []
        self.closed = False

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        assert not self.closed
        if self.on_read:
            self.on_read.pop(0)()
        return self.cells.get(key)

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        assert not self.closed
        if self.on_swap:
            self.on_swap.pop(0)()
        there = self.cells.get(key)
        if (None if there is None else there.stamp) != stamp:
            return there
        self.cells[key] = new
        return new

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
        return sorted((key, cell) for key, cell in self.cells.items() if key >= start), None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        return [b"p"], None

    def close(self) -> None:
        self.closed = True


class KeyedCells(ScriptedCells):
    """Scripted cells that do something once before the next swap of a key."""

    def __init__(self) -> None:
        super().__init__()
        self.on_swap_of: dict[bytes, Callable[[], None]] = {}

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        self.on_swap_of.pop(key, lambda: None)()
        return super().swap(partition, key, stamp, new)


class GaveUpError(Exception):
    pass


def lose() -> None:
    raise OutcomeUnknown("no reply")


def refuse() -> None:
    raise StoreUnavailable("refused")


def test_a_fence_that_cannot_be_finished_ends_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fenced, "FENCE_SECONDS", 0.2)
    cells = ScriptedCells()
    cells.on_swap = [lose]
    cells.on_read = [refuse] * 1000
    told: list[str] = []

    def give_up() -> NoReturn:
        told.append("ended")
        raise GaveUpError

    store = FencedStore(cells, ThreadRuntime(), give_up=give_up)
    with pytest.raises(GaveUpError):
        store.set(b"p", b"key", b"value")
    assert told == ["ended"]


def test_the_process_ends_at_once_and_runs_nothing_more() -> None:
    child = os.fork()
    if child == 0:
        try:
            fenced.end_process()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == fenced.EXIT_CODE


def test_an_interrupted_write_is_fenced_before_it_raises() -> None:
    cells = ScriptedCells()
    store = FencedStore(cells, ThreadRuntime())
    version = store.set(b"p", b"key", b"old")

    def interrupt() -> None:
        raise KeyboardInterrupt

    cells.on_swap = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        store.set(b"p", b"key", b"new", version)
    cell = cells.cells[b"key"]
    assert (cell.version, cell.value) == (version, b"old")
    assert cell.stamp != version, "the lost request would still match"


def test_a_touch_leaves_the_version() -> None:
    cells = ScriptedCells()
    store = FencedStore(cells, ThreadRuntime())
    version = store.set(b"p", b"key", b"old")
    cells.on_swap = [lose]
    with pytest.raises(StoreUnavailable, match="was not applied"):
        store.set(b"p", b"key", b"new", version)
    assert store.get(b"p", b"key").predicate == version
    newer = store.set(b"p", b"key", b"newer", version)
    store.delete(b"p", b"key", newer)
    with pytest.raises(KeyNotFound):
        store.get(b"p", b"key")


def test_a_lost_create_renews_the_tombstone_that_it_finds() -> None:
    cells = ScriptedCells()
    store = FencedStore(cells, ThreadRuntime())
    store.set(b"p", b"key", b"value")
    store.delete(b"p", b"key")
    old = cells.cells[b"key"]
    cells.on_swap = [lose]
    with pytest.raises(OutcomeUnknown):
        store.set(b"p", b"key", b"new", ABSENT)
    new = cells.cells[b"key"]
    assert new.value is None
    assert new.stamp != old.stamp
    assert (new.expires or 0) > (old.expires or 0)


def test_a_store_that_is_closed_meanwhile_still_finishes_its_fence() -> None:
    cells = ScriptedCells()
    store = FencedStore(cells, ThreadRuntime())

    def close_and_lose() -> None:
        store.close()
        lose()

    cells.on_swap = [close_and_lose]
    with pytest.raises(StoreUnavailable, match="was not applied"):
        store.set(b"p", b"key", b"value")
    assert cells.cells[b"key"].value is None
    assert cells.closed
    with pytest.raises(StoreClosed):
        store.get(b"p", b"key")


def test_a_bulk_call_that_got_half_way_does_not_say_that_nothing_changed() -> None:
    cells = ScriptedCells()
    store = FencedStore(cells, ThreadRuntime())
    cells.on_swap = [refuse]
    with pytest.raises(StoreUnavailable):
        store.write(puts(b"p", [(b"only", b"value")]))
    items = [(b"%04d" % number, b"value") for number in range(1001)]
    cells.on_swap = [lambda: None] * 1000 + [refuse]
    with pytest.raises(OutcomeUnknown) as caught:
        store.write(puts(b"p", items))
    assert not isinstance(caught.value, StoreUnavailable)


def test_a_refused_value_does_not_hide_that_the_outcome_of_another_is_unknown() -> None:
    cells = KeyedCells()
    store = FencedStore(cells, ThreadRuntime())
    store.set(b"p", b"1", b"before")
    lost = Event()

    def refuse_later() -> None:
        assert lost.wait(30)
        refuse()

    def lose_now() -> None:
        lost.set()
        lose()

    cells.on_swap_of = {b"0": refuse_later, b"1": lose_now}
    with pytest.raises(OutcomeUnknown) as caught:
        store.write(puts(b"p", [(b"0", b"value"), (b"1", b"value")]))
    assert not isinstance(caught.value, StoreUnavailable)


def test_only_tombstones_of_a_database_that_keeps_them_are_erased() -> None:
    cells = MemoryCells(MemoryStore(ThreadRuntime()))
    store = FencedStore(cells, ThreadRuntime())
    store.write(puts(b"p", [(b"%d" % number, b"value") for number in range(9)]))
    for number in range(8):
        store.delete(b"p", b"%d" % number)
    assert store.drop_tombstones(b"p", b"2", 1, b"2\x00") is None
    assert cells.read(b"p", b"2") is None
    # The next tombstone may be younger.
    assert store.drop_tombstones(b"p", b"2", 1, b"2\x00") is None
    assert cells.read(b"p", b"3") is not None
    assert store.drop_tombstones(b"p", b"", 4) == b"5"
    cells.erases = False
    assert store.drop_tombstones(b"p", b"5", 4) is None
    left = [key for key, _ in cells.page(b"p", b"", 10)[0]]
    assert left == [b"5", b"6", b"7", b"8"]


@pytest.mark.parametrize(
    ("tombstone_seconds", "erases", "slept", "expected"),
    [
        (1000.0, False, 400.0, StoreUnavailable),
        (1000.0, False, 600.0, OutcomeUnknown),
        (None, False, 1e6, StoreUnavailable),
        (None, True, fenced.ERASED_SECONDS * 0.4, StoreUnavailable),
        (None, True, fenced.ERASED_SECONDS * 0.6, OutcomeUnknown),
        (1e6, True, fenced.ERASED_SECONDS * 0.6, OutcomeUnknown),
    ],
)
def test_an_absent_key_proves_nothing_after_a_long_sleep(
    tombstone_seconds: float | None, erases: bool, slept: float, expected: type[Exception]
) -> None:
    """The lost create may have been applied, deleted, and its tombstone removed meanwhile."""
    clock = HandClock()
    cells = ScriptedCells()
    cells.tombstone_seconds, cells.erases = tombstone_seconds, erases
    store = FencedStore(cells, clock)

    def sleep_and_lose() -> None:
        clock.sleep(slept)
        lose()

    cells.on_swap = [sleep_and_lose]
    with pytest.raises(OutcomeUnknown) as caught:
        store.set(b"p", b"key", b"value", ABSENT)
    assert type(caught.value) is expected
