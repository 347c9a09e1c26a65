"""Entries: metadata of the objects in a commit, as rows and as Python values.

Keys are ordered by their bytes. No column has nulls: unknown values are empty.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.errors import InvalidEntries
from lakebed.formats.files import one_array, required

_TEXT_MAP: Final = pa.map_(pa.string(), required("value", pa.string()))

ENTRY_SCHEMA: Final = pa.schema(
    [
        required("key", pa.binary()),
        required("identity", pa.binary()),
        required("address", pa.string()),
        required("address_type", pa.int8()),
        required("size", pa.int64()),
        required("checksum", pa.string()),
        required("mtime", pa.timestamp("us", tz="UTC")),
        required("content_type", pa.string()),
        required("metadata", _TEXT_MAP),
    ]
)
"""Columns of entries, in ranges and in batches."""

CHANGE_SCHEMA: Final = pa.schema(
    [
        *(field if field.name == "key" else field.with_nullable(True) for field in ENTRY_SCHEMA),
        required("tombstone", pa.bool_()),
    ]
)
"""Columns of changes to entries. In a tombstone (a removal) only the key counts."""

KEY_BYTES_MAX: Final = 1024
"""Maximum length of a key in bytes."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class AddressType(IntEnum):
    """How to read an entry's address; files contain the number."""

    RELATIVE = 0
    """Relative to the storage namespace of the repository."""

    FULL = 1
    """A full address, inside or outside the namespace."""


