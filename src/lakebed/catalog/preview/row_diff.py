"""Which rows of two versions of a table differ."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakebed.catalog.errors import NotComparable
from lakebed.catalog.preview.columns import cells

SHOWN_MAX: Final = 500

Row = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A row that differs: `left` before, `right` after."""

    kind: str
    """``added``, ``removed`` or ``changed``."""
    left: list[str | None] | None = None
    right: list[str | None] | None = None


@dataclass(slots=True, kw_only=True)
class RowDiff:
    """How the rows of two tables differ."""

    columns: list[str]
    """Of both sides; each row has a value for each."""
    shared_columns: list[str]
    keys: list[str]
    """The columns that say which rows belong together; none: rows are equal or not."""
    schema: list[str]
    """How the columns differ, in words."""
    added: int = 0
    removed: int = 0
    changed: int = 0
    rows: list[RowChange] = field(default_factory=list)
    """The first that differ."""
    note: str = ""


def diff_rows(left: pa.Table, right: pa.Table, keys: Sequence[str] = ()) -> RowDiff:
    """Compare two tables row by row.

    Args:
        left: Before.
        right: After.
        keys: The columns that say which rows belong together; none: the first column whose values
            differ in all rows of each side, if there is one.

    Raises:
        NotComparable: A key is not a column of both, or does not tell rows apart.
    """
    shared = [name for name in left.column_names if name in set(right.column_names)]
    for key in keys:
        if key not in shared:
            raise NotComparable(
                f"'{key}' is not a column of both versions: choose among {', '.join(shared)}"
            )
    columns = left.column_names + [name for name in right.column_names if name not in shared]
    chosen = list(keys) or _guess(left, right, shared)
    found = RowDiff(
        columns=columns, shared_columns=shared, keys=chosen, schema=_schema(left, right)
    )
    before, after = _rows(left, columns), _rows(right, columns)
    if not chosen:
        _compare_whole(found, before, after)
        return found
    places = [columns.index(key) for key in chosen]
    # A column that only one side has is no change of a row.
    compared = [columns.index(name) for name in shared]
    _compare_by_key(
        found, _by_key(before, places, chosen), _by_key(after, places, chosen), compared
    )
    return found


def _guess(left: pa.Table, right: pa.Table, shared: list[str]) -> list[str]:
    for name in shared:
        if all(_tells_apart(table.column(name)) for table in (left, right)):
            return [name]
    return []


def _tells_apart(column: pa.ChunkedArray) -> bool:
    try:
        return len(column.unique()) == len(column) and column.null_count == 0
    except pa.ArrowException:
        return False  # nested values


def _schema(left: pa.Table, right: pa.Table) -> list[str]:
    before = {each.name: str(each.type) for each in left.schema}
    after = {each.name: str(each.type) for each in right.schema}
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
    return [tuple(row) for row in cells(wide)]


def _by_key(rows: list[Row], places: list[int], keys: list[str]) -> dict[Row, Row]:
    found = {tuple(row[at] for at in places): row for row in rows}
    if len(found) < len(rows):
        raise NotComparable(
            f"{' and '.join(keys)} do not tell all rows apart: choose more key columns"
        )
    return found


def _compare_by_key(
    found: RowDiff, before: dict[Row, Row], after: dict[Row, Row], compared: list[int]
) -> None:
    for key, row in before.items():
        other = after.get(key)
        if other is None:
            found.removed += 1
            _show(found, RowChange(kind="removed", left=list(row)))
        elif any(row[at] != other[at] for at in compared):
            found.changed += 1
            _show(found, RowChange(kind="changed", left=list(row), right=list(other)))
    for key, row in after.items():
        if key not in before:
            found.added += 1
            _show(found, RowChange(kind="added", right=list(row)))


def _compare_whole(found: RowDiff, before: list[Row], after: list[Row]) -> None:
    counts = Counter(after)
    counts.subtract(before)
    for row, count in counts.items():
        if count > 0:
            found.added += count
            _show(found, RowChange(kind="added", right=list(row)))
        elif count < 0:
            found.removed -= count
            _show(found, RowChange(kind="removed", left=list(row)))


def _show(found: RowDiff, change: RowChange) -> None:
    if len(found.rows) < SHOWN_MAX:
        found.rows.append(change)
    elif not found.note:
        found.note = f"Only the first {SHOWN_MAX} rows that differ are shown."
