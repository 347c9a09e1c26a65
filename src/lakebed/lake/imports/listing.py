"""Ordered listing of a namespace with parallel requests.

A storage lists page after page, each a round trip. So the paths are split after folders of the
namespace, and several of these intervals are listed in parallel, each up to a limit. They are then
consumed in order; an interval that reached its limit continues from there.

An interval ends *with* the path of a folder, slash included: an object of that name, which some
tools create to mark a folder, is listed exactly once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.block import Address, BlockStore, Namespace
from lakebed.block.listing import AddressRange, list_range

_AT_ONCE: Final = 8
_ROWS_MAX: Final = 20_000
"""Number of rows to prefetch of an interval, which limits memory."""
_ROWS_MIN: Final = 1_000
"""About a page of a listing: if intervals have fewer objects, more folders are merged into one."""
_FOLDERS_MAX: Final = 1_024


@dataclass(frozen=True, slots=True)
class _Listed:
    batches: list[pa.RecordBatch]
    rest: AddressRange | None
    """The interval not listed yet, or None."""

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


def list_in_order(
    block: BlockStore, runtime: Runtime, namespace: Namespace, after: Address | None
) -> Iterator[pa.RecordBatch]:
    """Yield the objects after an address; columns and order as of `BlockStore.list_objects`."""

    def list_some(interval: AddressRange) -> _Listed:
        return _list_some(block, namespace, interval)

    folders = block.list_folders(namespace)
    together = 1
    start: Address | None = after
    while True:
        intervals: list[AddressRange] = []
        while len(intervals) < _AT_ONCE and (end := _end_of(namespace, folders, together, start)):
            intervals.append(AddressRange(start, str(end)))
            start = end
        if not intervals:
            yield from list_range(block, namespace, AddressRange(start, None))
            return
        listed = runtime.map_parallel(list_some, intervals, limit=_AT_ONCE)
        if sum(each.rows for each in listed) < _ROWS_MIN * len(listed):
            together = min(4 * together, _FOLDERS_MAX)
        for each in listed:
            yield from each.batches
            if each.rest is not None:
                yield from list_range(block, namespace, each.rest)


def _end_of(
    namespace: Namespace, folders: Iterator[str], together: int, start: Address | None
) -> Address | None:
    """Return the end of an interval of `together` folders, or None after the last folder."""
    while some := list(islice(folders, together)):
        end = namespace.address(f"{some[-1]}/")
        if start is None or end > start:
            return end
    return None


def _list_some(block: BlockStore, namespace: Namespace, interval: AddressRange) -> _Listed:
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in list_range(block, namespace, interval):
        batches.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_MAX:
            last = Address.parse(batch.column("address")[-1].as_py())
            return _Listed(batches, replace(interval, after=last))
    return _Listed(batches, None)
