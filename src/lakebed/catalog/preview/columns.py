"""What is known of the columns of a table, and how their values are written for people."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BINS: Final = 12
CELL_LENGTH_MAX: Final = 500
_STATISTICS_MAX: Final = 20_000
"""How many statistics (one for each column of a row group) are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table that is shown."""

    name: str
    type: str
    nulls: int | None = None
    """Of the whole file, if the file says so."""
    minimum: str | None = None
    maximum: str | None = None
    histogram: list[int] | None = None
    """How often the values of the rows that are shown occur, from the least to the greatest."""


def describe(table: pa.Table, metadata: pq.FileMetaData | None = None) -> list[Column]:
    """Return the columns of the rows that are shown; `metadata` is that of their Parquet file."""
    known = {} if metadata is None else _file_statistics(metadata, table.schema)
    found = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        facts = known.get(name, {})
        histogram = _histogram(column)
        found.append(Column(name=name, type=str(column.type), histogram=histogram, **facts))
    return found


def _histogram(column: pa.ChunkedArray) -> list[int] | None:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    values = pc.drop_null(column).cast(pa.float64(), safe=False).to_numpy()
    values = values[[math.isfinite(each) for each in values]] if len(values) else values
    if len(values) == 0 or values.min() == values.max():
        return None
    low, high = float(values.min()), float(values.max())
    width = (high - low) / BINS
    if not (math.isfinite(width) and width > 0):
        return None
    counts = [0] * BINS
    for value in values:
        counts[min(BINS - 1, int((value - low) / width))] += 1
    return counts


def _file_statistics(metadata: pq.FileMetaData, schema: pa.Schema) -> dict[str, dict[str, Any]]:
    """Return least and greatest values and nulls, from the statistics of all row groups."""
    shown = set(schema.names)
    places = [
        at
        for at in range(metadata.num_columns)
        if metadata.schema.column(at).path in shown  # nested columns have longer paths
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
            facts["minimum"] = cell(min(each.min for each in ranged))
            facts["maximum"] = cell(max(each.max for each in ranged))
        except (TypeError, ValueError, OverflowError):
            facts.pop("minimum", None)  # values that Python cannot compare, or show
    return facts


def cells(table: pa.Table) -> list[list[str | None]]:
    """Return the rows of a table as texts; None is a null."""
    columns = [_texts(column) for column in table.columns]
    if not columns:
        return []
    return [list(row) for row in zip(*columns, strict=True)]


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        # Moments before the year 1, for example, which Python does not have.
        values = column.cast(pa.string()).to_pylist()
    return [None if value is None else cell(value) for value in values]


def cell(value: Any) -> str:
    """Return a value as people read it; long ones are cut."""
    text = _text(value)
    return text if len(text) <= CELL_LENGTH_MAX else f"{text[:CELL_LENGTH_MAX]}…"


def _text(value: Any) -> str:
    for kinds, write in _WRITERS:
        if isinstance(value, kinds):
            return write(value)
    return str(value)


_WRITERS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (bytes, lambda value: value[:CELL_LENGTH_MAX].hex()),
    (bool, lambda value: "true" if value else "false"),
    (datetime, lambda value: value.isoformat(sep=" ")),
    ((date, time), lambda value: value.isoformat()),
    (
        (dict, list, tuple),
        lambda value: json.dumps(value, default=_text, ensure_ascii=False),
    ),
)
