"""Ranges and metaranges: the files of committed entries.

A metarange lists the ranges that make up one commit's entries, in order of their keys. A metarange
of level 0 lists ranges. One of level 1 lists metaranges of level 0, by the same columns; its id
covers the level. Level 1 is read and not written yet: it will keep small commits to very large
repositories from writing the list of all ranges.

A range is an immutable file of entries, sorted by key. Every column has a field id, and the keys of
a file are marked as UTF-8 if all of them are. So readers of Iceberg tables take a range as a data
file, and use its bounds. Neither is part of the id of a range, which depends on the values alone.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NewType

import pyarrow as pa

from lakebed.base.errors import quoted
from lakebed.formats.entries import ENTRY_SCHEMA
from lakebed.formats.errors import DamagedFile, FormatTooNew
from lakebed.formats.parquet import FileType, check_id, content_id, required

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


MetaRangeID = NewType("MetaRangeID", str)
"""Names a metarange by its content, and so every entry of every range in it."""

METARANGE_SCHEMA: Final = pa.schema(
    [
        required("range_id", pa.string()),
        required("min_key", pa.binary()),
        required("max_key", pa.binary()),
        required("count", pa.int64()),
        required("size_bytes", pa.int64()),
    ]
)

_METARANGE: Final = FileType("metarange", METARANGE_SCHEMA, statistics_columns=())
_LEVEL: Final = "lakebed.level"
LEVEL_MAX: Final = 1
"""The highest level that is read; metaranges of a higher one are refused."""


@dataclass(frozen=True, slots=True)
class RangeRef:
    """A range as its metarange knows it."""

    range_id: RangeID
    min_key: bytes
    """Its first key."""
    max_key: bytes
    """Its last key."""
    count: int
    """Its number of entries; at least one."""
    size_bytes: int
    """The size of its entries' values. Not of its file: ids must not hang on compression."""


class MetaRange:
    """The ranges of one commit, in order of their keys, and where to find a key among them."""

    __slots__ = ("_max_keys", "metarange_id", "refs")

    def __init__(self, metarange_id: MetaRangeID, refs: Sequence[RangeRef]) -> None:
        self.metarange_id = metarange_id
        self.refs = refs
        self._max_keys = [ref.max_key for ref in refs]

    @property
    def count(self) -> int:
        """The number of entries."""
        return sum(ref.count for ref in self.refs)

    def position(self, key: bytes, start: int = 0) -> int:
        """Return the index of the first range, from `start` on, with a key not below this one."""
        return bisect_left(self._max_keys, key, start)


def metarange_table(refs: Sequence[RangeRef]) -> pa.Table:
    """Return the content of a metarange of these ranges."""
    columns = {name: [getattr(ref, name) for ref in refs] for name in METARANGE_SCHEMA.names}
    return pa.table(columns, schema=METARANGE_SCHEMA)


def metarange_id(table: pa.Table, level: int = 0) -> MetaRangeID:
    """Return the id of a metarange with this content."""
    kind = f"{_METARANGE.name} of level {level}" if level else _METARANGE.name
    return MetaRangeID(content_id(kind, table))


EMPTY_METARANGE: Final = metarange_id(metarange_table([]))
"""The id of the metarange that holds nothing."""


def encode_metarange(table: pa.Table, level: int = 0) -> bytes:
    """Return the file of a metarange with this content."""
    return _METARANGE.encode(table, {_LEVEL: str(level)})


def decode_metarange(
    data: bytes,
    wanted: MetaRangeID,
    *,
    file: str,
    read: Callable[[MetaRangeID], MetaRange],
) -> MetaRange:
    """Return the metarange in a file, proven to be the one named, with its ranges.

    Args:
        data: All bytes of the file.
        wanted: The id that the file is named by.
        file: The name of the file in errors.
        read: Called for each metarange that one of level 1 lists.

    Raises:
        DamagedFile: The file does not hold the metarange.
        ForeignFile: It is not a metarange, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    table, marks = _METARANGE.read(data, file=file)
    level = _level_of(marks.get(_LEVEL.encode(), b"0"), file)
    check_id(metarange_id(table, level), wanted, file=file)
    columns = (column.to_pylist() for column in table.columns)
    refs = [RangeRef(*row) for row in zip(*columns, strict=True)]
    if level:
        refs = [ref for listed in refs for ref in _ranges_of(listed, read, file)]
    return MetaRange(wanted, refs)


def _level_of(mark: bytes, file: str) -> int:
    if not mark.isdigit():
        raise DamagedFile(file, f"its level is {quoted(mark)}")
    if int(mark) > LEVEL_MAX:
        raise FormatTooNew(
            file,
            f"is a metarange of level {int(mark)}, and this Lakebed reads up to {LEVEL_MAX}: use a"
            " newer Lakebed",
        )
    return int(mark)


def _ranges_of(
    listed: RangeRef, read: Callable[[MetaRangeID], MetaRange], file: str
) -> Sequence[RangeRef]:
    """Return the ranges of a metarange that one of level 1 lists, proven to fit its line."""
    refs = read(MetaRangeID(listed.range_id)).refs
    found = (refs[0].min_key, refs[-1].max_key, sum(ref.count for ref in refs)) if refs else None
    if found != (listed.min_key, listed.max_key, listed.count):
        raise DamagedFile(file, f"the metarange {listed.range_id} in it has other keys")
    return refs
