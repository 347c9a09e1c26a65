"""Reading rows of tables: Parquet, Arrow, CSV and JSON lines."""

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from lakebed.block import ByteRange, ByteStream
from lakebed.block.ranges import Between
from lakebed.lake.errors import PreviewTooLarge
from lakebed.lake.preview.columns import is_number


class BoundedFile(io.RawIOBase):
    """An object read by ranges; raises if too many bytes are read or time runs out.

    Each read is a request to the storage: wrap the file in a buffer for small reads.
    """

    def __init__(
        self,
        read: Callable[[ByteRange], ByteStream],
        size: int,
        *,
        bytes_max: int,
        check_time: Callable[[], None],
    ) -> None:
        """Create a file of `size` bytes; `read` opens a range, `bytes_max` limits all reads."""
        self._read = read
        self.size = size
        self._left = bytes_max
        self._bytes_max = bytes_max
        self.check_time = check_time
        """Raises if the time is over."""
        self._position = 0

    @property
    def bytes_read(self) -> int:
        """Number of bytes read so far."""
        return self._bytes_max - self._left

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes; raise `PreviewTooLarge` beyond the limit of bytes or time."""
        self.check_time()
        rest = max(0, self.size - self._position)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if wanted == 0:
            return b""
        if wanted > self._left:
            raise PreviewTooLarge(
                f"showing this object would read more than {self._bytes_max >> 20} MiB: download"
                " it, or read it with a program"
            )
        self._left -= wanted
        with self._read(Between(self._position, self._position + wanted)) as stream:
            data = b"".join(stream)
        self._position += len(data)
        return data


COLUMNS_MAX: Final = 100
HEAD_BYTES: Final = 8 << 20
"""Number of bytes read of a file without random access."""
_BATCH_ROWS: Final = 1024
_NUMBERS_BATCH_ROWS: Final = 64 << 10
_BUFFER_BYTES: Final = 1 << 20
_THRIFT_MAX: Final = 16 << 20
NUMBERS_MAX: Final = 4_000_000
"""Maximum number of values read for histograms of a whole file."""
NUMBERS_BYTES_MAX: Final = 16 << 20
"""Maximum number of bytes read of a file, including these values."""

CheckTime = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A page of a table's rows."""

    format: str
    table: pa.Table
    """At most `COLUMNS_MAX` columns."""
    schema: pa.Schema
    """Schema of the file."""
    row_count: int | None
    """Rows of the whole file, or None if unknown."""
    has_more: bool
    is_partial: bool = False
    """Whether some rows of the file cannot be reached by any offset."""
    read_numbers: Callable[[], pa.Table | None] = lambda: None
    """Returns the numeric columns, in order, with all rows of the file, or None if too large."""
    layout: dict[str, str] = field(default_factory=dict)
    """Properties of the file format."""
    metadata: pq.FileMetaData | None = None
    note: str = ""
    """A note about the rows, for people."""

    @property
    def has_all_rows(self) -> bool:
        return not (self.has_more or self.is_partial)

    @property
    def hidden_columns(self) -> int:
        """Number of columns missing from `table`."""
        hidden: int = len(self.schema) - self.table.num_columns
        return hidden


def read_parquet(file: BoundedFile, offset: int, limit: int) -> Rows:
    """Return a page of a Parquet file; reads only the row groups needed."""
    opened = pq.ParquetFile(
        pa.PythonFile(file, mode="r"),
        buffer_size=_BUFFER_BYTES,
        thrift_string_size_limit=_THRIFT_MAX,
        thrift_container_size_limit=_THRIFT_MAX,
    )
    found = opened.metadata
    shown = opened.schema_arrow.names[:COLUMNS_MAX]
    groups, skipped = [], 0
    before = 0
    for group in range(found.num_row_groups):
        rows = found.row_group(group).num_rows
        if before + rows <= offset:
            skipped += rows
        elif before < offset + limit:
            groups.append(group)
        before += rows
    # Small batches limit the memory for large values.
    size = max(1, min(_BATCH_ROWS, limit))
    batches = opened.iter_batches(batch_size=size, row_groups=groups, columns=shown)
    schema = pa.schema([opened.schema_arrow.field(at) for at in range(len(shown))])
    table = _window(batches, schema, offset - skipped, limit, file.check_time)
    codecs = (
        sorted({found.row_group(0).column(at).compression for at in range(found.num_columns)})
        if found.num_row_groups
        else []
    )
    return Rows(
        format="Parquet",
        table=table,
        schema=opened.schema_arrow,
        row_count=found.num_rows,
        has_more=offset + table.num_rows < found.num_rows,
        read_numbers=lambda: _numbers_of_parquet(opened, schema, file),
        layout={"row groups": str(found.num_row_groups), "compression": ", ".join(codecs).lower()},
        metadata=found,
    )


