"""Decoding tables in this process.

Input may be malicious: see `decoders` for isolation in a child process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from lakebed.lake.errors import PreviewTooLarge, UnreadableTable
from lakebed.lake.preview import tables
from lakebed.lake.preview.columns import Column, cells, describe
from lakebed.lake.preview.row_diff import RowDiff, diff_rows
from lakebed.lake.preview.tables import BoundedFile

COMPARED_ROWS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A preview of an object; the fields set depend on the kind."""

    kind: str
    """``table``, ``text``, ``markdown``, ``notebook``, ``image`` or ``none``."""
    format: str = ""
    columns: list[Column] = field(default_factory=list)
    hidden_columns: int = 0
    rows: list[list[str | None]] = field(default_factory=list)
    offset: int = 0
    row_count: int | None = None
    has_more: bool = False
    layout: dict[str, str] = field(default_factory=dict)
    note: str = ""
    text: str = ""
    truncated: bool = False
    tree: list[Any] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)
    reason: str = ""
    """Reason for an empty preview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A table to preview, or two to compare."""

    formats: list[str]
    """The format of each file, a key of `FORMATS`."""
    offset: int = 0
    limit: int = 0
    compare: bool = False
    """Whether to compare the rows of two files, instead of showing rows of one."""
    keys: list[str] = field(default_factory=list)


Decode = Callable[[Task, Sequence[BoundedFile]], Preview | RowDiff]
"""Executes a task on its files.

Raises `UnreadableTable`, `NotComparable`, `PreviewTooLarge`.
"""


def decode_here(task: Task, files: Sequence[BoundedFile]) -> Preview | RowDiff:
    """Decode tables in this process; see `Decode`."""
    try:
        return _compare(task, files) if task.compare else _show(task, files[0])
    except MemoryError as error:  # Arrow's, which is also an ArrowException
        raise PreviewTooLarge("showing this object takes too much memory: download it") from error
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise UnreadableTable(
            f"the object cannot be read as {task.formats[0]}: {reason}"
        ) from error


def _show(task: Task, file: BoundedFile) -> Preview:
    found = FORMATS[task.formats[0]](file, task.offset, task.limit)
    return Preview(
        kind="table",
        format=found.format,
        columns=describe(found.table, found.metadata, found.read_numbers()),
        hidden_columns=found.hidden_columns,
        rows=cells(found.table),
        offset=task.offset,
        row_count=found.row_count,
        has_more=found.has_more,
        layout=found.layout,
        note=found.note,
    )


def _compare(task: Task, files: Sequence[BoundedFile]) -> RowDiff:
    left, right = (
        FORMATS[kind](file, 0, COMPARED_ROWS_MAX)
        for kind, file in zip(task.formats, files, strict=True)
    )
    return diff_rows(left, right, task.keys)


Reader = Callable[[BoundedFile, int, int], tables.Rows]
FORMATS: Final[dict[str, Reader]] = {
    "parquet": tables.read_parquet,
    "arrow": tables.read_arrow,
    "csv": lambda file, offset, limit: tables.read_csv(file, offset, limit, delimiter=","),
    "tsv": lambda file, offset, limit: tables.read_csv(file, offset, limit, delimiter="\t"),
    "jsonl": tables.read_json_lines,
}
