"""Ranges: immutable files of entries, sorted by key.

Every column has a field id, and the keys of a file are marked as UTF-8 if all of them are. So
readers of Iceberg tables take a range as a data file, and use its bounds. Neither is part of the id
of a range, which depends on the values alone.
"""

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

_FIELD_ID: Final = b"PARQUET:field_id"


def _with_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(field_id)})


# Ids stand for columns forever: a new column gets a new one.
_FIELD_IDS: Final = {name: number for number, name in enumerate(ENTRY_SCHEMA.names, 1)}
_MAP_TYPE: Final = ENTRY_SCHEMA.field("metadata").type
_MAP_WITH_IDS: Final = pa.map_(
    _with_id(_MAP_TYPE.key_field, 101), _with_id(_MAP_TYPE.item_field, 102)
)
_WITH_IDS: Final = pa.schema(
    _with_id(
        field.with_type(_MAP_WITH_IDS) if field.name == "metadata" else field,
        _FIELD_IDS[field.name],
    )
    for field in ENTRY_SCHEMA
)
_WITH_TEXT: Final = _WITH_IDS.set(0, _WITH_IDS.field("key").with_type(pa.string()))


def range_id(entries: pa.Table) -> RangeID:
    """Return the id of a range of these entries, as `conform_entries` returns them."""
    return RangeID(_RANGE.content_id(entries))


def encode_range(entries: pa.Table) -> bytes:
    """Return the file of a range of these entries, as `conform_entries` returns them."""
    key = entries.column("key")
    try:
        key, schema = key.cast(pa.string()), _WITH_TEXT
    except pa.ArrowInvalid:  # a key that is not UTF-8
        schema = _WITH_IDS
    return _RANGE.encode(pa.Table.from_arrays([key, *entries.columns[1:]], schema=schema))


def decode_range(data: bytes, range_id: RangeID, *, file: str) -> pa.Table:
    """Return the entries in a file, in one chunk, proven to be those of the range.

    Raises:
        DamagedFile: The file does not hold the range.
        ForeignFile: It is not a range, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    return _RANGE.decode(data, content_id=range_id, file=file)
