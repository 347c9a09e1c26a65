"""Differing rows of two versions of a table."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakebed.lake.errors import NotComparable
from lakebed.lake.preview.columns import cells, cut
from lakebed.lake.preview.tables import Rows

SHOWN_MAX: Final = 500

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A differing row: `left` before, `right` after."""

    kind: str
    """``added``, ``removed`` or ``changed``."""
    left: list[str | None] | None = None
    right: list[str | None] | None = None


@dataclass(slots=True, kw_only=True)
class RowDiff:
    """Differences between the rows of two tables."""

    columns: list[str]
    """Columns of both sides; each row has a value for each."""
    shared_columns: list[str]
    keys: list[str]
    """Columns that match rows of both sides; if empty, rows are only equal or not."""
    schema: list[str]
    """Differences of the columns, in words."""
    left_rows: int | None = None
    """Number of rows before, or None if unknown."""
    right_rows: int | None = None
    """Number of rows after, or None if unknown."""
    complete: bool = True
    """Whether all rows and columns were compared. If not, `added`, `removed` and `changed` are
    lower bounds, and the versions may differ even if no difference was found."""
    limit: str = ""
    """If not `complete`, the part of each version that was compared."""
    added: int = 0
    removed: int = 0
    changed: int = 0
    rows: list[RowChange] = field(default_factory=list)
    """The first differing rows."""
    note: str = ""


def diff_rows(left: Rows, right: Rows, keys: Sequence[str] = ()) -> RowDiff:
    """Compare two tables row by row.

    Rows are matched by `keys`, by default the first column with distinct values on each side, only
    if both sides have all of their rows: the first rows of two versions need not be the same rows.

    Raises `NotComparable` if a key is not a column of both sides, or not unique, or rows of a side
    are missing.
    """
    there = set(right.table.column_names)
    shared = [name for name in left.table.column_names if name in there]
    for key in keys:
        if key not in shared:
            raise NotComparable(
                f"'{key}' is not a column of both versions: choose among {', '.join(shared)}"
            )
    # A column hidden on one side only would differ in each row.
    known = {*shared, *_only_in(left, right)}
    columns = [name for name in left.table.column_names if name in known]
    columns += _only_in(right, left)
    limit = _limit(left, right)
    found = RowDiff(
        columns=columns,
        shared_columns=shared,
        keys=[],
        schema=_schema(left.schema, right.schema),
        left_rows=left.row_count,
        right_rows=right.row_count,
        complete=not limit,
        limit=limit,
    )
    if not (left.has_all_rows and right.has_all_rows):
        if keys:
            raise NotComparable(f"rows cannot be matched by {' and '.join(keys)}. {limit}")
        _compare_parts(found, left, right)
        return found
    found.keys = list(keys) or _find_key(left.table, right.table, shared)
    before, after = _rows(left.table, columns), _rows(right.table, columns)
    if not found.keys:
        _compare_whole(found, Counter(before), Counter(after))
        return found
    places = [columns.index(key) for key in found.keys]
    # A column of only one side does not count as a change of a row.
    compared = [columns.index(name) for name in shared]
    _compare_by_key(
        found, _by_key(before, places, found.keys), _by_key(after, places, found.keys), compared
    )
    return found


def _only_in(side: Rows, other: Rows) -> list[str]:
    """Return the columns read of a side that the other version does not have."""
    other_names = set(other.schema.names)
    return [name for name in side.table.column_names if name not in other_names]


def _limit(left: Rows, right: Rows) -> str:
    """Describe the compared part of each version; empty if both were compared completely."""
    parts = [*_missing("before", left), *_missing("after", right)]
    return " ".join(["Not everything was compared.", *parts]) if parts else ""


def _missing(name: str, side: Rows) -> Iterator[str]:
    if not side.has_all_rows:
        of = "" if side.row_count is None else f" of {side.row_count:,}"
        yield f"Version {name}: {side.table.num_rows:,}{of} rows read."
        if side.note:
            yield side.note
    if side.hidden_columns:
        yield f"Version {name}: {side.table.num_columns} of {len(side.schema)} columns read."


