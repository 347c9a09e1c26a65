"""Columnar search, comparison and combination of tables sorted by key.

A key is searched in its column directly, without a Python object for every key. To compare or
combine rows, Arrow's hash lookup finds the rows of one table in the other by key. Rows picked from
two tables are then sorted by key, which on two sorted runs costs little more than a merge.
"""

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.errors import UnsortedEntries
from lakebed.formats import ENTRY_SCHEMA, EntryRows
from lakebed.formats.boundaries import Breaks
from lakebed.formats.files import one_array

DIFF_SCHEMA: Final = ENTRY_SCHEMA.insert(0, pa.field("change", pa.int8(), nullable=False))
"""Columns of a diff: the kind of change (see `ChangeType`) and the entry, from the right side; for
a removed entry, from the left."""

CONFLICT_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("source_change", pa.int8(), nullable=False),
        pa.field("destination_change", pa.int8(), nullable=False),
    ]
)
"""Columns of conflicts: the change of each side relative to the base (`ChangeType`)."""

_NO_DIFFERENCES: Final = DIFF_SCHEMA.empty_table()
_NO_CONFLICTS: Final = CONFLICT_SCHEMA.empty_table()

# Searching a key and cutting the rows costs as much as comparing and sorting several rows.
_FEW_EDITS: Final = 8
_ROWS_FOR_AN_EDIT: Final = 100
# Up to this many rows of base and source, a merge is faster row by row.
_FEW_ROWS: Final = 256
_REMOVAL: Final = -1


_SPARSE: Final = 16
"""With this many rows per searched key, binary searches are faster."""


class SortedKeys:
    """Binary search in a sorted binary column without a copy; iteration works unsorted too."""

    __slots__ = ("_bounds", "_data", "_first", "_length", "array")

    def __init__(self, array: pa.Array) -> None:
        self.array = array
        _, bounds, data = array.buffers()
        self._length = len(array)
        self._first = array.offset
        self._bounds = memoryview(bounds or b"").cast("i")
        self._data = memoryview(data or b"")

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        return map(self.__getitem__, range(self._length))

    def __getitem__(self, row: int) -> bytes:
        place = self._first + (row if row >= 0 else self._length + row)
        return bytes(self._data[self._bounds[place] : self._bounds[place + 1]])

    def find(self, key: bytes, start: int = 0) -> int:
        """Return the index of the first key, from `start` on, at or above `key`."""
        return bisect_left(self, key, start)


class Range:
    """A decoded range with searchable keys."""

    __slots__ = ("_ending", "_rows", "keys", "table")

    def __init__(self, table: pa.Table, *, cut_by: Breaks | None = None) -> None:
        """Wrap some rows; with `cut_by`, rows cut by it: only the last key ends a range."""
        self.table = table
        self.keys = SortedKeys(one_array(table, "key"))
        self._rows: EntryRows | None = None
        self._ending = None if cut_by is None else (cut_by, [self.keys[-1]])

    @property
    def rows(self) -> EntryRows:
        """Access to single rows, prepared on first use."""
        if self._rows is None:
            self._rows = EntryRows(self.table)
        return self._rows

    def candidates(
        self, breaks: Breaks, put_keys: Sequence[bytes] | None = ()
    ) -> list[bytes] | None:
        """Return the keys that may end a range when these rows are cut again with `put_keys`.

        For `Builder.add_rows`. None, for many puts: any key may end a range. If the range was cut
        by the same breaks, only its last key does. An earlier version may have cut by larger
        breaks; then all keys are examined once.
        """
        if put_keys is None:
            return None
        ending = self._ending
        if ending is None or ending[0] != breaks:
            rows = np.flatnonzero(breaks.ending(self.keys.array))
            ending = self._ending = breaks, [self.keys[int(row)] for row in rows]
        return [*put_keys, *ending[1]]

    def between(self, start: bytes, end: bytes | None) -> pa.Table:
        """Return the rows with keys from `start` (inclusive) to `end` (exclusive)."""
        first = self.keys.find(start)
        last = len(self.keys) if end is None else self.keys.find(end, first)
        return self.table.slice(first, last - first)

    def look_up(self, keys: Sequence[bytes]) -> pa.Table:
        """Return the rows of the given sorted keys; missing keys are ignored."""
        first = self.keys.find(keys[0])
        last = self.keys.find(successor(keys[-1]), first)
        if last - first > _SPARSE * len(keys):
            return self.table.take(self._search(keys, first))
        near = self.table.slice(first, last - first)
        wanted = pa.array(keys, pa.binary())
        return near.take(pc.index_in(wanted, value_set=one_array(near, "key")).drop_null())

    def _search(self, keys: Sequence[bytes], place: int) -> pa.Array:
        """Return the rows of sorted keys, each by a binary search behind the previous."""
        found = []
        for key in keys:
            place = self.keys.find(key, place)
            if place == len(self.keys):
                break
            if self.keys[place] == key:
                found.append(place)
        return pa.array(found, pa.int64())


