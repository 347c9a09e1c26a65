"""Sorted keys: finding one in a column without making Python objects of all the others."""

from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.engine.errors import UnsortedEntries
from lakebed.formats import EntryRows
from lakebed.formats.entries import one_array


class SortedKeys:
    """A sorted binary column as something to search in; no copy is made."""

    __slots__ = ("_bounds", "_data", "_first", "_length")

    def __init__(self, array: pa.Array) -> None:
        _, bounds, data = array.buffers()
        self._length = len(array)
        self._first = array.offset
        self._bounds = memoryview(bounds or b"").cast("i")
        self._data = memoryview(data or b"")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, row: int) -> bytes:
        place = self._first + (row if row >= 0 else self._length + row)
        return bytes(self._data[self._bounds[place] : self._bounds[place + 1]])

    def find(self, key: bytes, start: int = 0) -> int:
        """Return the index of the first key, from `start` on, that is not below this one."""
        return bisect_left(self, key, start)


class Range:
    """A decoded range: its rows, and its keys ready to search in."""

    __slots__ = ("keys", "rows", "table")

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.keys = SortedKeys(one_array(table, "key"))
        self.rows = EntryRows(table)

    def between(self, start: bytes, end: bytes | None) -> pa.Table:
        """Return the rows with keys from `start` up to, not including, `end`."""
        first = self.keys.find(start)
        last = len(self.keys) if end is None else self.keys.find(end, first)
        return self.table.slice(first, last - first)


def successor(key: bytes) -> bytes:
    """Return the successor of a key: no key lies between the two."""
    return key + b"\x00"


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key behind all that begin with the prefix; None if none can be."""
    stripped = prefix.rstrip(b"\xff")
    if not stripped:
        return None
    return stripped[:-1] + bytes([stripped[-1] + 1])


def check_rising(keys: pa.Array, before: bytes) -> None:
    """Refuse keys that do not rise from row to row, starting above `before`; an empty one, too.

    Raises:
        UnsortedEntries: Two neighbours are equal or in the wrong order.
    """
    if len(keys) and keys[0].as_py() <= before:
        raise UnsortedEntries(before, keys[0].as_py())
    falls = pc.index(pc.less(keys[:-1], keys[1:]), value=False).as_py()
    if falls >= 0:
        raise UnsortedEntries(keys[falls].as_py(), keys[falls + 1].as_py())
