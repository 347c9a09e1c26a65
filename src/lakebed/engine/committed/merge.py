"""Three-way merge of metaranges.

Changes since the base by only one side are taken from this side. For equal changes by both sides,
the destination's entry stays. Different changes are a conflict. Most of the merge is decided by
whole ranges: where the destination has the ranges of the base, the source's are taken by id,
unread, and vice versa. Rows are read only where both have other ranges.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.apply import Builder
from lakebed.engine.committed.batches import regroup
from lakebed.engine.committed.columns import apply_rows, join_edits, split_changes
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import Group, align, map_ahead, side_by_side
from lakebed.engine.errors import MergeConflict
from lakebed.formats import MetaRange, MetaRangeID, RangeRef
from lakebed.formats.boundaries import Breaks


class Strategy(Enum):
    """The side that wins if both changed an entry, instead of a conflict."""

    SOURCE_WINS = "source-wins"
    DEST_WINS = "dest-wins"


@dataclass(frozen=True, slots=True)
class _Segment:
    """Ranges to reuse, then ranges whose rows are to be merged."""

    settled: list[RangeRef]
    group: Group


@dataclass(frozen=True, slots=True)
class _Merged:
    settled: list[RangeRef]
    rows: list[pa.Table]
    conflicts: list[pa.Table]
    candidates: list[bytes] | None
    """The keys that may end a range, for `Builder.add_rows`, or None for any."""


def merge(
    files: Files,
    runtime: Runtime,
    builder: Builder,
    base: MetaRange,
    source: MetaRange,
    destination: MetaRange,
    *,
    strategy: Strategy | None,
) -> MetaRangeID:
    """Build and store the merge of three metaranges; raise `MergeConflict` if needed."""
    conflicts: list[pa.Table] = []
    segments = _segments(align([base.refs, source.refs, destination.refs]))
    merge_rows = partial(_merge_rows, files, builder.breaks, strategy)
    for merged in map_ahead(runtime, merge_rows, segments):
        conflicts += merged.conflicts
        if conflicts and strategy is None:
            continue  # nothing will be built, but all conflicts must be found
        for ref in merged.settled:
            builder.add_range(ref)
        for rows in regroup(merged.rows):
            builder.add_rows(rows, merged.candidates)
    if conflicts and strategy is None:
        raise MergeConflict(pa.concat_tables(conflicts))
    return builder.finish()


def is_long(base: MetaRange, source: MetaRange, destination: MetaRange, *, long_rows: int) -> bool:
    """Whether a merge must read at least `long_rows` rows; reads nothing to find out."""
    rows = 0
    for segment in _segments(align([base.refs, source.refs, destination.refs])):
        rows += sum(ref.count for side in segment.group for ref in side)
        if rows >= long_rows:
            return True
    return False


def count_conflicts(
    files: Files, runtime: Runtime, base: MetaRange, source: MetaRange, destination: MetaRange
) -> int:
    """Return the number of keys changed differently on both sides; builds nothing."""

    def count(segment: _Segment) -> int:
        found = 0
        for before, theirs, ours in side_by_side(files, segment.group):
            found += split_changes(before, theirs, ours)[2].num_rows
        return found

    segments = _segments(align([base.refs, source.refs, destination.refs]))
    return sum(map_ahead(runtime, count, segments))


def _segments(groups: Iterable[Group]) -> Iterator[_Segment]:
    settled: list[RangeRef] = []
    for group in groups:
        whole = _settle(*group)
        if whole is not None:
            settled += whole
        else:
            yield _Segment(settled, group)
            settled = []
    yield _Segment(settled, ([], [], []))


def _settle(
    base: list[RangeRef], source: list[RangeRef], destination: list[RangeRef]
) -> list[RangeRef] | None:
    """Return the ranges a group merges to if their ids decide this, or None."""
    if source in (base, destination):
        return destination
    if destination == base:
        return source
    return None


def _merge_rows(
    files: Files, breaks: Breaks, strategy: Strategy | None, segment: _Segment
) -> _Merged:
    all_rows: list[pa.Table] = []
    all_conflicts: list[pa.Table] = []
    put_keys: list[bytes] | None = []
    for base, source, destination in side_by_side(files, segment.group):
        free, contested, conflicts = split_changes(base, source, destination)
        if conflicts.num_rows:
            all_conflicts.append(conflicts)
        edits = join_edits(free, contested) if strategy is Strategy.SOURCE_WINS else free
        rows, _ = apply_rows(destination, edits)
        all_rows.append(rows)
        put = edits.few_put_keys
        put_keys = None if put_keys is None or put is None else put_keys + put
    candidates = _candidates(files, breaks, segment.group[2], put_keys)
    return _Merged(segment.settled, all_rows, all_conflicts, candidates)


def _candidates(
    files: Files, breaks: Breaks, destination: list[RangeRef], put_keys: list[bytes] | None
) -> list[bytes] | None:
    if len(destination) == 1:
        return files.range(destination[0].range_id).candidates(breaks, put_keys)
    # Several ranges have several such keys: knowing them does not help.
    return None if destination else put_keys
