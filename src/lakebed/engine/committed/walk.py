"""Parallel walks over several metaranges.

First by ranges: `align` groups overlapping ranges, so that ranges shared by two sides can be
decided by their ids. For the rest by rows: `side_by_side` reads the ranges of a group, one of each
side at a time, and yields the rows of all sides between the same two keys. `diff` does both.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.columns import diff_rows, successor
from lakebed.engine.committed.files import Files
from lakebed.formats import ENTRY_SCHEMA, MetaRange, RangeRef

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

Group = tuple[list[RangeRef], ...]
"""For each side its directly or indirectly overlapping ranges, or none."""

NO_ENTRIES: Final = ENTRY_SCHEMA.empty_table()

# A caller may want only the first results; the more it consumes, the more is read ahead.
_MOST_AHEAD: Final = 4


def align(sides: Sequence[Sequence[RangeRef]]) -> Iterator[Group]:
    """Split the ranges of all sides into the smallest groups without overlap between groups.

    A shared range overlaps no other range of its sides. So with two sides, a shared range is always
    a group.
    """
    places = [0] * len(sides)
    while True:
        heads = [
            side[place] for side, place in zip(sides, places, strict=True) if place < len(side)
        ]
        if not heads:
            return
        group: Group = tuple([] for _ in sides)
        highest = min(ref.min_key for ref in heads)
        grown = True
        while grown:
            grown = False
            for number, side in enumerate(sides):
                while places[number] < len(side) and side[places[number]].min_key <= highest:
                    ref = side[places[number]]
                    group[number].append(ref)
                    highest = max(highest, ref.max_key)
                    places[number] += 1
                    grown = True
        yield group


def distinct(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """Yield each item when it comes for the first time."""
    seen: set[ItemT] = set()
    for item in items:
        if item not in seen:
            seen.add(item)
            yield item


def window(metarange: MetaRange, start: bytes, end: bytes | None) -> Sequence[RangeRef]:
    """Return the ranges that can have keys from `start` (inclusive) to `end` (exclusive)."""
    first = metarange.position(start)
    last = len(metarange.refs) if end is None else metarange.position(end, first) + 1
    return metarange.refs[first:last]


def side_by_side(
    files: Files, group: Group, start: bytes = b"", end: bytes | None = None
) -> Iterator[tuple[pa.Table, ...]]:
    """Yield the rows of all sides in steps: each step has the rows between the same two keys.

    Only keys from `start` (inclusive) to `end` (exclusive).
    """
    if not start and end is None and all(len(refs) <= 1 for refs in group):
        # No steps needed: each range is read whole.
        yield tuple(files.range(refs[0].range_id).table if refs else NO_ENTRIES for refs in group)
        return
    rest = [list(reversed(refs)) for refs in group]
    while any(rest):
        upto = successor(min(refs[-1].max_key for refs in rest if refs))
        stop = upto if end is None else min(upto, end)
        yield tuple(_rows(files, refs, start, stop) for refs in rest)
        if stop == end:
            return
        start = max(start, upto)


def _rows(files: Files, refs: list[RangeRef], start: bytes, stop: bytes) -> pa.Table:
    """Return the last range's rows; drop the range if it ends before `stop`, read it if needed."""
    if not refs or refs[-1].min_key >= stop:
        return NO_ENTRIES
    ref = refs[-1]
    if ref.max_key < stop:
        refs.pop()
    if ref.max_key < start:
        return NO_ENTRIES
    return files.range(ref.range_id).between(start, stop)


def map_ahead(
    runtime: Runtime, function: Callable[[ItemT], ResultT], items: Iterable[ItemT]
) -> Iterator[ResultT]:
    """Yield the results of a function in order; first one at a time, then several in parallel."""
    rest = iter(items)
    size = 1
    while batch := list(islice(rest, size)):
        results = deque(runtime.map_parallel(function, batch, limit=size))
        # Free items and results, which may be large, as soon as they are used.
        batch.clear()
        while results:
            yield results.popleft()
        size = min(2 * size, _MOST_AHEAD)


def diff(
    files: Files,
    runtime: Runtime,
    left: MetaRange,
    right: MetaRange,
    *,
    start: bytes = b"",
    end: bytes | None = None,
) -> Iterator[pa.Table]:
    """Yield differences as non-empty tables by `DIFF_SCHEMA`, in key order.

    Ranges shared by both sides are not read.
    """
    groups = differing_groups(left, right, start, end)
    found = map_ahead(runtime, lambda group: [*diff_steps(files, group, start, end)], groups)
    for tables in found:
        yield from tables


def differing_groups(
    left: MetaRange, right: MetaRange, start: bytes, end: bytes | None
) -> Iterator[Group]:
    """Yield the groups of ranges that differ between the sides."""
    for group in align([window(left, start, end), window(right, start, end)]):
        if group[0] != group[1]:
            yield group


def diff_steps(files: Files, group: Group, start: bytes, end: bytes | None) -> Iterator[pa.Table]:
    """Yield the differences in one group of ranges; no table is empty."""
    for sides in side_by_side(files, group, start, end):
        found = diff_rows(*sides)
        del sides  # a caller can suspend a thousand of these walks
        if found.num_rows:
            yield found
