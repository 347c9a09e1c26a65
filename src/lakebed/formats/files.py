"""Types of files: Parquet tables with content ids, and small JSON documents.

Each Parquet file has its type and version in its key-value metadata: ``lakebed.type`` and
``lakebed.format``. Each is named by its content id, and a reader computes the id again from the
decoded columns. So despite damage to the bytes or bugs in the decoder, a reader gets exactly the
rows written, or an error. Page checksums are written and checked as well: they keep damaged pages
away from the decoders, and serve readers without ids.

**The id of a table** is a hash of its logical content, independent of memory and file layout. Two
tables have the same id exactly if they have the same rows in the same order. How Arrow chunks,
slices or pads them, and how Parquet encodes and compresses them, does not matter. An id can
therefore be computed before a file is written, stays the same when the Parquet library changes, and
is checked against the decoded columns.

    id      = SHA-256 of: kind, row count, and for each column its name and digest
    column  = SHA-256 of: fixed width: the values, little-endian; of booleans, a byte each
                          bytes, text: all lengths (int32), then all bytes
                          list:        all lengths (int32), then the digest of the flattened values
                          map:         all lengths (int32), then the digests of the flattened keys
                                       and of the flattened values

Every part has a fixed size or comes after its length, so no two contents have the same input. The
schemas forbid nulls. Columns are hashed buffer by buffer, which costs about as much as copying them
a few times; SHA-256 is the fastest good hash with processor support, as in all current servers.

**Documents** have their type, version and a digest of their content as fields. The digest detects
damage, not malice: a writer to the storage can compute a valid digest for any content. So the
fields of a document are validated, too.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from types import MappingProxyType, UnionType
from typing import Any, Final, NewType, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.base.errors import quoted
from lakebed.formats.errors import DamagedFile, ForeignFile, FormatTooNew


def content_id(kind: str, table: pa.Table) -> str:
    """Return the id of a table of a kind (``range``, ``metarange``), in hexadecimal."""
    total = hashlib.sha256(_framed(kind))
    total.update(struct.pack("<q", table.num_rows))
    for name in table.column_names:
        total.update(_framed(name))
        total.update(_digest(one_array(table, name)))
    return total.hexdigest()


def one_array(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def value_bounds(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offsets of the values in a column of bytes or strings, and the end of the last.

    Arrow's own functions release the GIL, and reacquiring it takes much longer than reading a few
    rows.
    """
    if not len(array):  # may have no buffers
        return np.zeros(1, dtype=np.int32)
    bounds = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return bounds[array.offset : array.offset + len(array) + 1]