def successor(key: bytes) -> bytes:
    """Return the smallest key above this one."""
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all keys with the prefix, or None if there can be none."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])


def check_rising(keys: pa.Array, before: bytes) -> None:
    """Raise `UnsortedEntries` if keys are empty or do not rise, starting above `before`."""
    if len(keys) and keys[0].as_py() <= before:
        raise UnsortedEntries(before, keys[0].as_py())
    if len(keys) == 1:
        return
    falls = pc.index(pc.less(keys[:-1], keys[1:]), value=False).as_py()
    if falls >= 0:
        raise UnsortedEntries(keys[falls].as_py(), keys[falls + 1].as_py())


class ChangeType(IntEnum):
    """Kind of change of an entry."""

    ADDED = 1
    CHANGED = 2
    """The identity differs; a different address or time alone is not a change."""
    REMOVED = 3


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """Numbers of added, changed and removed entries."""

    added: int = 0
    changed: int = 0
    removed: int = 0

    def __add__(self, other: "ChangeCounts") -> "ChangeCounts":
        return ChangeCounts(
            self.added + other.added, self.changed + other.changed, self.removed + other.removed
        )

    def __bool__(self) -> bool:
        return self != ChangeCounts()


@dataclass(frozen=True, slots=True)
class Edits:
    """Changes to rows: entries to put, and keys to remove; both sorted and disjoint."""

    puts: pa.Table
    removals: pa.Array

    @property
    def few_put_keys(self) -> list[bytes] | None:
        """Keys of the entries to put, or None if there are many."""
        if self.puts.num_rows > _FEW_EDITS:
            return None
        return list(SortedKeys(one_array(self.puts, "key")))


NO_EDITS: Final = Edits(ENTRY_SCHEMA.empty_table(), pa.array([], pa.binary()))
_NOTHING_SPLIT: Final = NO_EDITS, NO_EDITS, _NO_CONFLICTS


