"""Rows from outside: streams, and metaranges written outside of the engine.

Streams are regrouped to a good size, checked, and cast to the stored form.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import Runtime
from lakebed.engine.committed.columns import Edits, check_rising
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import map_ahead
from lakebed.engine.errors import Invalid
from lakebed.formats import CHANGE_SCHEMA, InvalidEntries, MetaRangeID, RangeRef, conform_entries
from lakebed.formats.boundaries import Breaks, ref_of, row_bytes
from lakebed.formats.files import one_array, table_bytes

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
        keys, removed = _keys_and_tombstones(table)
        check_rising(keys, before)
        before = keys[-1].as_py()
        # Most windows have no tombstone: avoid a copy.
        puts = table.filter(pc.invert(removed)) if removed.true_count else table
        yield Edits(conform_entries(puts), keys.filter(removed))


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


def examine(
    files: Files, runtime: Runtime, breaks: Breaks, metarange_id: MetaRangeID
) -> Iterator[pa.Table]:
    """Yield the entries of each range of a metarange written elsewhere, without caching them.

    All files are read from the storage and verified by their ids, then compared with the engine's
    own output: rising keys, range ends at the required keys, a correct reference to each range. The
    contents of entries are for the caller to check.

    Raises:
        Invalid: The engine would have made a different metarange of these entries.
        InvalidEntries: A range does not contain entries.
        UnsortedEntries: The keys do not rise.
        MissingFile, DamagedFile, ForeignFile: A file is missing or its content is wrong.
    """
    refs = files.load_metarange(metarange_id).refs
    last_key = b""
    tables = map_ahead(runtime, files.load_range, (ref.range_id for ref in refs))
    for place, (ref, table) in enumerate(zip(refs, tables, strict=True)):
        if not table.num_rows:
            raise Invalid(f"range {ref.range_id} is empty")
        entries = conform_entries(table)
        check_rising(one_array(entries, "key"), last_key)
        last_key = ref.max_key
        _check_range(breaks, ref, entries, is_last=place == len(refs) - 1)
        yield entries


def _check_range(breaks: Breaks, ref: RangeRef, entries: pa.Table, *, is_last: bool) -> None:
    if ref_of(entries) != ref:
        raise Invalid(
            f"the metarange's reference to range {ref.range_id} does not match its contents"
        )
    ends = breaks.ends(entries, row_bytes(entries), 0, 0)
    if ends != [entries.num_rows] and not (is_last and not ends):
        raise Invalid(
            f"range {ref.range_id} ends at the wrong key: cut ranges as this server does ({breaks})"
        )