def value_lengths(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the length of each value in a column of bytes or strings."""
    bounds = value_bounds(array)
    return bounds[1:] - bounds[:-1]  # a fourth of the time of `numpy.diff` for few rows


def _framed(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<q", len(data)) + data


def _digest(array: pa.Array) -> bytes:
    if array.null_count:
        raise TypeError("a column with nulls has no digest")
    # By class: comparing Arrow types takes as long as hashing a few rows.
    return _DIGESTS.get(type(array), _digest_fixed)(array)


def _digest_fixed(array: pa.Array) -> bytes:
    values = array.buffers()[1]
    if values is None:
        return hashlib.sha256().digest()
    width = array.type.bit_width // 8
    begin = array.offset * width
    return hashlib.sha256(memoryview(values)[begin : begin + len(array) * width]).digest()


def _digest_bytes(array: pa.Array) -> bytes:
    bounds, data = value_bounds(array), array.buffers()[2]
    digest = hashlib.sha256((bounds[1:] - bounds[:-1]).data)
    if data is not None:
        digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    return digest.digest()


def _digest_nested(array: pa.ListArray | pa.MapArray) -> bytes:
    bounds = array.offsets.to_numpy()
    digest = hashlib.sha256((bounds[1:] - bounds[:-1]).data)
    # The flattened values of a slice are still those of the whole array.
    first, last = int(bounds[0]), int(bounds[-1])
    is_map = isinstance(array, pa.MapArray)
    for values in (array.keys, array.items) if is_map else (array.values,):
        digest.update(_digest(values[first:last]))
    return digest.digest()


_DIGESTS: Final[dict[type[pa.Array], Callable[[pa.Array], bytes]]] = {
    pa.BooleanArray: lambda array: _digest_fixed(array.cast(pa.int8())),
    pa.BinaryArray: _digest_bytes,
    pa.StringArray: _digest_bytes,
    pa.ListArray: _digest_nested,
    pa.MapArray: _digest_nested,
}


FORMAT_VERSION: Final = 2
"""Version of every file written; files of a higher version are refused.

Version 2 added field ids and UTF-8 marks to ranges, and levels to metaranges."""

_TYPE: Final = "lakebed.type"
_FORMAT: Final = "lakebed.format"
_SMALL_BYTES: Final = 64 << 10
_TEXT: Final = pa.string()
_BYTES: Final = pa.binary()
NO_METADATA: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FileType:
    """Type of a file: name, columns and their encoding."""

    name: str
    schema: pa.Schema
    dictionary_columns: tuple[str, ...] = ()
    """Columns with few distinct values; for other columns a dictionary would be wasteful."""
    statistics_columns: tuple[str, ...] | None = None
    """Columns with bounds, for readers that select files by them, or None for all. Bounds of
    unsearched columns make small files larger by a third."""

    def content_id(self, table: pa.Table) -> str:
        return content_id(self.name, table)

    def encode(self, table: pa.Table, metadata: Mapping[str, str] = NO_METADATA) -> bytes:
        """Return the file of a table with this type's columns and this key-value metadata.

        The table's schema may have field ids, and strings where the type has bytes.
        """
        statistics = self.statistics_columns
        file = pa.BufferOutputStream()
        with pq.ParquetWriter(
            file,
            table.schema,
            # Initializing zstd takes as long as everything else when writing a few rows.
            compression="zstd" if table_bytes(table) > _SMALL_BYTES else "snappy",
            use_dictionary=list(self.dictionary_columns),
            write_statistics=True if statistics is None else list(statistics),
            write_page_checksum=True,
            # Parquet has types for all columns; Arrow's own schema would be a third of small files.
            store_schema=False,
        ) as writer:
            # One row group: a file is read whole, and other readers split work by file.
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            mine = {_TYPE: self.name, _FORMAT: str(FORMAT_VERSION)}
            writer.add_key_value_metadata({**mine, **metadata})
        return bytes(memoryview(file.getvalue()))

    def decode(self, data: bytes, *, content_id: str, file: str) -> pa.Table:
        """Return the table in a file, in one chunk, after verifying the id."""
        table, _ = self.read(data, file=file)
        check_id(self.content_id(table), content_id, file=file)
        return table

    def read(self, data: bytes, *, file: str) -> tuple[pa.Table, dict[bytes, bytes]]:
        """Return the table in a file, and its key-value metadata, without verifying the id."""
        try:
            with pq.ParquetFile(
                pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False
            ) as parquet:
                metadata = parquet.schema_arrow.metadata or {}
                self._check_metadata(metadata, file)
                # Waking other threads takes as long as decoding a small file.
                table = parquet.read(use_threads=len(data) > _SMALL_BYTES)
            table = _with_bytes(table, self.schema).combine_chunks()
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            # Damaged lengths make the library request absurd amounts of memory.
            raise DamagedFile(file, error) from error
        if not table.schema.equals(self.schema):
            columns = ", ".join(table.schema.names)
            raise ForeignFile(file, f"has the wrong columns for a {self.name}: {columns}")
        # Without field ids, which are for other readers.
        return pa.Table.from_arrays(table.columns, schema=self.schema), metadata

    def _check_metadata(self, metadata: dict[bytes, bytes], file: str) -> None:
        type_name = metadata.get(_TYPE.encode(), b"").decode(errors="replace")
        if not type_name:
            raise ForeignFile(file, "was not written by Lakebed")
        if type_name != self.name:
            raise ForeignFile(file, f"is of type '{type_name}', not '{self.name}'")
        version = metadata.get(_FORMAT.encode(), b"")
        if not version.isdigit():
            raise DamagedFile(file, f"invalid format version {quoted(version)}")
        refuse_newer(int(version), file)


def _with_bytes(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with string columns converted to bytes where the schema has bytes."""
    for number, field in enumerate(table.schema):
        wanted = schema.field(number) if number < len(schema) else field
        if field.type.equals(_TEXT) and wanted.type.equals(_BYTES):
            table = table.set_column(number, wanted, table.column(number).cast(_BYTES))
    return table


def check_id(found: str, wanted: str, *, file: str) -> None:
    """Raise `DamagedFile` if the content of a file has another id than expected."""
    if found != wanted:
        raise DamagedFile(file, f"content id mismatch: found {found}")


def refuse_newer(version: int, file: str) -> None:
    """Raise `FormatTooNew` for a file of an unknown format version."""
    if version > FORMAT_VERSION:
        raise FormatTooNew(
            file,
            f"has format version {version}, and this Lakebed reads up to {FORMAT_VERSION}: use a"
            " newer Lakebed",
        )


def table_bytes(table: pa.Table) -> int:
    """Return the size of a table's values; for a small table, of their buffers.

    Asking for the buffers is cheap; counting the rows' share of them is not.
    """
    size_bytes: int = table.get_total_buffer_size()
    return size_bytes if size_bytes <= _SMALL_BYTES else int(table.nbytes)


def required(name: str, type_: pa.DataType) -> pa.Field:
    """Return a column without nulls."""
    return pa.field(name, type_, nullable=False)


RecordT = TypeVar("RecordT")


def encode_document(type_name: str, content: dict[str, object]) -> bytes:
    """Return the file of a document."""
    content = {"type": type_name, "format": FORMAT_VERSION, **content}
    return json.dumps(content | {"digest": _document_digest(content)}, indent=1).encode()


def decode_document(data: bytes, type_name: str, *, file: str) -> dict[str, object]:
    """Return the content of a document after verifying its digest."""
    content = load_json(data, file=file)
    if not isinstance(content, dict) or content.get("type") != type_name:
        raise ForeignFile(file, f"is not a {type_name}")
    version = content.get("format")
    if isinstance(version, int):
        refuse_newer(version, file)
    digest = content.pop("digest", None)
    if digest != _document_digest(content):
        raise DamagedFile(file, "digest mismatch")
    return {name: content[name] for name in content if name not in {"type", "format"}}


def load_json(data: bytes, *, file: str) -> Any:
    """Parse a JSON file; raise `DamagedFile` if it is not JSON, or is nested too deep."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(file, error) from error


def read_record(of: type[RecordT], content: object, *, file: str) -> RecordT:
    """Return a dataclass with the fields of a document that it knows, or raise `DamagedFile`."""
    try:
        record: RecordT = _convert(content, of, of.__name__)
    except _WrongField as error:
        raise DamagedFile(file, error) from None
    return record


class _WrongField(ValueError):
    """A field is missing, or has the wrong type."""


def _convert(value: object, wanted: Any, name: str) -> Any:
    """Convert a JSON value to the wanted type."""
    if isinstance(wanted, NewType):
        return _convert(value, wanted.__supertype__, name)
    if isinstance(wanted, UnionType):
        inner, _ = get_args(wanted)  # the type besides None
        return None if value is None else _convert(value, inner, name)
    kind = get_origin(wanted) or wanted
    if kind is tuple:
        inner, _ = get_args(wanted)  # item type and ellipsis
        return tuple(_convert(each, inner, name) for each in _checked(value, list, name))
    if is_dataclass(kind):
        return _convert_fields(_checked(value, dict, name), kind)
    if issubclass(kind, Enum):
        if value not in [each.value for each in kind]:
            raise _WrongField(f"unknown {name} {value!r}")
        return kind(value)
    return _checked(value, kind, name)


def _convert_fields(content: dict[str, Any], wanted: Any) -> Any:
    types = get_type_hints(wanted)
    found = {}
    for each in fields(wanted):
        if each.name in content:
            found[each.name] = _convert(content[each.name], types[each.name], each.name)
        elif each.default is MISSING:
            raise _WrongField(f"field '{each.name}' is missing")
    return wanted(**found)


def _checked(value: object, wanted: type[RecordT], name: str) -> RecordT:
    if type(value) is not wanted:
        found = type(value).__name__
        raise _WrongField(f"field {name} has type {found}, not {wanted.__name__}")
    return value


def _document_digest(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
