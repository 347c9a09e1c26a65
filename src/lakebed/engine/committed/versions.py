"""Versions of entries: the changes between neighbouring states, merged by key.

Each state is a source of its changes since the next older state. A page merges the sources: for
each key its changes, newest first. A source is read only when the merge reaches its next change,
whose place the bounds of ranges tell. So a page reads the changed ranges around its keys.
"""

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.columns import prefix_end, successor
from lakebed.engine.committed.listing import (
    Block,
    Blocks,
    CommonPrefix,
    DiffEntry,
    EntryQuery,
    differences_of,
)

_PARALLEL: Final = 16
"""Sources read at a time."""


class ChangeBlocks(Blocks, Protocol):
    """The changes of a state, as rows by `DIFF_SCHEMA`."""

    def bound(self, key: bytes) -> bytes | None:
        """Return a key at or below the first row at or above a key, or None if there is none.

        The key is never below that of the previous call of `bound` or `seek`.
        """


class EntryVersion(NamedTuple):
    """A change of an entry."""

    state: int
    is_latest: bool
    """Whether no newer state changed the entry."""
    change: DiffEntry


class VersionItems(NamedTuple):
    """A page of versions and common prefixes."""

    items: list[EntryVersion | CommonPrefix]
    has_more: bool


def version_page(
    runtime: Runtime,
    sources: Mapping[int, ChangeBlocks],
    query: EntryQuery,
    *,
    resume_at: int | None = None,
) -> VersionItems:
    """Return the first versions of a query; the smallest numbers of `sources` are the newest.

    With `resume_at`, begin with the versions of the key `query.after` from this source on: the
    previous page ended among them.
    """
    start = query.first_key()
    if resume_at is not None and query.folded(query.after) is None:
        start = max(query.after, query.prefix)
    if start is None:
        return VersionItems([], has_more=False)
    merge = _Merge(runtime, sources, query, start)
    shown: list[tuple[int, bool] | CommonPrefix] = []
    rows: list[pa.Table] = []
    place: bytes | None = start
    while place is not None and (found := merge.next(place)) is not None:
        key, versions = found
        if len(shown) == query.amount:
            return _page(shown, rows, has_more=True)
        common = query.folded(key)
        if common is not None:
            shown.append(CommonPrefix(common))
            place = prefix_end(common)
            continue
        latest = versions[0]
        if resume_at is not None and key == query.after:
            versions = [each for each in versions if each >= resume_at]
        kept = versions[: query.amount - len(shown)]
        shown += [(number, number == latest) for number in kept]
        rows += [merge.row(number) for number in kept]
        if len(kept) < len(versions):
            return _page(shown, rows, has_more=True)
        place = successor(key)
    return _page(shown, rows, has_more=False)


class _Merge:
    """The next key of each source, or a bound of it while the source need not be read."""

    def __init__(
        self, runtime: Runtime, sources: Mapping[int, ChangeBlocks], query: EntryQuery, start: bytes
    ) -> None:
        self._runtime = runtime
        self._sources = sources
        self._query = query
        self._blocks: dict[int, tuple[Block, int]] = {}
        self._bounds: list[tuple[bytes, int]] = []
        self._keys: list[tuple[bytes, int]] = []
        self._taken: list[int] = []
        for number in sources:
            self._add_bound(number, start)

    def next(self, start: bytes) -> tuple[bytes, list[int]] | None:
        """Return the first key from `start` on with its sources in order, or None at the end.

        Of a common prefix, return any of its keys: the first key may be in an unread source.
        """
        for number in self._taken:
            self._add_bound(number, start)
        for heap in (self._keys, self._bounds):
            while heap and heap[0][0] < start:
                self._add_bound(heappop(heap)[1], start)
        while self._bounds and not self._is_first(self._bounds[0][0]):
            self._look_up(self._bounds[0][0])
        if not self._keys:
            return None
        key = self._keys[0][0]
        self._taken = _take(self._keys, len(self._keys))
        return key, self._taken

    def _is_first(self, bound: bytes) -> bool:
        """Whether the first known key is, or folds into, the first item of sources with a bound."""
        if not self._keys:
            return False
        key = self._keys[0][0]
        common = self._query.folded(key)
        return key < bound or (common is not None and bound.startswith(common))

    def row(self, number: int) -> pa.Table:
        """Return the row at the source's key."""
        block, row = self._blocks[number]
        return block.rows(row, row + 1)

    def _add_bound(self, number: int, start: bytes) -> None:
        bound = self._sources[number].bound(start)
        if bound is not None:
            heappush(self._bounds, (bound, number))

    def _look_up(self, bound: bytes) -> None:
        """Replace the bounds of some sources by keys; the sources are read in parallel."""

        def seek(number: int) -> Block | None:
            return self._sources[number].seek(bound)

        numbers = _take(self._bounds, _PARALLEL)
        for number, block in zip(numbers, self._runtime.map_parallel(seek, numbers), strict=True):
            if block is not None:
                row = block.keys.find(bound)
                self._blocks[number] = block, row
                heappush(self._keys, (block.keys[row], number))


def _take(heap: list[tuple[bytes, int]], amount: int) -> list[int]:
    """Remove and return the sources of the first key or bound, in order, at most `amount`."""
    first = heap[0][0]
    taken: list[int] = []
    while heap and heap[0][0] == first and len(taken) < amount:
        taken.append(heappop(heap)[1])
    return taken


def _page(
    shown: list[tuple[int, bool] | CommonPrefix], rows: list[pa.Table], *, has_more: bool
) -> VersionItems:
    changes = iter(differences_of(pa.concat_tables(rows)) if rows else ())
    items = [
        each if isinstance(each, CommonPrefix) else EntryVersion(*each, next(changes))
        for each in shown
    ]
    return VersionItems(items, has_more)
