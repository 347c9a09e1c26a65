"""Pages of entries or differences, with keys that share a prefix folded into one item.

Items are entries and common prefixes, in order of their names. A common prefix is found with its
first key, and its other keys are skipped by binary searches in the range and among the ranges. So
the cost of a page depends on its items, not on the number of keys below its prefixes.

A page consists of columns, not values: most pages become JSON or XML, written column by column.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.committed.columns import (
    DIFF_SCHEMA,
    ChangeType,
    SortedKeys,
    prefix_end,
    successor,
)
from lakebed.engine.committed.files import Files
from lakebed.engine.committed.walk import Group, diff_steps, differing_groups
from lakebed.formats import ENTRY_SCHEMA, Entry, MetaRange, entries_of
from lakebed.formats.files import one_array

ItemT = TypeVar("ItemT")

_SHORT_RUN: Final = 16
"""Up to this many keys, single tests are faster than a test of the column."""


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """All keys with the same beginning, up to and including the delimiter, as one item."""

    key: bytes


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """A difference between two metaranges."""

    change: ChangeType
    entry: Entry
    """The right side's entry; for a removed entry, the left side's."""
    conflict: bool = False
    """Whether the left side changed it too, differently; only in comparisons with a base."""


class Folded(NamedTuple):
    """A common prefix and its position on a page."""

    key: bytes
    rows_before: int
    """Number of preceding rows on the page."""


class EntryPage(Generic[ItemT]):
    """Items in order of their names: rows, and common prefixes between them."""

    __slots__ = ("_items", "_values_of", "folded", "follows_from", "has_more", "rows")

    def __init__(
        self,
        rows: pa.Table,
        folded: Sequence[Folded] = (),
        *,
        has_more: bool,
        values_of: Callable[[pa.Table], Sequence[ItemT]],
        follows_from: Hashable = None,
    ) -> None:
        """Make a page; `values_of` makes values of its rows on demand."""
        self.rows = rows
        self.folded = folded
        self.has_more = has_more
        """Whether more items follow."""
        self.follows_from = follows_from
        """The immutable facts that determine the page within its repository, or None. Two pages
        with equal facts are interchangeable."""
        self._values_of = values_of
        self._items: list[ItemT | CommonPrefix] | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows) + len(self.folded)

    def column(self, name: str) -> pa.Array:
        return one_array(self.rows, name)

    @property
    def last(self) -> bytes:
        """The name of the last item; empty if there is none."""
        if self.folded and self.folded[-1].rows_before == self.rows.num_rows:
            return self.folded[-1].key
        return SortedKeys(self.column("key"))[-1] if self.rows.num_rows else b""

    @property
    def items(self) -> list[ItemT | CommonPrefix]:
        """The items as values, which take longer to make than the rows to find."""
        if self._items is None:
            self._items = list(self._values_of(self.rows))
            for number, (key, rows_before) in enumerate(self.folded):
                self._items.insert(rows_before + number, CommonPrefix(key))
        return self._items


@dataclass(frozen=True, slots=True)
class EntryQuery:
    """Filters of a listing."""

    prefix: bytes = b""
    """Only keys with this prefix."""
    after: bytes = b""
    """Only items with names above this, the last item of the previous page."""
    delimiter: bytes = b""
    """Fold keys with this text after the prefix; empty to fold no keys."""
    amount: int = 1000
    """Maximum number of items."""

    def folded(self, key: bytes) -> bytes | None:
        """Return the common prefix that a key is folded into, or None."""
        if not self.delimiter or not key.startswith(self.prefix):
            return None
        place = key.find(self.delimiter, len(self.prefix))
        return None if place < 0 else key[: place + len(self.delimiter)]

    def first_key(self) -> bytes | None:
        """Return the first key that the page may have, or None if the page must be empty."""
        common = self.folded(self.after)
        begin = successor(self.after) if common is None else prefix_end(common)
        return None if begin is None else max(self.prefix, begin)


class Block(Protocol):
    """Consecutive rows read together."""

    @property
    def keys(self) -> SortedKeys:
        """The keys of the rows."""

    def rows(self, first: int, last: int) -> pa.Table:
        """Return some of the rows, in the columns of the page."""


class Blocks(Protocol):
    """Source of a page's rows."""

    def seek(self, key: bytes) -> Block | None:
        """Return the block with the first row at or above a key, or None.

        The key is never below that of the previous call.
        """