def _compare_parts(found: RowDiff, left: Rows, right: Rows) -> None:
    """Count the differences that are certain although rows of a side are missing.

    A row read of one side more often than the complete other side has was added or removed. Two
    incomplete sides allow no such conclusion: only the row counts are compared.
    """
    if left.has_all_rows or right.has_all_rows:
        before = Counter(_rows(left.table, found.columns))
        after = Counter(_rows(right.table, found.columns))
        if not left.has_all_rows:
            after &= before
        if not right.has_all_rows:
            before &= after
        _compare_whole(found, before, after)
    if left.row_count is not None:
        found.added = max(found.added, _rows_at_least(right) - left.row_count)
    if right.row_count is not None:
        found.removed = max(found.removed, _rows_at_least(left) - right.row_count)


def _rows_at_least(side: Rows) -> int:
    return side.table.num_rows if side.row_count is None else side.row_count


def _find_key(left: pa.Table, right: pa.Table, shared: list[str]) -> list[str]:
    for name in shared:
        if all(_is_unique(table.column(name)) for table in (left, right)):
            return [name]
    return []


def _is_unique(column: pa.ChunkedArray) -> bool:
    try:
        return len(column.unique()) == len(column) and column.null_count == 0
    except pa.ArrowException:
        return False  # nested values


def _schema(left: pa.Schema, right: pa.Schema) -> list[str]:
    before = {each.name: str(each.type) for each in left}
    after = {each.name: str(each.type) for each in right}
    found = [f"column added: {name} ({kind})" for name, kind in after.items() if name not in before]
    found += [f"column removed: {name}" for name in before if name not in after]
    found += [
        f"{name}: {before[name]} → {kind}"
        for name, kind in after.items()
        if before.get(name, kind) != kind
    ]
    return found


def _rows(table: pa.Table, columns: list[str]) -> list[Row]:
    missing = pa.nulls(table.num_rows, pa.string())
    there = set(table.column_names)
    wide = pa.table(
        [table.column(name) if name in there else missing for name in columns], names=columns
    )
    return [tuple(row) for row in cells(wide, is_cut=False)]


def _by_key(rows: list[Row], places: list[int], keys: list[str]) -> dict[Row, Row]:
    found = {tuple(row[at] for at in places): row for row in rows}
    if len(found) < len(rows):
        raise NotComparable(
            f"{' and '.join(keys)} do not identify rows uniquely: choose more key columns"
        )
    return found


def _compare_by_key(
    found: RowDiff, before: dict[Row, Row], after: dict[Row, Row], compared: list[int]
) -> None:
    for key, row in before.items():
        other = after.get(key)
        if other is None:
            found.removed += 1
            _show(found, RowChange(kind="removed", left=_shown(row)))
        elif any(row[at] != other[at] for at in compared):
            found.changed += 1
            _show(found, RowChange(kind="changed", left=_shown(row), right=_shown(other)))
    for key, row in after.items():
        if key not in before:
            found.added += 1
            _show(found, RowChange(kind="added", right=_shown(row)))


def _compare_whole(found: RowDiff, before: Counter[Row], after: Counter[Row]) -> None:
    counts = Counter(after)
    counts.subtract(before)
    for row, count in counts.items():
        if count > 0:
            found.added += count
            _show(found, RowChange(kind="added", right=_shown(row)))
        elif count < 0:
            found.removed -= count
            _show(found, RowChange(kind="removed", left=_shown(row)))


def _shown(row: Row) -> list[str | None]:
    """Truncate the cells of a row for display; comparison uses the full values."""
    return [None if text is None else cut(text) for text in row]


def _show(found: RowDiff, change: RowChange) -> None:
    if len(found.rows) < SHOWN_MAX:
        found.rows.append(change)
    elif not found.note:
        found.note = f"Only the first {SHOWN_MAX} differing rows are shown."
