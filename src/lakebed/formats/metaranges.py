"""Metaranges: the list of the ranges that make up one commit's entries, in order of their keys."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NewType

import pyarrow as pa

from lakebed.formats.parquet import FileType, required
from lakebed.formats.ranges import RangeID

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


def metarange_id(table: pa.Table) -> MetaRangeID:
    """Return the id of a metarange with this content."""
    return MetaRangeID(_METARANGE.content_id(table))


EMPTY_METARANGE: Final = metarange_id(metarange_table([]))
"""The id of the metarange that holds nothing."""


def encode_metarange(table: pa.Table) -> bytes:
    """Return the file of a metarange with this content."""
    return _METARANGE.encode(table)


def decode_metarange(data: bytes, metarange_id: MetaRangeID, *, file: str) -> MetaRange:
    """Return the metarange in a file, proven to be the one named.

    Raises:
        DamagedFile: The file does not hold the metarange.
        ForeignFile: It is not a metarange, or (`FormatTooNew`) is one of a newer Lakebed.
    """
    table = _METARANGE.decode(data, content_id=metarange_id, file=file)
    columns = (column.to_pylist() for column in table.columns)
    return MetaRange(metarange_id, [RangeRef(*row) for row in zip(*columns, strict=True)])
