"""Ranges and metaranges: the files of committed entries.

A metarange lists the ranges of a commit's entries, ordered by key. A metarange of level 0 lists
ranges. A metarange of level 1 lists metaranges of level 0, with the same columns; its id covers the
level. Level 1 is read and not written yet: it will save small commits to very large repositories
from writing the list of all ranges.

A range is an immutable file of entries, sorted by key. Every column has a field id, and the keys of
a file are marked as UTF-8 if all of them are. So readers of Iceberg tables can use a range as a
data file with bounds. Neither affects the id of a range, which depends only on the values.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NewType

import pyarrow as pa

from lakebed.base.errors import quoted
from lakebed.formats.entries import ENTRY_SCHEMA
from lakebed.formats.errors import DamagedFile, FormatTooNew
from lakebed.formats.files import FileType, check_id, content_id, required

RangeID = NewType("RangeID", str)
"""Content id of a range: every row, every column."""

_RANGE: Final = FileType(
    "range",
    ENTRY_SCHEMA,
    dictionary_columns=("content_type",),
    statistics_columns=("key", "size", "mtime"),
)

_FIELD_ID: Final = b"PARQUET:field_id"


def _with_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({_FIELD_ID: str(field_id)})


# Field ids are permanent: a new column gets a new id.
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
    """Return the id of a range of conformed entries."""
    return RangeID(_RANGE.content_id(entries))


def encode_range(entries: pa.Table) -> bytes:
    """Return the file of a range of conformed entries."""
    key = entries.column("key")
    try:
        key, schema = key.cast(pa.string()), _WITH_TEXT
    except pa.ArrowInvalid:  # a key is not UTF-8
        schema = _WITH_IDS
    return _RANGE.encode(pa.Table.from_arrays([key, *entries.columns[1:]], schema=schema))


def decode_range(data: bytes, range_id: RangeID, *, file: str) -> pa.Table:
    """Return the entries in a file, in one chunk, after verifying the id."""
    return _RANGE.decode(data, content_id=range_id, file=file)


MetaRangeID = NewType("MetaRangeID", str)
"""Content id of a metarange, covering every entry of every range."""

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
"""Highest supported level."""


@dataclass(frozen=True, slots=True)
class RangeRef:
    """A row of a metarange: a range."""

    range_id: RangeID
    min_key: bytes
    max_key: bytes
    count: int
    """Number of entries; at least one."""
    size_bytes: int
    """Size of the entries' values, not of the file: ids must not depend on compression."""


class MetaRange:
    """The ranges of one commit, ordered by key, with search by key."""

    __slots__ = ("_max_keys", "metarange_id", "refs")

    def __init__(self, metarange_id: MetaRangeID, refs: Sequence[RangeRef]) -> None:
        self.metarange_id = metarange_id
        self.refs = refs
        self._max_keys = [ref.max_key for ref in refs]

    @property
    def count(self) -> int:
        return sum(ref.count for ref in self.refs)

    def position(self, key: bytes, start: int = 0) -> int:
        """Return the index of the first range, from `start` on, with a key of at least `key`."""
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
"""Id of the empty metarange."""


def encode_metarange(table: pa.Table, level: int = 0) -> bytes:
    """Return the file of a metarange with this content."""
    return _METARANGE.encode(table, {_LEVEL: str(level)})


def decode_metarange(
    data: bytes, wanted: MetaRangeID, *, file: str, read: Callable[[MetaRangeID], MetaRange]
) -> MetaRange:
    """Return the metarange in a file, with its ranges, after verifying the id.

    `read` is called for each metarange listed in a metarange of level 1.
    """
    table, metadata = _METARANGE.read(data, file=file)
    level = _level_of(metadata.get(_LEVEL.encode(), b"0"), file)
    check_id(metarange_id(table, level), wanted, file=file)
    columns = (column.to_pylist() for column in table.columns)
    refs = [RangeRef(*row) for row in zip(*columns, strict=True)]
    if level:
        refs = [ref for listed in refs for ref in _ranges_of(listed, read, file)]
    return MetaRange(wanted, refs)


def _level_of(mark: bytes, file: str) -> int:
    if not mark.isdigit():
        raise DamagedFile(file, f"invalid level {quoted(mark)}")
    if int(mark) > LEVEL_MAX:
        raise FormatTooNew(
            file,
            f"has level {int(mark)}, and this Lakebed reads up to {LEVEL_MAX}: use a newer Lakebed",
        )
    return int(mark)


def _ranges_of(
    listed: RangeRef, read: Callable[[MetaRangeID], MetaRange], file: str
) -> Sequence[RangeRef]:
    """Return the ranges of a metarange listed at level 1, after checking its keys and count."""
    refs = read(MetaRangeID(listed.range_id)).refs
    found = (refs[0].min_key, refs[-1].max_key, sum(ref.count for ref in refs)) if refs else None
    if found != (listed.min_key, listed.max_key, listed.count):
        raise DamagedFile(file, f"metarange {listed.range_id} has other keys than listed")
    return refs
