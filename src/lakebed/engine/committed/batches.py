"""Streams of rows from outside: regrouped to a good size, checked, and cast to the stored form."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.committed.columns import Edits, check_rising
from lakebed.formats import CHANGE_SCHEMA, InvalidEntries, conform_entries
from lakebed.formats.parquet import one_array, table_bytes

Batch: TypeAlias = pa.Table | pa.RecordBatch

# Large enough for columnar work to pay, small enough for several in memory.
WINDOW_ROWS: Final = 32 << 10
WINDOW_BYTES: Final = 32 << 20


def entry_windows(batches: Iterable[Batch], *, after: bytes = b"") -> Iterator[pa.Table]:
    """Yield entries in larger tables, checked and in the stored form; no table is empty.

    The first key must be above `after`.

    Raises:
        InvalidEntries: A batch does not have the columns and values of entries.
        UnsortedEntries: The keys do not rise from row to row.
    """
    before = after
    for table in regroup(batches):
        entries = conform_entries(table)
        keys = one_array(entries, "key")
        check_rising(keys, before)
        before = keys[-1].as_py()
        yield entries


def change_windows(batches: Iterable[Batch]) -> Iterator[Edits]:
    """Yield changes in larger portions, checked, the entries in the stored form; none is empty.

    Raises as `entry_windows`.
    """
    before = b""
    for table in regroup(batches):
        keys, gone = _keys_and_tombstones(table)
        check_rising(keys, before)
        before = keys[-1].as_py()
        # Most windows have no tombstone: avoid a copy.
        puts = table.filter(pc.invert(gone)) if gone.true_count else table
        yield Edits(conform_entries(puts), keys.filter(gone))


def _keys_and_tombstones(table: pa.Table) -> tuple[pa.Array, pa.Array]:
    if table.schema.equals(CHANGE_SCHEMA):
        return one_array(table, "key"), one_array(table, "tombstone")
    try:
        picked = table.select(["key", "tombstone"]).cast(_KEY_AND_TOMBSTONE)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise InvalidEntries(f"not a table of changes: {error}") from error
    return one_array(picked, "key"), one_array(picked, "tombstone")


_KEY_AND_TOMBSTONE: Final = pa.schema(
    [CHANGE_SCHEMA.field("key"), CHANGE_SCHEMA.field("tombstone")]
)


def regroup(batches: Iterable[Batch]) -> Iterator[pa.Table]:
    """Yield the same rows in tables of about the size of a window; no table is empty."""
    waiting: list[pa.Table] = []
    rows = size_bytes = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        for piece, piece_bytes in _pieces(table):
            waiting.append(piece)
            rows += piece.num_rows
            size_bytes += piece_bytes
            if rows >= WINDOW_ROWS or size_bytes >= WINDOW_BYTES:
                yield _joined(waiting)
                waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield _joined(waiting)


def _pieces(table: pa.Table) -> Iterator[tuple[pa.Table, int]]:
    """Split a table that is larger than a window; yield the pieces and their sizes in bytes."""
    size_bytes = table_bytes(table)
    if 0 < table.num_rows <= WINDOW_ROWS and size_bytes <= WINDOW_BYTES:
        yield table, size_bytes
        return
    fitting = table.num_rows * WINDOW_BYTES // max(1, size_bytes)
    rows = max(1, min(WINDOW_ROWS, fitting))
    for begin in range(0, table.num_rows, rows):
        piece = table.slice(begin, rows)
        yield piece, table_bytes(piece)


def _joined(tables: list[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise InvalidEntries(
            f"the batches of one stream have different columns: {error}"
        ) from error
