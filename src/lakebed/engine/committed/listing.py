"""Pages of entries or of differences, with keys that share a prefix folded into one item.

Items are entries and common prefixes, in order of their names. A common prefix is found with its
first key, and all its other keys are jumped over, by binary searches in the range and among the
ranges. So the cost of a page depends on its items, not on how many keys lie below its prefixes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.committed.columns import ChangeType, SortedKeys, prefix_end, successor
from lakebed.engine.committed.diff import diff_steps, differing_groups
from lakebed.engine.committed.files import Files
from lakebed.formats import Entry, MetaRange, entries_of
from lakebed.formats.entries import one_array

ItemT = TypeVar("ItemT")
ItemT_co = TypeVar("ItemT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """All keys that begin alike, up to and including the delimiter, as one item."""

    key: bytes


@dataclass(frozen=True, slots=True)
class DiffEntry:
    """One difference."""

    change: ChangeType
    entry: Entry
    """As it is on the right; for a removed one, as it was on the left."""
    conflict: bool = False
    """Whether the left changed it too, to something else; only when comparing with a base."""


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Some items in order of their names."""

    items: list[ItemT | CommonPrefix]
    has_more: bool
    """Whether others follow."""


@dataclass(frozen=True, slots=True)
class Query:
    """What to list."""

    prefix: bytes = b""
    """Only keys that begin with this."""
    after: bytes = b""
    """Only items with names above this one, which is the last item of the page before."""
    delimiter: bytes = b""
    """Fold keys that have this somewhere behind the prefix; empty: fold nothing."""
    amount: int = 1000
    """The largest number of items."""

    def folded(self, key: bytes) -> bytes | None:
        """Return the common prefix that a key is folded into, if any."""
        if not self.delimiter or not key.startswith(self.prefix):
            return None
        place = key.find(self.delimiter, len(self.prefix))
        return None if place < 0 else key[: place + len(self.delimiter)]

    def first_key(self) -> bytes | None:
        """Return the first key that the page may have; None: it can have none."""
        common = self.folded(self.after)
        begin = successor(self.after) if common is None else prefix_end(common)
        return None if begin is None else max(self.prefix, begin)


class Block(Protocol[ItemT_co]):
    """Neighbouring rows that were read together."""

    @property
    def keys(self) -> SortedKeys:
        """Their keys."""

    def items(self, first: int, last: int) -> Sequence[ItemT_co]:
        """Return some of the rows as items."""


class Blocks(Protocol[ItemT_co]):
    """Where a page takes its rows from."""

    def seek(self, key: bytes) -> Block[ItemT_co] | None:
        """Return the block with the first row at or above a key; None: there is no such row.

        The key is never below that of the call before.
        """


def fill_page(blocks: Blocks[ItemT], query: Query) -> Page[ItemT]:
    """Return the first items of a query."""
    page: Page[ItemT] = Page([], has_more=False)
    place = query.first_key()
    while place is not None and (block := blocks.seek(place)) is not None:
        row = block.keys.find(place)
        while row < len(block.keys):
            key = block.keys[row]
            if not key.startswith(query.prefix):
                return page
            if len(page.items) == query.amount:
                return Page(page.items, has_more=True)
            common = query.folded(key)
            if common is None:
                last = _unfolded(block.keys, row, query, query.amount - len(page.items))
                page.items.extend(block.items(row, last))
                place, row = successor(block.keys[last - 1]), last
            else:
                page.items.append(CommonPrefix(common))
                place = prefix_end(common)
                if place is None:
                    return page
                row = block.keys.find(place, row)
    return page


def _unfolded(keys: SortedKeys, row: int, query: Query, amount: int) -> int:
    """Return where a run of rows ends that are not folded; the first one is not."""
    end = prefix_end(query.prefix)
    last = min(row + amount, len(keys) if end is None else keys.find(end, row))
    if query.delimiter:
        for other in range(row + 1, last):
            if query.folded(keys[other]) is not None:
                return other
    return last


class EntryBlock:
    """Neighbouring entries; see `Block`."""

    def __init__(self, table: pa.Table, keys: SortedKeys) -> None:
        self._table = table
        self.keys = keys

    def items(self, first: int, last: int) -> list[Entry]:
        return entries_of(self._table.slice(first, last - first))


class EntryBlocks:
    """The entries of a metarange."""

    def __init__(self, files: Files, metarange: MetaRange) -> None:
        self._files = files
        self._metarange = metarange

    def seek(self, key: bytes) -> EntryBlock | None:
        """See `Blocks`."""
        place = self._metarange.position(key)
        if place == len(self._metarange.refs):
            return None
        found = self._files.range(self._metarange.refs[place].range_id)
        return EntryBlock(found.table, found.keys)


class DiffBlock:
    """Neighbouring differences; see `Block`."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self.keys = SortedKeys(one_array(table, "key"))

    def items(self, first: int, last: int) -> list[DiffEntry]:
        rows = self._table.slice(first, last - first)
        changes = rows.column("change").to_pylist()
        return [
            DiffEntry(ChangeType(change), entry)
            for change, entry in zip(changes, entries_of(rows), strict=True)
        ]


class DiffBlocks:
    """The differences between two metaranges; only ranges that hold items are compared.

    With `other`, only those of them where the right differs from that one too.
    """

    def __init__(
        self,
        files: Files,
        left: MetaRange,
        right: MetaRange,
        query: Query,
        *,
        other: MetaRange | None = None,
    ) -> None:
        self._files = files
        self._right = right
        self._other = other
        self._end = prefix_end(query.prefix)
        self._groups = differing_groups(left, right, query.first_key() or b"", self._end)
        self._tables: Iterator[pa.Table] = iter(())
        self._block: DiffBlock | None = None

    def seek(self, key: bytes) -> DiffBlock | None:
        """See `Blocks`."""
        while self._block is None or self._block.keys[-1] < key:
            table = next(self._tables, None)
            if table is not None:
                rows = self._apart(table)
                if rows.num_rows:
                    self._block = DiffBlock(rows)
                continue
            group = next(self._groups, None)
            if group is None:
                return None
            if max(refs[-1].max_key for refs in group if refs) >= key:
                self._tables = diff_steps(self._files, group, key, self._end)
        return self._block

    def _apart(self, table: pa.Table) -> pa.Table:
        """Return the rows whose keys differ between the other metarange and the right one too."""
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
