"""Ranges: immutable files of entries, sorted by key."""

from typing import Final, NewType

import pyarrow as pa

from lakebed.formats.entries import ENTRY_SCHEMA
from lakebed.formats.parquet import FileType

RangeID = NewType("RangeID", str)
"""Names a range by its content: every row, every column."""

_RANGE: Final = FileType(
    "range",
    ENTRY_SCHEMA,
    dictionary_columns=("content_type",),
    statistics_columns=("key", "size", "mtime"),
)


def range_id(entries: pa.Table) -> RangeID:
    """Return the id of a range of these entries, as `conform_entries` returns them."""
    return RangeID(_RANGE.content_id(entries))


def encode_range(entries: pa.Table) -> bytes:
    """Return the file of a range of these entries, as `conform_entries` returns them."""
    return _RANGE.encode(entries)


def decode_range(data: bytes, range_id: RangeID, *, file: str) -> pa.Table:
    """Return the entries in a file, in one chunk, proven to be those of the range.

    Raises:
        DamagedFile: The file does not hold the range.
        ForeignFile: It is not a range, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _RANGE.decode(data, content_id=range_id, file=file)
