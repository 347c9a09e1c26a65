"""Statistics of a table's columns, and formatting of values for people."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BINS_MAX: Final = 12
CELL_LENGTH_MAX: Final = 500
_STATISTICS_MAX: Final = 20_000
"""Maximum number of statistics read (one per column and row group)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Histogram of a column's values."""

    counts: list[int]
    """Counts of intervals of equal width, from the minimum to the maximum."""
    minimum: str
    maximum: str
    """Minimum and maximum of the counted values."""
    of: str
    """``file``, or ``rows`` if only the shown rows are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a shown table."""

    name: str
    type: str
    nulls: int | None = None
    """Of the whole file, or None if unknown."""
    minimum: str | None = None
    maximum: str | None = None
    """Of the whole file, or None if unknown."""
    histogram: Histogram | None = None


def describe(
    table: pa.Table, metadata: pq.FileMetaData | None = None, numbers: pa.Table | None = None
) -> list[Column]:
    """Return the columns of the shown rows.

    `metadata` is that of their Parquet file. `numbers` are the numeric columns, in order, with all
    rows of the file, if they were read.
    """
    known = {} if metadata is None else _file_statistics(metadata, table.schema)
    whole = None if numbers is None else iter(numbers.columns)
    found = []
    for field, column in zip(table.schema, table.columns, strict=True):
        histogram = None
        if is_number(field.type):
            histogram = (
                _histogram(column, "rows") if whole is None else _histogram(next(whole), "file")
            )
        facts = known.get(field.name, {})
        found.append(Column(name=field.name, type=str(field.type), histogram=histogram, **facts))
    return found


def is_number(kind: pa.DataType) -> bool:
    """Return whether columns of a type get a histogram."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _histogram(column: pa.ChunkedArray, of: str) -> Histogram | None:
    values = pc.drop_null(column).combine_chunks()
    if pa.types.is_floating(column.type):
        values = values.filter(pc.is_finite(values)).cast(pa.float64())
    if len(values) == 0:
        return None
    low, high = pc.min_max(values).as_py().values()
    if low == high:
        return None
    edges = _bin_edges(low, high)
    below = [pc.sum(pc.less(values, pa.scalar(each, values.type))).as_py() for each in edges]
    if not below:
        return None
    counts = [more - less for less, more in pairwise([0, *below, len(values)])]
    return Histogram(counts=counts, minimum=_limit(low), maximum=_limit(high), of=of)


def _bin_edges(low: float, high: float) -> list[object]:
    """Return the start of each interval after the first, or nothing if they would coincide."""
    if isinstance(low, int) and isinstance(high, int):
        # Integer widths: otherwise some intervals would contain no integer.
        width = -(-(high - low + 1) // BINS_MAX)
        return list(range(low + width, high + 1, width))
    share = (high - low) / BINS_MAX
    if not (math.isfinite(share) and low + share > low):
        return []
    return [low + share * at for at in range(1, BINS_MAX)]


def _limit(value: object) -> str:
    """Format a minimum or maximum.

    Parquet writers store a minimum of 0.0 as -0.0: show the positive zero.
    """
    return cell(value + 0.0 if isinstance(value, float) else value)


def _file_statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """Return minima, maxima and null counts, from the statistics of all row groups."""
    shown = set(schema.names)
    places = [
        at
        for at in range(metadata.num_columns)
        if metadata.schema.column(at).path in shown  # paths of nested columns differ from names
    ]
    if metadata.num_row_groups * len(places) > _STATISTICS_MAX:
        return {}
    found = {}
    for at in places:
        statistics = [
            metadata.row_group(group).column(at).statistics
            for group in range(metadata.num_row_groups)
        ]
        facts = _joined(statistics)
        if facts:
            found[metadata.schema.column(at).path] = facts
    return found


def _joined(statistics: list[Any]) -> dict[str, Any]:
    if not statistics or any(each is None for each in statistics):
        return {}
    facts: dict[str, Any] = {}
    if all(each.has_null_count for each in statistics):
        facts["nulls"] = sum(each.null_count for each in statistics)
    ranged = [each for each in statistics if each.has_min_max]
    if len(ranged) == len(statistics):
        try:
            facts["minimum"] = _limit(min(each.min for each in ranged))
            facts["maximum"] = _limit(max(each.max for each in ranged))
        except (TypeError, ValueError, OverflowError):
            facts.pop("minimum", None)  # values that Python cannot compare or format
    return facts


def cells(table: pa.Table, *, is_cut: bool = True) -> list[list[str | None]]:
    """Return the rows of a table as texts, truncated by default; None is a null."""
    columns = [_texts(column, cell if is_cut else _text) for column in table.columns]
    if not columns:
        return []
    return [list(row) for row in zip(*columns, strict=True)]


def _texts(column: pa.ChunkedArray, write: Callable[[object], str]) -> list[str | None]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        # For example, times before the year 1, which Python does not support.
        values = column.cast(pa.string()).to_pylist()
    return [None if value is None else write(value) for value in values]


def cell(value: object) -> str:
    """Format a value, truncated if long."""
    return cut(_text(value[:CELL_LENGTH_MAX] if isinstance(value, bytes) else value))


def cut(text: str) -> str:
    """Truncate a long text."""
    return text if len(text) <= CELL_LENGTH_MAX else f"{text[:CELL_LENGTH_MAX]}…"


def _text(value: object) -> str:
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    return str(value)


_WRITERS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (bytes, bytes.hex),
    (bool, lambda value: "true" if value else "false"),
    (datetime, lambda value: value.isoformat(sep=" ")),
    ((date, time), lambda value: value.isoformat()),
    ((dict, list, tuple), lambda value: json.dumps(value, default=_text, ensure_ascii=False)),
)