def entry_page(
    blocks: Blocks, query: EntryQuery, *, follows_from: Hashable = None
) -> EntryPage[Entry]:
    """Return the first entries of a query; see `EntryPage.follows_from`."""
    rows, folded, has_more = _fill(blocks, query)
    table = _joined(rows, ENTRY_SCHEMA)
    return EntryPage(
        table, folded, has_more=has_more, values_of=entries_of, follows_from=follows_from
    )


def diff_page(blocks: Blocks, query: EntryQuery) -> EntryPage[DiffEntry]:
    """Return the first differences of a query."""
    rows, folded, has_more = _fill(blocks, query)
    table = _joined(rows, DIFF_SCHEMA)
    return EntryPage(table, folded, has_more=has_more, values_of=differences_of)


def differences_of(rows: pa.Table) -> list[DiffEntry]:
    """Return rows by `DIFF_SCHEMA` as values; a column `conflict` is optional."""
    changes = rows.column("change").to_pylist()
    has_conflicts = "conflict" in rows.column_names
    conflicts = rows.column("conflict").to_pylist() if has_conflicts else [False] * rows.num_rows
    return [
        DiffEntry(ChangeType(change), entry, conflict)
        for change, entry, conflict in zip(changes, entries_of(rows), conflicts, strict=True)
    ]


def _fill(blocks: Blocks, query: EntryQuery) -> tuple[list[pa.Table], list[Folded], bool]:
    """Return the rows and common prefixes of a page, and whether more follow."""
    tables: list[pa.Table] = []
    folded: list[Folded] = []
    rows = 0
    place = query.first_key()
    while place is not None and (block := blocks.seek(place)) is not None:
        row = block.keys.find(place)
        while row < len(block.keys):
            key = block.keys[row]
            if not key.startswith(query.prefix):
                return tables, folded, False
            missing = query.amount - rows - len(folded)
            if not missing:
                return tables, folded, True
            common = query.folded(key)
            if common is None:
                last = _unfolded(block.keys, row, query, missing)
                tables.append(block.rows(row, last))
                rows += last - row
                place, row = successor(block.keys[last - 1]), last
            else:
                folded.append(Folded(common, rows))
                place = prefix_end(common)
                if place is None:
                    return tables, folded, False
                row = block.keys.find(place, row)
    return tables, folded, False


def _unfolded(keys: SortedKeys, row: int, query: EntryQuery, amount: int) -> int:
    """Return the end of the run of unfolded rows that begins at `row`."""
    end = prefix_end(query.prefix)
    last = min(row + amount, len(keys) if end is None else keys.find(end, row))
    if not query.delimiter:
        return last
    # Counts are inconclusive for delimiters that could overlap the end of the prefix.
    short = min(row + _SHORT_RUN, last) if len(query.delimiter) == 1 else last
    for other in range(row + 1, short):
        if query.folded(keys[other]) is not None:
            return other
    if short == last:
        return last
    counts = pc.count_substring(keys.array.slice(short, last - short), query.delimiter)
    has_more = pc.greater(counts, query.prefix.count(query.delimiter))
    found: int = pc.index(has_more, value=True).as_py()
    return last if found < 0 else short + found


def _joined(tables: list[pa.Table], schema: pa.Schema) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables).combine_chunks() if tables else schema.empty_table()


