"""Applying sorted changes to a metarange.

Changes come as a stream, window by window. For each window the ranges of the base are gone through:
a range without changes is passed on by its id; the others are read and edited, several at the same
time. A window may end inside a range: the rows up to there are edited with this window, the others
with the next.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.builder import Builder
from lakebed.engine.committed.columns import (
    NO_EDITS,
    ChangeCounts,
    Edits,
    SortedKeys,
    apply_rows,
    successor,
)
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import NO_ENTRIES, map_ahead
from lakebed.formats import MetaRange, MetaRangeID, RangeRef
from lakebed.formats.entries import one_array


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of applying changes."""

    metarange_id: MetaRangeID
    """The base's own, if nothing changed."""
    summary: ChangeCounts
    """What changed; empty, and so false, if nothing did."""


@dataclass(frozen=True, slots=True)
class _Portion:
    """Ranges to pass on as they are, then rows of one range to edit."""

    untouched: list[RangeRef]
    ref: RangeRef | None = None
    """The range to edit; None behind the last one."""
    start: bytes = b""
    """Its rows below this key are done."""
    stop: bytes | None = None
    """Its rows from this key on come later."""
    edits: Edits = field(default=NO_EDITS)


@dataclass(frozen=True, slots=True)
class _Edited:
    """What a portion becomes."""

    untouched: list[RangeRef]
    rows: pa.Table
    candidates: list[bytes] | None
    """The keys that may end a range, for `Builder.add_rows`."""
    summary: ChangeCounts


def apply(
    files: Files, runtime: Runtime, builder: Builder, base: MetaRange, windows: Iterable[Edits]
) -> Applied:
    """Build and store the metarange that windows of changes make of a base; none is empty."""

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