# Calling the enum would take as long as reading the number.
_ADDRESS_TYPES: Final = {int(each): each for each in AddressType}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An object in a commit."""

    key: bytes
    """Path in the repository."""
    identity: bytes
    """Fingerprint of the content, independent of its location: equal identities mean no change."""
    address: str
    address_type: AddressType
    size: int
    """In bytes."""
    checksum: str
    mtime: datetime
    """In UTC, to the microsecond."""
    content_type: str
    metadata: Mapping[str, str]
    """User metadata, ordered by key when read from a range."""


class _Bytes:
    """A column of bytes or strings with fast access to single values.

    Creating an Arrow object for a value takes several times as long as reading it.
    """

    __slots__ = ("_bounds", "_data", "_first")

    def __init__(self, array: pa.Array) -> None:
        _, bounds, data = array.buffers()
        self._first = array.offset
        self._bounds = memoryview(bounds or b"").cast("i")
        self._data = memoryview(data or b"")

    def __getitem__(self, row: int) -> memoryview:
        place = self._first + row
        return self._data[self._bounds[place] : self._bounds[place + 1]]


def _numbers(array: pa.Array, format_: Literal["b", "i", "q"]) -> memoryview:
    """Return the numbers of a column with values of the width of `format_`."""
    _, data = array.buffers()
    return memoryview(data or b"").cast(format_)[array.offset :]


class EntryRows:
    """A table with the columns of `ENTRY_SCHEMA` and fast access to single rows.

    Its columns are looked up once: a lookup takes longer than reading a row.
    """

    __slots__ = ("_bytes", "_metadata", "_metadata_ends", "_numbers")

    def __init__(self, table: pa.Table) -> None:
        """Take the columns of a table, joining chunks."""
        columns = {name: one_array(table, name) for name in ENTRY_SCHEMA.names}
        names = ("key", "identity", "address", "checksum", "content_type")
        self._bytes = [_Bytes(columns[name]) for name in names]
        self._numbers = (
            _numbers(columns["address_type"], "b"),
            _numbers(columns["size"], "q"),
            _numbers(columns["mtime"], "q"),
        )
        self._metadata = columns["metadata"]
        self._metadata_ends = _numbers(self._metadata.offsets, "i")

    def __getitem__(self, row: int) -> Entry:
        key, identity, address, checksum, content_type = self._bytes
        address_type, size, mtime = self._numbers
        ends = self._metadata_ends
        return Entry(
            key=bytes(key[row]),
            identity=bytes(identity[row]),
            address=str(address[row], "utf-8"),
            address_type=_ADDRESS_TYPES[address_type[row]],
            size=size[row],
            checksum=str(checksum[row], "utf-8"),
            mtime=_EPOCH + timedelta(microseconds=mtime[row]),
            content_type=str(content_type[row], "utf-8"),
            # Most have none, and reading a map takes as long as all other columns.
            metadata={} if ends[row] == ends[row + 1] else dict(self._metadata[row].as_py()),
        )


def entries_of(table: pa.Table) -> list[Entry]:
    """Return the rows of a table with at least the columns of `ENTRY_SCHEMA`.

    For pages of results; process large tables as tables.
    """
    instants = table.column("mtime").cast(pa.int64())
    columns = [table.column(name).to_pylist() for name in ENTRY_SCHEMA.names if name != "mtime"]
    return [
        Entry(
            key=key,
            identity=identity,
            address=address,
            address_type=AddressType(address_type),
            size=size,
            checksum=checksum,
            mtime=_EPOCH + timedelta(microseconds=instant),
            content_type=content_type,
            metadata=dict(metadata),
        )
        for (
            key,
            identity,
            address,
            address_type,
            size,
            checksum,
            content_type,
            metadata,
        ), instant in zip(zip(*columns, strict=True), instants.to_pylist(), strict=True)
    ]


def entries_table(entries: Iterable[Entry]) -> pa.Table:
    """Return entries as a table with the columns of `ENTRY_SCHEMA`, in the given order."""
    rows = list(entries)
    columns = {
        name: [getattr(entry, name) for entry in rows]
        for name in ENTRY_SCHEMA.names
        if name != "metadata"
    }
    columns["metadata"] = [sorted(entry.metadata.items()) for entry in rows]
    return pa.table(columns, schema=ENTRY_SCHEMA)


def conform_entries(table: pa.Table) -> pa.Table:
    """Return a table with exactly the columns of `ENTRY_SCHEMA`, in the stored form.

    Other columns are dropped, similar types (large or dictionary-encoded strings) converted, and
    each row's metadata ordered by key. The order of the rows is not checked.

    Raises:
        InvalidEntries: A column or a value is missing, has a wrong type or is not UTF-8, or a row
            has duplicate metadata keys.
    """
    try:
        # Not by `Table.cast`, which scans every column, if only to check for nulls.
        columns = [table.column(name) for name in ENTRY_SCHEMA.names]
        table = pa.Table.from_arrays(columns, schema=ENTRY_SCHEMA).combine_chunks()
        table.validate(full=True)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise InvalidEntries(f"not a table of entries: {error}") from error
    for name, column in zip(table.column_names, table.columns, strict=True):
        # Arrow trusts the schema's claim of no nulls.
        if column.null_count:
            raise InvalidEntries(f"column '{name}' has missing values")
    if table.num_rows == 0:
        return table
    maps = table.column("metadata").chunk(0)
    metadata = _ordered(maps)
    if metadata is maps:
        return table
    return table.set_column(table.num_columns - 1, ENTRY_SCHEMA.field("metadata"), metadata)


def _ordered(maps: pa.MapArray) -> pa.MapArray:
    """Return maps with their items ordered by key."""
    offsets = maps.offsets
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    keys, values = maps.keys[first:last], maps.items[first:last]
    if keys.null_count or values.null_count:
        raise InvalidEntries("a metadata key or value is missing")
    if len(keys) == 0:
        return maps
    offsets = pc.subtract(offsets, offsets[0])
    owners = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
    if _strictly_ordered(owners, keys):
        return maps
    order = pc.sort_indices(
        pa.table({"owner": owners, "key": keys}),
        sort_keys=[("owner", "ascending"), ("key", "ascending")],
    )
    keys = keys.take(order)
    if not _strictly_ordered(owners, keys):
        raise InvalidEntries("an entry has a duplicate metadata key")
    return pa.MapArray.from_arrays(offsets, keys, values.take(order), maps.type)


def _strictly_ordered(owners: pa.Array, keys: pa.Array) -> bool:
    same_owner = pc.equal(owners[1:], owners[:-1])
    rising = pc.less(keys[:-1], keys[1:])
    return bool(pc.all(pc.or_(pc.invert(same_owner), rising), min_count=0).as_py())
