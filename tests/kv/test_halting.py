"""A store that is marked as being copied: nobody opens it, and nobody goes on writing to it."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from lakebed.kv import ABSENT, Item, Store, StoreHalted, open_store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.halt import CHECK_SECONDS, HALT_KEY, Halt, Permit, Role
from lakebed.kv.managed import ManagedStore
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.kv.store import Put, puts
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.hand_clock import HandClock

ResultT = TypeVar("ResultT")

MARK = Halt(role=Role.SOURCE, copy_id="c", other="postgresql://new", since=0.0).encode()


def halting(permit: Permit | None = None) -> tuple[Store, MemoryStore, HandClock]:
    runtime = HandClock()
    driver = MemoryStore(runtime)
    return ManagedStore(driver, runtime, permit=permit or Permit()), driver, runtime


def test_a_process_that_has_the_store_open_stops_writing_soon() -> None:
    store, driver, runtime = halting()
    version = store.set(b"p", b"key", b"before")
    driver.set(METADATA_PARTITION, HALT_KEY, MARK)
    runtime.seconds += CHECK_SECONDS
    writes: list[Callable[[], object]] = [
        lambda: store.set(b"p", b"key", b"x"),
        lambda: store.set(b"p", b"key", b"x", version),
        lambda: store.set(b"p", b"new", b"x", ABSENT),
        lambda: store.delete(b"p", b"key"),
        lambda: store.delete(b"p", b"key", version),
        lambda: store.write(puts(b"p", [(b"key", b"x")])),
        lambda: store.write([Put(b"p", b"key", b"x")]),
        lambda: store.drop_tombstones(b"p", b"", 1),
    ]
    for write in writes:
        with pytest.raises(StoreHalted, match="copied to postgresql://new since 1970-01-01"):
            write()
    assert [item.value for item in store.scan(b"p")] == [b"before"]
    assert runtime.seconds == 1000.0 + CHECK_SECONDS, "it was tried again, which is of no use"


def test_a_look_at_the_mark_counts_from_before_it() -> None:
    """The mark may be written while the answer is on its way."""
    runtime = HandClock()

    class SlowStore(MemoryStore):
        def get(self, partition: bytes, key: bytes) -> Item:
            try:
                return super().get(partition, key)
            finally:
                runtime.seconds += CHECK_SECONDS

    driver = SlowStore(runtime)
    store = ManagedStore(driver, runtime, permit=Permit())
    store.set(b"p", b"key", b"before")
    driver.set(METADATA_PARTITION, HALT_KEY, MARK)
    with pytest.raises(StoreHalted):
        store.set(b"p", b"key", b"after")


def test_one_look_serves_many_writes() -> None:
    asked: list[StoreCall] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        asked.append(call)
        return apply()

    runtime = HandClock()
    store = ManagedStore(FaultyStore(MemoryStore(runtime), intercept), runtime, permit=Permit())
    for number in range(100):
        store.set(b"p", b"%d" % number, b"")
    assert [call.operation for call in asked if not call.writes] == ["get"]


def test_a_reading_store_refuses_writes() -> None:
    store, driver, _ = halting(Permit(reads_only=True))
    with pytest.raises(StoreHalted, match="read-only"):
        store.set(b"p", b"key", b"x")
    with pytest.raises(StoreHalted, match="read-only"):
        store.set(METADATA_PARTITION, HALT_KEY, b"x")
    assert list(driver.partitions()) == []


@pytest.mark.parametrize("mark", [MARK, b"\xff damaged", b"{}"])
def test_a_halted_store_is_not_opened(tmp_path: Path, mark: bytes) -> None:
    url = f"sqlite:///{tmp_path}/halted.db"
    open_store(url).close()
    with open_store(url, permit=Permit(flag=b"another")) as store:
        store.set(METADATA_PARTITION, HALT_KEY, mark)
    with pytest.raises(StoreHalted, match=r"copied to|damaged"):
        open_store(url)


def test_a_namespace_is_halted_alone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    with open_store(f"{url}?namespace=a") as store:
        store.set(METADATA_PARTITION, HALT_KEY, MARK)
    with pytest.raises(StoreHalted):
        open_store(f"{url}?namespace=a")
    open_store(f"{url}?namespace=b").close()
    open_store(url).close()
