"""Differences between two metaranges."""

from collections.abc import Iterator

import pyarrow as pa

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.columns import diff_rows
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import Group, align, map_ahead, side_by_side, window
from lakebed.formats import MetaRange


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

    def diff_group(group: Group) -> list[pa.Table]:
        return list(diff_steps(files, group, start, end))

    for tables in map_ahead(runtime, diff_group, differing_groups(left, right, start, end)):
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
    for left_rows, right_rows in side_by_side(files, group, start, end):
        found = diff_rows(left_rows, right_rows)
        if found.num_rows:
            yield found