def _numbers_of_parquet(
    opened: pq.ParquetFile, schema: pa.Schema, file: BoundedFile
) -> pa.Table | None:
    """Return the numeric columns with all rows, or None if too large."""
    numbers = pa.schema([each for each in schema if is_number(each.type)])
    found = opened.metadata
    if not numbers.names or found.num_rows * len(numbers) > NUMBERS_MAX:
        return None
    names = set(numbers.names)
    places = [at for at in range(found.num_columns) if found.schema.column(at).path in names]
    stored = sum(
        found.row_group(group).column(at).total_compressed_size
        for group in range(found.num_row_groups)
        for at in places
    )
    if file.bytes_read + stored > NUMBERS_BYTES_MAX:
        return None
    batches = opened.iter_batches(batch_size=_NUMBERS_BATCH_ROWS, columns=numbers.names)
    return _window(batches, numbers, 0, found.num_rows, file.check_time)


def _numbers_in(table: pa.Table) -> pa.Table:
    return table.select([at for at, each in enumerate(table.schema) if is_number(each.type)])


def read_arrow(file: BoundedFile, offset: int, limit: int) -> Rows:
    """Return a page of an Arrow file or stream."""
    try:
        reader = pa.ipc.open_file(pa.PythonFile(file, mode="r"))
        schema, batches = (
            reader.schema,
            (reader.get_batch(at) for at in range(reader.num_record_batches)),
        )
        layout = {"batches": str(reader.num_record_batches)}
    except pa.ArrowInvalid:
        file.seek(0)
        stream = pa.ipc.open_stream(pa.PythonFile(file, mode="r"))
        schema, batches, layout = stream.schema, iter(stream), {}
    names = schema.names[:COLUMNS_MAX]
    narrow = (batch.select(list(range(len(names)))) for batch in batches)
    shown = pa.schema([schema.field(at) for at in range(len(names))])
    table = _window(narrow, shown, offset, limit + 1, file.check_time)
    has_more = table.num_rows > limit
    is_end = not has_more and (table.num_rows > 0 or offset == 0)
    return Rows(
        format="Arrow",
        table=table.slice(0, limit),
        schema=schema,
        row_count=offset + table.num_rows if is_end else None,
        has_more=has_more,
        read_numbers=lambda: None if has_more or offset else _numbers_in(table),
        layout=layout,
    )


def _window(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    offset: int,
    limit: int,
    check_time: CheckTime,
) -> pa.Table:
    """Return the rows from an offset on, reading no more batches than needed."""
    kept, left, skip = [], limit, offset
    for batch in batches:
        check_time()
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        piece = batch.slice(skip, left)
        skip = 0
        left -= piece.num_rows
        kept.append(piece)
        if left <= 0:
            break
    return pa.Table.from_batches(kept, schema)


def read_csv(file: BoundedFile, offset: int, limit: int, *, delimiter: str) -> Rows:
    """Return a page of the beginning of a CSV or TSV file."""
    data, is_whole = _head(file)
    bad: list[pacsv.InvalidRow] = []

    def skip(row: pacsv.InvalidRow) -> str:
        bad.append(row)
        return "skip"

    table = pacsv.read_csv(
        io.BytesIO(data),
        read_options=pacsv.ReadOptions(use_threads=False, block_size=max(1, len(data))),
        parse_options=pacsv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip
        ),
        convert_options=pacsv.ConvertOptions(
            strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    name = "TSV" if delimiter == "\t" else "CSV"
    note = f"{len(bad)} lines with a different number of columns are omitted." if bad else ""
    return _of_head(name, table, offset, limit, is_whole=is_whole, note=note)


def read_json_lines(file: BoundedFile, offset: int, limit: int) -> Rows:
    """Return a page of the beginning of a JSON lines file."""
    data, is_whole = _head(file)
    options = pajson.ReadOptions(use_threads=False, block_size=max(1, len(data)))
    table = pajson.read_json(io.BytesIO(data), read_options=options)
    return _of_head("JSON lines", table, offset, limit, is_whole=is_whole)


def _head(file: BoundedFile) -> tuple[bytes, bool]:
    """Return the complete lines at the beginning of a file, and whether these are all."""
    data = file.read(HEAD_BYTES)
    if len(data) == file.size:
        # A single line is read only if terminated.
        return data if data.endswith(b"\n") else data + b"\n", True
    return data[: data.rfind(b"\n") + 1], False


def _of_head(
    name: str, table: pa.Table, offset: int, limit: int, *, is_whole: bool, note: str = ""
) -> Rows:
    """Return a page of the beginning of a file; `note` tells about omitted rows."""
    shown = table.select(list(range(min(COLUMNS_MAX, table.num_columns))))
    has_all = is_whole and not note
    if not is_whole:
        note = f"{note} Only the first {HEAD_BYTES >> 20} MiB of the file are shown.".strip()
    return Rows(
        format=name,
        table=shown.slice(offset, limit),
        schema=table.schema,
        row_count=table.num_rows if has_all else None,
        has_more=offset + limit < table.num_rows,
        is_partial=not has_all,
        read_numbers=lambda: _numbers_in(shown) if has_all else None,
        note=note,
    )
