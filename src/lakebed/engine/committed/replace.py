"""Replacement of key ranges of a metarange by those of another.

The keys are divided alternately into intervals to keep and to replace. To keep, the ranges of the
base are reused by id; to replace, the ranges of the replacement. Only a range across the end of an
interval is read, and only its rows inside are used. So the cost depends on the number of intervals,
not on their contents or surroundings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

from lakebed.engine.committed.apply import Builder
from lakebed.engine.committed.columns import prefix_end, successor
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import window
from lakebed.engine.errors import Invalid
from lakebed.formats import MetaRange, MetaRangeID


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

    Keys of the replacement outside of all intervals are left out.
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
