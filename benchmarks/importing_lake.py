"""Lakes that are not there: a storage makes up their listing while it is asked for it."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LIST_SCHEMA, Address, BlockStore, LocalSettings, Namespace
from lakebed.block.drivers.local.store import LocalBlockStore
from lakebed.reclaim.collector.storage import Storage

PLACE: Final = Namespace.parse("local://generated/lake")
_EVENTS: Final = PLACE.folder("events")
_BATCH: Final = 10_000
_DAY: Final = 50_000
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHIFTS: Final = np.arange(60, -1, -4, dtype=np.uint64)
_IN_DAY: Final = re.compile(r"day=(\d+)/(?:part-(\d+))?")


class GeneratedStore(LocalBlockStore):
    """Local storage, and a namespace whose objects are made up while they are listed."""

    objects = 0
    has_folders = False

    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        if namespace != PLACE:
            return super().list_objects(namespace, start_after=start_after)
        return listing(self.objects, _behind(start_after, self.objects))

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        if namespace not in (PLACE, _EVENTS):
            return super().list_folders(namespace)
        if not self.has_folders:
            return iter(())
        if namespace == PLACE:
            return iter(["events"])
        return (f"day={day:06d}" for day in range(-(-self.objects // _DAY)))


class GeneratedStorage(Storage):
    """The same, as executors of Spark open it; its name says how many objects there are."""

    @property
    def block(self) -> BlockStore:
        assert isinstance(self.settings, LocalSettings)
        return _opened(self.settings.root, int(self.settings.root.name))


@cache
def _opened(root: Path, objects: int) -> GeneratedStore:
    store = GeneratedStore(root, ThreadRuntime())
    store.objects, store.has_folders = objects, True
    return store


def _behind(address: Address | None, objects: int) -> int:
    """Return the first number whose object lies behind an address."""
    if address is None or str(address) == str(_EVENTS):
        return 0
    found = _IN_DAY.search(str(address))
    assert found is not None, address
    day, part = found.groups()
    return min(objects, int(part) + 1 if part else int(day) * _DAY)


def listing(objects: int, begin: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield a listing of so many objects, in order of their paths."""
    for first in range(begin, objects, _BATCH):
        numbers = pa.array(np.arange(first, min(first + _BATCH, objects), dtype=np.int64))
        digits = pc.utf8_lpad(numbers.cast(pa.string()), 10, "0")
        days = pc.utf8_lpad(pc.divide(numbers, _DAY).cast(pa.string()), 6, "0")
        addresses = pc.binary_join_element_wise(
            f"{PLACE}events/day=", days, "/part-", digits, ".parquet", ""
        )
        mixed = (numbers.to_numpy().astype(np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
        etags = _etags(mixed)
        mtimes = pa.array(mixed.astype(np.int64) % 10**15, pa.int64()).cast(
            LIST_SCHEMA.field("mtime").type
        )
        sizes = pa.array((mixed % np.uint64(10**9)).astype(np.int64))
        yield pa.record_batch([addresses, sizes, mtimes, etags], schema=LIST_SCHEMA)


def _etags(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Write each number as sixteen hex digits, and again from behind."""
    digits = _HEX[(numbers[:, None] >> _SHIFTS) & np.uint64(15)]
    texts = np.concatenate([digits, digits[:, ::-1]], axis=1)
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(texts.shape[1])
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(texts))