def apply_rows(base: pa.Table, edits: Edits) -> tuple[pa.Table, ChangeCounts]:
    """Return the base with the edits applied, and how many of them changed anything.

    A put with the identity of the existing entry leaves the entry unchanged.
    """
    if not base.num_rows:
        return edits.puts, ChangeCounts(added=edits.puts.num_rows)
    count = edits.puts.num_rows + len(edits.removals)
    if not count:
        return base, ChangeCounts()
    is_few = count <= max(_FEW_EDITS, base.num_rows // _ROWS_FOR_AN_EDIT)
    return _apply_few(base, edits) if is_few else _apply_many(base, edits)


def _apply_few(base: pa.Table, edits: Edits) -> tuple[pa.Table, ChangeCounts]:
    """Apply edits singly, slicing the base between them."""
    keys, identities = SortedKeys(one_array(base, "key")), SortedKeys(one_array(base, "identity"))
    put_keys = SortedKeys(one_array(edits.puts, "key"))
    put_identities = SortedKeys(one_array(edits.puts, "identity"))
    puts = zip(put_keys, range(len(put_keys)), strict=True)
    removals = [(key, _REMOVAL) for key in edits.removals.to_pylist()]
    (base_rows,), put_rows = base.to_batches(), edits.puts.to_batches()
    pieces: list[pa.RecordBatch] = []
    begin = added = changed = removed = 0
    for key, row in heapq.merge(puts, removals):
        place = keys.find(key, begin)
        is_there = place < len(keys) and keys[place] == key
        if row == _REMOVAL:
            if not is_there:
                continue
            removed += 1
        elif not is_there:
            added += 1
        elif identities[place] == put_identities[row]:
            continue
        else:
            changed += 1
        pieces.append(base_rows.slice(begin, place - begin))
        if row != _REMOVAL:
            pieces.append(put_rows[0].slice(row, 1))
        begin = place + is_there
    summary = ChangeCounts(added, changed, removed)
    if not summary:
        return base, summary
    pieces.append(base_rows.slice(begin))
    return pa.Table.from_batches(pieces).combine_chunks(), summary


def _apply_many(base: pa.Table, edits: Edits) -> tuple[pa.Table, ChangeCounts]:
    base_keys = one_array(base, "key")
    found = pc.index_in(one_array(edits.puts, "key"), value_set=base_keys)
    added = pc.is_null(found)
    changed = pc.fill_null(_differ(edits.puts, base, found), False)
    removed = pc.index_in(edits.removals, value_set=base_keys).drop_null()
    summary = ChangeCounts(_count(added), _count(changed), len(removed))
    if not summary:
        return base, summary
    replaced = pa.concat_arrays([found.filter(changed), removed])
    kept = base.filter(_none_of(replaced, base.num_rows))
    return _in_order(kept, edits.puts.filter(pc.or_(added, changed))), summary


def diff_rows(left: pa.Table, right: pa.Table) -> pa.Table:
    """Return the differences of the right table, by `DIFF_SCHEMA`."""
    if not left.num_rows:
        return _added_rows(right)
    if not right.num_rows:
        return _removed_rows(left)
    keys, left_keys = one_array(right, "key"), one_array(left, "key")
    # Often nothing changed between the same two keys.
    if keys.equals(left_keys) and _all_identities(right).equals(_all_identities(left)):
        return _NO_DIFFERENCES
    found = pc.index_in(keys, value_set=left_keys)
    known = found.drop_null()
    puts = _put_rows(right, left, found)
    if len(known) == left.num_rows:
        return puts.combine_chunks()
    return _in_order(puts, _removed_rows(left.filter(_none_of(known, left.num_rows))))


def changed_rows(base: pa.Table, edits: Edits) -> pa.Table:
    """Return the changes that edits make to rows, by `DIFF_SCHEMA`.

    Equals `diff_rows` between the rows and the result of `apply_rows`.
    """
    if not base.num_rows:
        return _added_rows(edits.puts)
    base_keys = one_array(base, "key")
    found = pc.index_in(one_array(edits.puts, "key"), value_set=base_keys)
    removed = base.take(pc.index_in(edits.removals, value_set=base_keys).drop_null())
    return _in_order(_put_rows(edits.puts, base, found), _removed_rows(removed))


def differ_at(keys: pa.Array, one: pa.Table, other: pa.Table) -> pa.Array:
    """Return, for each key, whether two tables have different entries, or only one has the key."""
    first, second = (
        _identities(table, pc.index_in(keys, value_set=one_array(table, "key")))
        for table in (one, other)
    )
    return pc.invert(_same(first, second))


def split_changes(
    base: pa.Table, source: pa.Table, destination: pa.Table
) -> tuple[Edits, Edits, pa.Table]:
    """Split the changes of a merge's source by the destination's changes to the same keys.

    Returns:
        Changes to keys unchanged in the destination; changes to keys that the destination changed
            differently; and the latter as conflicts, by `CONFLICT_SCHEMA`. Changes that the
            destination also made are in none of them.
    """
    if base.num_rows + source.num_rows <= _FEW_ROWS:
        return _split_few(base, source, destination)
    delta = diff_rows(base, source)
    return _split_many(delta, base, destination) if delta.num_rows else _NOTHING_SPLIT


def _split_few(
    base: pa.Table, source: pa.Table, destination: pa.Table
) -> tuple[Edits, Edits, pa.Table]:
    was = dict(_identified(base))
    keys, identities = (SortedKeys(one_array(destination, name)) for name in ("key", "identity"))
    free: list[tuple[bytes, int]] = []
    contested: list[tuple[bytes, int]] = []
    conflicts: list[tuple[bytes, ChangeType, ChangeType]] = []
    wanted = {key: (identity, row) for row, (key, identity) in enumerate(_identified(source))}
    for key in sorted(was.keys() | wanted.keys()):
        before = was.get(key)
        theirs, row = wanted.get(key, (None, _REMOVAL))
        if theirs == before:
            continue
        place = keys.find(key)
        ours = identities[place] if place < len(keys) and keys[place] == key else None
        if ours == before:
            free.append((key, row))
        elif ours != theirs:
            contested.append((key, row))
            conflicts.append((key, _change(before, theirs), _change(before, ours)))
    return _pick_edits(source, free), _pick_edits(source, contested), _conflicts(conflicts)


def _identified(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    return zip(*(SortedKeys(one_array(table, name)) for name in ("key", "identity")), strict=True)


def _change(before: bytes | None, after: bytes | None) -> ChangeType:
    """Return the kind of change between two identities; None for no entry."""
    if before is None:
        return ChangeType.ADDED
    return ChangeType.REMOVED if after is None else ChangeType.CHANGED


def _pick_edits(rows: pa.Table, picked: Sequence[tuple[bytes, int]]) -> Edits:
    """Return edits that put a row, given by number, or remove its key."""
    if not picked:
        return NO_EDITS
    put = [row for _, row in picked if row != _REMOVAL]
    removed = [key for key, row in picked if row == _REMOVAL]
    # For one row a slice is ten times cheaper than `take`.
    puts = rows.slice(put[0], 1) if len(put) == 1 else rows.take(pa.array(put, pa.int64()))
    return Edits(puts.combine_chunks(), pa.array(removed, pa.binary()))


def _conflicts(found: Sequence[tuple[bytes, ChangeType, ChangeType]]) -> pa.Table:
    if not found:
        return _NO_CONFLICTS
    columns = zip(*found, strict=True)
    return pa.table([list(column) for column in columns], schema=CONFLICT_SCHEMA)


def _split_many(
    delta: pa.Table, base: pa.Table, destination: pa.Table
) -> tuple[Edits, Edits, pa.Table]:
    """Split the changes of a `diff_rows` table, all at once."""
    keys = one_array(delta, "key")
    in_base = pc.index_in(keys, value_set=one_array(base, "key"))
    in_destination = pc.index_in(keys, value_set=one_array(destination, "key"))
    if in_base.null_count == in_destination.null_count == len(keys):
        return _edits(delta), NO_EDITS, _NO_CONFLICTS  # most sources only add new keys
    was, now = _identities(base, in_base), _identities(destination, in_destination)
    change = one_array(delta, "change")
    removed = pc.equal(change, _int8(ChangeType.REMOVED))
    none = pa.scalar(None, pa.binary())
    wanted = pc.if_else(removed, none, one_array(delta, "identity"))
    agreed = _same(now, wanted)
    untouched = _same(now, was)
    contested = pc.invert(pc.or_(agreed, untouched))
    free = _edits(delta.filter(untouched) if untouched.false_count else delta)
    if not contested.true_count:
        return free, NO_EDITS, _NO_CONFLICTS
    theirs = pc.if_else(
        pc.is_null(was),
        _int8(ChangeType.ADDED),
        pc.if_else(pc.is_null(now), _int8(ChangeType.REMOVED), _int8(ChangeType.CHANGED)),
    )
    conflicts = pa.table([keys, change, theirs], schema=CONFLICT_SCHEMA).filter(contested)
    return free, _edits(delta.filter(contested)), conflicts


def join_edits(one: Edits, other: Edits) -> Edits:
    """Return the edits of both, which must have no key in common."""
    removals = pa.concat_arrays([one.removals, other.removals])
    return Edits(_in_order(one.puts, other.puts), removals.take(pc.sort_indices(removals)))


def _edits(delta: pa.Table) -> Edits:
    removed = pc.equal(one_array(delta, "change"), _int8(ChangeType.REMOVED))
    puts = delta.select(ENTRY_SCHEMA.names)
    if removed.true_count:
        puts = puts.filter(pc.invert(removed))
    return Edits(puts.combine_chunks(), one_array(delta, "key").filter(removed))


def _put_rows(now: pa.Table, before: pa.Table, found: pa.Array) -> pa.Table:
    """Return the rows that are new or differ in identity from their counterparts `found`."""
    added = pc.is_null(found)
    changed = pc.fill_null(_differ(now, before, found), False)
    kinds = pc.if_else(added, _int8(ChangeType.ADDED), _int8(ChangeType.CHANGED))
    either = pc.or_(added, changed)
    return now.filter(either).add_column(0, DIFF_SCHEMA.field(0), kinds.filter(either))


def _added_rows(new: pa.Table) -> pa.Table:
    return new.add_column(0, DIFF_SCHEMA.field(0), _repeat(ChangeType.ADDED, new.num_rows))


def _removed_rows(removed: pa.Table) -> pa.Table:
    return removed.add_column(
        0, DIFF_SCHEMA.field(0), _repeat(ChangeType.REMOVED, removed.num_rows)
    )


def _differ(rows: pa.Table, others: pa.Table, found: pa.Array) -> pa.Array:
    """Return whether each row differs in identity from its counterpart; null if it has none."""
    return pc.not_equal(_all_identities(rows), _identities(others, found))


def _identities(table: pa.Table, rows: pa.Array) -> pa.Array:
    """Return the identities of some rows; null where the row is null."""
    return _all_identities(table).take(rows)


def _all_identities(table: pa.Table) -> pa.Array:
    return one_array(table, "identity")


def _same(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return whether two identities are equal, or both missing, for each row."""
    both_missing = pc.and_(pc.is_null(one), pc.is_null(other))
    return pc.or_(both_missing, pc.fill_null(pc.equal(one, other), False))


def _none_of(rows: pa.Array, count: int) -> pa.Array:
    """Return a mask of `count` rows that excludes `rows`."""
    mask = np.ones(count, dtype=np.bool_)
    mask[rows.to_numpy()] = False
    return pa.array(mask)


def _in_order(one: pa.Table, other: pa.Table) -> pa.Table:
    """Merge two sorted tables without a common key into one sorted table."""
    if not other.num_rows:
        return one.combine_chunks()
    if not one.num_rows:
        return other.combine_chunks()
    rows = pa.concat_tables([one, other]).combine_chunks()
    return rows.take(pc.sort_indices(one_array(rows, "key")))


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask, min_count=0).as_py())


def _int8(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int8())


def _repeat(value: int, count: int) -> pa.Array:
    return pa.repeat(_int8(value), count)
