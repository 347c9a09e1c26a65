"""Writing and reading the Parquet files that hold committed metadata.

Each file says in its key-value metadata what it is: ``lakebed.type`` and ``lakebed.format``. Each
is named by the id of its content, and reading one computes the id
again from the decoded columns. So whatever happened to the bytes, or to the library that decodes
them, a reader gets the very rows that were written, or an error. Page checksums are written and
checked as well: they keep damaged pages away from the decoders, and serve readers that know no ids.

**The id of a table** is a hash of its logical content, whatever its memory or file looks like. Two
tables have the same id exactly if they have the same rows in the same order. How Arrow chunks,
slices or pads them, and how Parquet encodes and compresses them, does not matter. An id can
therefore be computed before a file is written, stays the same when the Parquet library changes, and
is checked against what a reader decoded.

    id      = SHA-256 of: kind, row count, and for each column its name and digest
    column  = SHA-256 of: fixed width: the values, little-endian; of booleans, a byte each
                          bytes, text: all lengths (int32), then all bytes
                          list:        all lengths (int32), then the digest of the flattened values
                          map:         all lengths (int32), then the digests of the flattened keys
                                       and of the flattened values

Every part has a fixed size or comes after its length, so no two contents spell the same input.
There are no nulls: the schemas forbid them. Columns are hashed buffer by buffer, which costs about
as much as copying them a few times; SHA-256 is the fastest good hash where the processor has
instructions for it, as all current servers do.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

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
    for name, column in zip(table.column_names, table.itercolumns(), strict=True):
        total.update(_framed(name))
        total.update(
            _digest(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())
        )
    return total.hexdigest()


def one_array(table: pa.Table, name: str) -> pa.Array:
    """Return a column of a table as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def value_bounds(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return where each value of a column of bytes or text begins, and where the last one ends.

    Arrow's own functions let other threads run meanwhile, and to get the interpreter back takes
    many times as long as to look at a few rows.
    """
    if not len(array):  # it may have no buffers
        return np.zeros(1, dtype=np.int32)
    bounds = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return bounds[array.offset : array.offset + len(array) + 1]


def value_lengths(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return how long each value of a column of bytes or text is."""
    bounds = value_bounds(array)
    return bounds[1:] - bounds[:-1]  # a fourth of the time of `numpy.diff`, for a few


def _framed(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<q", len(data)) + data


def _digest(array: pa.Array) -> bytes:
    if array.null_count:
        raise TypeError("a column with nulls has no digest")
    # By the class: to ask for the type again and again takes as long as to hash a few rows.
    digest_of = _DIGESTS.get(type(array), _digest_fixed)
    return digest_of(array)


def _digest_fixed(array: pa.Array) -> bytes:
    values = array.buffers()[1]
    if values is None:
        return hashlib.sha256().digest()
    width = array.type.bit_width // 8
    begin = array.offset * width
    return hashlib.sha256(memoryview(values)[begin : begin + len(array) * width]).digest()


def _digest_booleans(array: pa.BooleanArray) -> bytes:
    return _digest_fixed(array.cast(pa.int8()))


def _digest_bytes(array: pa.Array) -> bytes:
    bounds, data = value_bounds(array), array.buffers()[2]
    digest = hashlib.sha256((bounds[1:] - bounds[:-1]).data)
    if data is not None:
        digest.update(memoryview(data)[int(bounds[0]) : int(bounds[-1])])
    return digest.digest()


def _digest_nested(array: pa.ListArray | pa.MapArray) -> bytes:
    bounds = array.offsets.to_numpy()
    digest = hashlib.sha256((bounds[1:] - bounds[:-1]).data)
    # Of a slice, the flattened values are still those of the whole array.
    first, last = int(bounds[0]), int(bounds[-1])
    is_map = isinstance(array, pa.MapArray)
    for values in (array.keys, array.items) if is_map else (array.values,):
        digest.update(_digest(values[first:last]))
    return digest.digest()


_DIGESTS: Final[dict[type[pa.Array], Callable[[pa.Array], bytes]]] = {
    pa.BooleanArray: _digest_booleans,
    pa.BinaryArray: _digest_bytes,
    pa.StringArray: _digest_bytes,
    pa.ListArray: _digest_nested,
    pa.MapArray: _digest_nested,
}


FORMAT_VERSION: Final = 2
"""The version of every file written; files of a higher one are refused.

Version 2 added field ids and UTF-8 marks to ranges, and levels to metaranges."""

_TYPE: Final = "lakebed.type"
_FORMAT: Final = "lakebed.format"
_SMALL_BYTES: Final = 64 << 10
_TEXT: Final = pa.string()
_BYTES: Final = pa.binary()
NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FileType:
    """One type of file: its name inside, its columns and how they are encoded."""

    name: str
    schema: pa.Schema
    dictionary_columns: tuple[str, ...] = ()
    """Columns with few distinct values; a dictionary of the others would be a waste."""
    statistics_columns: tuple[str, ...] | None = None
    """Columns whose bounds are written, for readers that pick files by them; None: all. Those of
    columns that nobody searches make small files larger by a third."""

    def content_id(self, table: pa.Table) -> str:
        """Return the id of a table with this type's columns."""
        return content_id(self.name, table)

    def encode(self, table: pa.Table, marks: Mapping[str, str] = NO_MARKS) -> bytes:
        """Return a file that holds a table with this type's columns.

        Args:
            table: Its schema may have field ids, and text where the type has bytes.
            marks: More key-value metadata.
        """
        statistics = self.statistics_columns
        file = pa.BufferOutputStream()
        with pq.ParquetWriter(
            file,
            table.schema,
            # To begin with zstd takes as long as all the rest of writing a few rows.
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
            writer.add_key_value_metadata({**mine, **marks})
        return bytes(memoryview(file.getvalue()))

    def decode(self, data: bytes, *, content_id: str, file: str) -> pa.Table:
        """Return the table that a file holds, in one chunk, proven to have the id given.

        Args:
            data: All bytes of the file.
            content_id: The id that the file is named by.
            file: What to call the file in errors.

        Raises:
            DamagedFile: The bytes do not hold the content with this id.
            ForeignFile: It is not a file of this type.
            FormatTooNew: It was written by a newer Lakebed.
        """
        table, _ = self.read(data, file=file)
        check_id(self.content_id(table), content_id, file=file)
        return table

    def read(self, data: bytes, *, file: str) -> tuple[pa.Table, dict[bytes, bytes]]:
        """Return the table that a file holds and its key-value metadata; `decode` without the id.

        Raises:
            DamagedFile: The bytes do not hold a whole file.
            ForeignFile: It is not a file of this type, or (`FormatTooNew`) is one of a newer
                Lakebed.
        """
        try:
            with pq.ParquetFile(
                pa.BufferReader(data), page_checksum_verification=True, pre_buffer=False
            ) as parquet:
                marks = parquet.schema_arrow.metadata or {}
                self._check_marks(marks, file)
                # To wake other threads takes as long as to decode a small file.
                table = parquet.read(use_threads=len(data) > _SMALL_BYTES)
            table = _with_bytes(table, self.schema).combine_chunks()
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            # Damaged lengths make the library ask for absurd amounts of memory.
            raise DamagedFile(file, error) from error
        if not table.schema.equals(self.schema):
            columns = ", ".join(table.schema.names)
            raise ForeignFile(file, f"has other columns than a {self.name}: {columns}")
        # Without field ids, which are for other readers.
        return pa.Table.from_arrays(table.columns, schema=self.schema), marks

    def _check_marks(self, marks: dict[bytes, bytes], file: str) -> None:
        type_name = marks.get(_TYPE.encode(), b"").decode(errors="replace")
        if not type_name:
            raise ForeignFile(file, "was not written by Lakebed")
        if type_name != self.name:
            raise ForeignFile(file, f"is of type '{type_name}', not '{self.name}'")
        version = marks.get(_FORMAT.encode(), b"")
        if not version.isdigit():
            raise DamagedFile(file, f"its format version is {quoted(version)}")
        refuse_newer(int(version), file)


def _with_bytes(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with bytes where it has text, marked as UTF-8, and the schema has bytes."""
    for number, field in enumerate(table.schema):
        wanted = schema.field(number) if number < len(schema) else field
        if field.type.equals(_TEXT) and wanted.type.equals(_BYTES):
            table = table.set_column(number, wanted, table.column(number).cast(_BYTES))
    return table


def check_id(found: str, wanted: str, *, file: str) -> None:
    """Refuse a file whose content has another id than the one that it is named by.

    Raises:
        DamagedFile: It has.
    """
    if found != wanted:
        raise DamagedFile(file, f"its content has the id {found}")


def refuse_newer(version: int, file: str) -> None:
    """Refuse a file of a format version that this Lakebed does not know.

    Raises:
        FormatTooNew: It is such a version.
    """
    if version > FORMAT_VERSION:
        raise FormatTooNew(
            file,
            f"has format version {version}, and this Lakebed reads up to {FORMAT_VERSION}: use a"
            " newer Lakebed",
        )


def table_bytes(table: pa.Table) -> int:
    """Return the size of a table's values; of a small table, that of the buffers they lie in.

    To ask for the buffers is cheap; to count what the rows have of them is not.
    """
    size_bytes: int = table.get_total_buffer_size()
    return size_bytes if size_bytes <= _SMALL_BYTES else int(table.nbytes)


def required(name: str, type_: pa.DataType) -> pa.Field:
    """Return a column without nulls."""
    return pa.field(name, type_, nullable=False)
