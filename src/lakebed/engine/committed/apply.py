"""Apply sorted changes to a metarange.

Changes come as a stream of windows. Ranges of the base without changes are reused by id; the rest
are read and edited, several in parallel. A window may end inside a range: the rows before are
edited with this window, the rows after with the next.

**Builder.** Builds a metarange from left to right, from rows and existing ranges. Writing, applying
changes and merging all use it. So all cut rows into ranges by the same rules (see
`lakebed.formats.boundaries`), and the same rows make the same metarange, regardless of their
origin.

A range is reused unread if the previous one is closed, even a range of an earlier version, which
cut by larger breaks. If rows are pending at the end of an open range, the rows of the next range
join them, and the boundaries are the old ones again from the next key that ends a range.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, Self

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.batches import Batch, entry_windows
from lakebed.engine.committed.columns import (
    NO_EDITS,
    ChangeCounts,
    Edits,
    SortedKeys,
    apply_rows,
    prefix_end,
    successor,
)
from lakebed.engine.committed.files import Files, NewRange
from lakebed.engine.committed.walk import NO_ENTRIES, map_ahead, window
from lakebed.engine.errors import Invalid
from lakebed.formats import MetaRange, MetaRangeID, RangeRef
from lakebed.formats.boundaries import Breaks, Cutter, ref_of
from lakebed.formats.files import one_array, table_bytes

# Finished ranges are collected and written in parallel, within these bounds.
_PENDING_RANGES: Final = 8
_PENDING_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Saved:
    """Saved progress of an ingest."""

    metarange_id: MetaRangeID
    last_key: bytes
    """Resume with the keys after this one; empty to start at the beginning."""


class Builder:
    """Collects rows and ranges in key order, and stores their metarange."""

    def __init__(
        self,
        files: Files,
        breaks: Breaks,
        runtime: Runtime,
        *,
        inputs: Iterable[MetaRange] = (),
        cached: bool = True,
    ) -> None:
        """Start an empty metarange, to which ranges of `inputs` can be added.

        `cached` is False if many ranges will be written, which would evict the rest from the cache.
        """
        self.breaks = breaks
        self._files = files
        self._runtime = runtime
        self._cached = cached
        # Only the last range of a metarange can have ended for lack of rows.
        lasts = [metarange.refs[-1] for metarange in inputs if metarange.refs]
        self._unclosed = {ref.range_id for ref in lasts if not breaks.is_closed(ref)}
        self._refs: list[RangeRef | None] = []
        self._pending: list[tuple[int, pa.Table]] = []
        self._pending_bytes = 0
        self._cutter = Cutter(breaks)

    def add_range(self, ref: RangeRef) -> None:
        """Add a range of one of the inputs; keys must rise."""
        self._reopen()
        if self._cutter.is_open:
            self._push_range(ref)
        else:
            self._refs.append(ref)

    def add_rows(self, table: pa.Table, candidates: Sequence[bytes] | None = None) -> None:
        """Add sorted entries; keys must rise.

        With `candidates`, only these keys can end a range by their hash: see `Range.candidates`.
        """
        if table.num_rows:
            self._reopen()
            self._push(table, candidates)

    @property
    def closed_ranges(self) -> int:
        return len(self._refs)

    def save_closed(self) -> Saved:
        """Store a metarange of the closed ranges, and continue building.

        Excludes pending rows of an open range. At its end, the state of cutting is empty: a builder
        that starts with these ranges and adds the remaining rows gets the same metarange.
        """
        self._flush()
        refs = [ref for ref in self._refs if ref is not None]
        return Saved(self._files.save_metarange(refs), refs[-1].max_key if refs else b"")

    def finish(self) -> MetaRangeID:
        """Store the last ranges and the metarange, in parallel; return its id."""
        if self._cutter.is_open:
            self._close(self._cutter.close())
        unsaved = self._name_pending()
        return self._files.save_metarange([ref for ref in self._refs if ref is not None], unsaved)

    def _reopen(self) -> None:
        """Continue the last range if it ended only for lack of rows."""
        last = self._refs[-1] if self._refs else None
        if last is not None and last.range_id in self._unclosed:
            self._refs.pop()
            self._push_range(last)

    def _push_range(self, ref: RangeRef) -> None:
        found = self._files.range(ref.range_id)
        self._push(found.table, found.candidates(self.breaks))

    def _push(self, rows: pa.Table, candidates: Sequence[bytes] | None) -> None:
        for closed in self._cutter.add(rows.combine_chunks(), candidates):
            self._close(closed)

    def _close(self, rows: pa.Table) -> None:
        self._pending.append((len(self._refs), rows))
        self._refs.append(None)
        self._pending_bytes += table_bytes(rows)
        if len(self._pending) >= _PENDING_RANGES or self._pending_bytes >= _PENDING_BYTES:
            self._flush()

    def _flush(self) -> None:
        named = self._name_pending()
        save = partial(self._files.save_range, keep=self._cached)
        self._runtime.map_parallel(save, named, limit=_PENDING_RANGES)

    def _name_pending(self) -> list[NewRange]:
        """Return the pending ranges, with their references entered into the metarange."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0

        named = self._runtime.map_parallel(
            lambda rows: NewRange(ref_of(rows), rows, self.breaks),
            (rows.combine_chunks() for _, rows in pending),
            limit=_PENDING_RANGES,
        )
        for (place, _), new in zip(pending, named, strict=True):
            self._refs[place] = new.ref
        return named


