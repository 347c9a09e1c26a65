"""Writing and reading the Parquet files that hold committed metadata.

Each file says in its key-value metadata what it is: ``lakebed.type`` and ``lakebed.format``. Each
is named by the id of its content (see `lakebed.formats.digest`), and reading one computes the id
again from the decoded columns. So whatever happened to the bytes, or to the library that decodes
them, a reader gets the very rows that were written, or an error. Page checksums are written and
checked as well: they keep damaged pages away from the decoders, and serve readers that know no ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.base.errors import quoted
from lakebed.formats.digest import content_id
from lakebed.formats.errors import DamagedFile, ForeignFile, FormatTooNew

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