class TableBlock:
    """Consecutive rows of a table; see `Block`."""

    def __init__(self, table: pa.Table, keys: SortedKeys | None = None) -> None:
        self._table = table
        self.keys = keys or SortedKeys(one_array(table, "key"))

    def rows(self, first: int, last: int) -> pa.Table:
        return self._table.slice(first, last - first)


class EntryBlocks:
    """The entries of a metarange."""

    def __init__(self, files: Files, metarange: MetaRange) -> None:
        self._files = files
        self._metarange = metarange

    def seek(self, key: bytes) -> TableBlock | None:
        place = self._metarange.position(key)
        if place == len(self._metarange.refs):
            return None
        found = self._files.range(self._metarange.refs[place].range_id)
        return TableBlock(found.table, found.keys)


class DiffBlocks:
    """The differences between two metaranges; only ranges with items are compared.

    With `other`, only differences where the right also differs from `other`. With `rows_max`, no
    more rows are kept, and a range with more is compared again for the rest: a page of versions
    holds many comparisons.
    """

    def __init__(
        self,
        files: Files,
        left: MetaRange,
        right: MetaRange,
        prefix: bytes,
        *,
        other: MetaRange | None = None,
        rows_max: int | None = None,
    ) -> None:
        self._files = files
        self._left = left
        self._right = right
        self._other = other
        self._rows_max = rows_max
        self._end = prefix_end(prefix)
        self._groups: Iterator[Group] | None = None
        self._group: Group | None = None
        self._compared: Group | None = None
        self._tables: Iterator[pa.Table] = iter(())
        self._block: TableBlock | None = None

    def seek(self, key: bytes) -> TableBlock | None:
        while (block := self._read_block(key)) is None:
            group = self._find_group(key)
            if group is None:
                return None
            self._group, self._compared = None, group
            self._tables = diff_steps(self._files, group, key, self._end)
        return block

    def bound(self, key: bytes) -> bytes | None:
        """See `ChangeBlocks`."""
        block = self._read_block(key)
        if block is not None:
            return block.keys[block.keys.find(key)]
        group = self._find_group(key)
        if group is None:
            return None
        return max(key, min(refs[0].min_key for refs in group if refs))

    def _read_block(self, key: bytes) -> TableBlock | None:
        """Return the block at a key in the group last read, or None."""
        while self._block is None or self._block.keys[-1] < key:
            table = next(self._tables, None)
            if table is None:
                return None
            rows = self._differing(table)
            if rows.num_rows:
                self._block = self._cut(TableBlock(rows), key)
        return self._block

    def _cut(self, block: TableBlock, key: bytes) -> TableBlock:
        """Return a block without the rows that need not be kept."""
        if self._rows_max is None or len(block.keys) <= self._rows_max:
            return block
        first = min(block.keys.find(key), len(block.keys) - 1)
        last = min(first + self._rows_max, len(block.keys))
        if last < len(block.keys):
            self._group, self._tables = self._compared, iter(())
        # A slice would keep the memory of the whole table.
        return TableBlock(block.rows(first, last).take(pa.array(range(last - first))))

    def _find_group(self, key: bytes) -> Group | None:
        """Return the next group that can have a key or later keys, or None."""
        if self._groups is None:
            self._groups = differing_groups(self._left, self._right, key, self._end)
        while self._group is None or max(refs[-1].max_key for refs in self._group if refs) < key:
            self._group = next(self._groups, None)
            if self._group is None:
                return None
        return self._group

    def _differing(self, table: pa.Table) -> pa.Table:
        """Return the rows whose keys also differ between the other metarange and the right one."""
        if self._other is None:
            return table
        keys = SortedKeys(one_array(table, "key"))
        start, end = keys[0], successor(keys[-1])
        differing = [
            one_array(found, "key")
            for group in differing_groups(self._other, self._right, start, end)
            for found in diff_steps(self._files, group, start, end)
        ]
        wanted = pa.chunked_array(differing, type=pa.binary())
        return table.filter(pc.is_in(table.column("key"), value_set=wanted))