@dataclass(frozen=True, slots=True)
class Applied:
    """Result of applying changes."""

    metarange_id: MetaRangeID
    """The base itself if no entry changed."""
    summary: ChangeCounts
    """Counts of changes; empty, and so false, if nothing changed."""


@dataclass(frozen=True, slots=True)
class _Portion:
    """Ranges to reuse, then rows of one range to edit."""

    untouched: list[RangeRef]
    ref: RangeRef | None = None
    """The range to edit, or None behind the last."""
    start: bytes = b""
    """Rows below this key are done."""
    stop: bytes | None = None
    """Rows from this key on come later."""
    edits: Edits = field(default=NO_EDITS)


@dataclass(frozen=True, slots=True)
class _Edited:
    untouched: list[RangeRef]
    rows: pa.Table
    candidates: list[bytes] | None
    """The keys that may end a range, for `Builder.add_rows`."""
    summary: ChangeCounts


def apply(
    files: Files, runtime: Runtime, builder: Builder, base: MetaRange, windows: Iterable[Edits]
) -> Applied:
    """Build and store the metarange of a base with windows of changes applied; none is empty."""

    def edit(portion: _Portion) -> _Edited:
        rows, candidates = NO_ENTRIES, portion.edits.few_put_keys
        if portion.ref is not None:
            found = files.range(portion.ref.range_id)
            rows = found.between(portion.start, portion.stop)
            candidates = found.candidates(builder.breaks, candidates)
        rows, summary = apply_rows(rows, portion.edits)
        return _Edited(portion.untouched, rows, candidates, summary)

    total = ChangeCounts()
    for edited in map_ahead(runtime, edit, _plan(base, windows)):
        for ref in edited.untouched:
            builder.add_range(ref)
        builder.add_rows(edited.rows, edited.candidates)
        total += edited.summary
    if not total:
        return Applied(base.metarange_id, total)
    return Applied(builder.finish(), total)


def _plan(base: MetaRange, windows: Iterable[Edits]) -> Iterator[_Portion]:
    """Split base and changes into portions that can be edited independently, in order."""
    refs, place, start = base.refs, 0, b""
    untouched: list[RangeRef] = []
    for edits in windows:
        puts, removals = SortedKeys(one_array(edits.puts, "key")), SortedKeys(edits.removals)
        last_key = max(keys[-1] for keys in (puts, removals) if keys)
        put = removal = 0
        while put < len(puts) or removal < len(removals):
            if place < len(refs) and start <= refs[place].min_key:
                heads = ((puts, put), (removals, removal))
                next_key = min(keys[at] for keys, at in heads if at < len(keys))
                first = base.position(next_key, place)
                untouched += refs[place:first]
                place = first
            ref = refs[place] if place < len(refs) else None
            stop = None if ref is None else successor(min(ref.max_key, last_key))
            next_put = len(puts) if stop is None else puts.find(stop, put)
            next_removal = len(removals) if stop is None else removals.find(stop, removal)
            taken = Edits(
                edits.puts.slice(put, next_put - put),
                edits.removals.slice(removal, next_removal - removal),
            )
            yield _Portion(untouched, ref, start, stop, taken)
            put, removal, untouched = next_put, next_removal, []
            if ref is not None and stop is not None:
                start = stop
                place += last_key >= ref.max_key
    if place < len(refs) and start > refs[place].min_key:
        yield _Portion(untouched, refs[place], start)
        untouched, place = [], place + 1
    yield _Portion([*untouched, *refs[place:]])


class Ingest:
    """Resumable ingest of many sorted entries: progress is saved, and survives the process.

    A metarange of the closed ranges records the progress. Any process can resume from it, with the
    entries after `last_key`, and produces the same metarange as an uninterrupted ingest.
    """

    def __init__(self, builder: Builder, so_far: MetaRange) -> None:
        """Continue a metarange returned by `save`, or an empty one."""
        self._builder = builder
        self.last_key = b""
        """The last key added, or empty."""
        self.count = 0
        """Number of entries added, including those of the initial ranges."""
        for ref in so_far.refs:
            builder.add_range(ref)
            self.last_key = ref.max_key
        self.count = so_far.count

    def add(self, batch: Batch) -> None:
        """Add entries; ranges are written as they fill up. Raises as `Committed.write`."""
        for entries in entry_windows([batch], after=self.last_key):
            self._builder.add_rows(entries)
            self.last_key = entries.column("key")[-1].as_py()
            self.count += entries.num_rows

    @property
    def closed_ranges(self) -> int:
        """Number of closed ranges, which `save` would store."""
        return self._builder.closed_ranges

    def save(self) -> Saved:
        return self._builder.save_closed()

    def finish(self) -> MetaRangeID:
        return self._builder.finish()


@dataclass(frozen=True, slots=True)
class Interval:
    """The keys from `start` (inclusive) to `end` (exclusive)."""

    start: bytes
    end: bytes | None
    """None for no upper bound."""

    @classmethod
    def of_prefix(cls, prefix: bytes) -> Self:
        return cls(prefix, prefix_end(prefix))

    @classmethod
    def of_key(cls, key: bytes) -> Self:
        return cls(key, successor(key))

    def overlaps(self, other: "Interval") -> bool:
        return (self.end is None or other.start < self.end) and (
            other.end is None or self.start < other.end
        )

    def __contains__(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


def replace(
    files: Files,
    builder: Builder,
    *,
    base: MetaRange,
    replacement: MetaRange,
    intervals: Sequence[Interval],
) -> MetaRangeID:
    """Build and store the base with sorted, disjoint intervals replaced.

    Keys of the replacement outside of all intervals are left out. Ranges are reused by id; only a
    range across the end of an interval is read. So the cost depends on the number of intervals, not
    on their contents or surroundings.
    """
    for left, right in pairwise(intervals):
        if left.overlaps(right) or right.start < left.start:
            raise Invalid(f"the intervals {left} and {right} overlap or are unsorted")
    for metarange, interval in _divide(base, replacement, intervals):
        for ref in window(metarange, interval.start, interval.end):
            if ref.min_key in interval and ref.max_key in interval:
                builder.add_range(ref)
            elif interval.end is None or ref.min_key < interval.end:
                rows = files.range(ref.range_id).between(interval.start, interval.end)
                builder.add_rows(rows)
    return builder.finish()


def _divide(
    base: MetaRange, replacement: MetaRange, intervals: Sequence[Interval]
) -> Iterator[tuple[MetaRange, Interval]]:
    """Yield intervals that cover all keys in order, each with its metarange."""
    start: bytes | None = b""
    for interval in intervals:
        assert start is not None, "an interval without an end is the last one"
        if start < interval.start:
            yield base, Interval(start, interval.start)
        yield replacement, interval
        start = interval.end
    if start is not None:
        yield base, Interval(start, None)
