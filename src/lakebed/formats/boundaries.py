"""Boundaries between ranges: content-defined chunking.

A range ends with a key selected by its hash, or with the row that brings the range to the maximum
size. The first rule alone makes the ranges a function of the keys: rows shared by two commits fall
into the same ranges, and an edit moves no boundary but its own. The second rule depends only on the
rows since the start of the range, so ranges remain a function of the rows, whatever their history;
an edit in a range cut by size can move the following cuts, up to the next key selected by hash.

Because the ending key belongs to the range it ends, the rows of a range alone determine whether the
range is closed: later rows never change it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.formats import ENTRY_SCHEMA, RangeRef, range_id
from lakebed.formats.files import one_array, value_bounds, value_lengths

_U64 = np.uint64
_EACH_INT, _LAST_INT = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
_EACH, _LAST = _U64(_EACH_INT), _U64(_LAST_INT)
_HALF = _U64(32)
_ALL_BITS = (1 << 64) - 1
_WINDOW = 8
# Number of a window's bytes that belong to the key -> mask of these bytes.
_MASKS = np.array([(1 << 8 * count) - 1 for count in range(_WINDOW + 1)], dtype=_U64)

_MAP_COLUMNS = [field.name for field in ENTRY_SCHEMA if pa.types.is_map(field.type)]
_BYTES_COLUMNS = [
    field.name
    for field in ENTRY_SCHEMA
    if field.name not in _MAP_COLUMNS and not pa.types.is_primitive(field.type)
]
# Size of each row's columns of fixed width.
_FIXED_BYTES = sum(
    field.type.bit_width // 8 for field in ENTRY_SCHEMA if pa.types.is_primitive(field.type)
)


@dataclass(frozen=True, slots=True)
class Breaks:
    """Sizes of ranges. Changing them for a repository makes commits share fewer ranges."""

    mean_rows: int = 10_000
    """Average number of entries in a range by the hash rule alone."""

    max_rows: int = 50_000
    """Maximum number of entries in a range."""

    max_bytes: int = 16 << 20
    """A range ends with the row that brings its values to this size in bytes."""

    def ends(
        self, table: pa.Table, sizes: npt.NDArray[np.int64], open_rows: int, open_bytes: int
    ) -> list[int]:
        """Return the row counts after which ranges end; `open_…` is the size of the open range."""
        by_hash = iter(np.flatnonzero(self.ending(one_array(table, "key"))) + 1)
        totals = np.cumsum(sizes)
        ends: list[int] = []
        begin, next_by_hash = 0, next(by_hash, None)
        while begin < table.num_rows:
            size_before = int(totals[begin - 1]) if begin else 0
            by_size = np.searchsorted(totals, size_before + self.max_bytes - open_bytes) + 1
            end = min(begin + self.max_rows - open_rows, int(by_size))
            if next_by_hash is not None and next_by_hash <= end:
                end = int(next_by_hash)
                next_by_hash = next(by_hash, None)
            if end > table.num_rows:
                break
            ends.append(end)
            begin, open_rows, open_bytes = end, 0, 0
        return ends

    def is_closed(self, ref: RangeRef) -> bool:
        """Return whether a range was ended by these rules, not by the end of the entries."""
        return (
            ref.count >= self.max_rows
            or ref.size_bytes >= self.max_bytes
            or self.is_ending(ref.max_key)
        )

    def is_ending(self, key: bytes) -> bool:
        """Return whether a key ends a range by its hash."""
        return key_hash(key) < (1 << 64) // self.mean_rows

    def ending(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return a mask of the keys that end a range by their hash.

        After such a key the cutter has no state. So entries split at these keys, and only there,
        can be cut independently, with the same ranges as when cut together.
        """
        return key_hashes(keys) <= _U64((1 << 64) // self.mean_rows - 1)


class Cutter:
    """Incremental cutting of sorted entries into ranges."""

    def __init__(self, breaks: Breaks) -> None:
        self._breaks = breaks
        self._open: list[pa.Table] = []
        self._rows = 0
        self._bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether some entries wait for the end of their range."""
        return bool(self._open)

    def add(
        self, entries: pa.Table, candidates: Sequence[bytes] | None = None
    ) -> Iterator[pa.Table]:
        """Add entries, each column in one chunk; yield the ranges closed by them.

        `candidates`, if given, contains every key that may end a range by its hash. With few
        candidates, a small edit need not hash all rows of its range.
        """
        if candidates is not None:
            size, rows = _all_bytes(entries), entries.num_rows
            # True if the open range cannot reach a size limit.
            if (
                self._rows + rows < self._breaks.max_rows
                and self._bytes + size < self._breaks.max_bytes
            ):
                ending = [key for key in candidates if self._breaks.is_ending(key)]
                last = one_array(entries, "key")[-1].as_py()
                if ending in ([], [last]):
                    self._wait(entries, size)
                    if ending:
                        yield self.close()
                    return
        begin = 0
        sizes = row_bytes(entries)
        for end in self._breaks.ends(entries, sizes, self._rows, self._bytes):
            self._open.append(entries.slice(begin, end - begin))
            begin = end
            yield self.close()
        if begin < entries.num_rows:
            self._wait(entries.slice(begin), int(sizes[begin:].sum()))

    def _wait(self, entries: pa.Table, size: int) -> None:
        self._open.append(entries)
        self._rows += entries.num_rows
        self._bytes += size

    def close(self) -> pa.Table:
        """Return the open range, and begin a new one; requires `is_open`."""
        rows = pa.concat_tables(self._open)
        self._open, self._rows, self._bytes = [], 0, 0
        return rows


def ref_of(entries: pa.Table) -> RangeRef:
    """Return the metarange row for a range of these entries; one chunk, at least one row."""
    keys = one_array(entries, "key")
    return RangeRef(
        range_id(entries), keys[0].as_py(), keys[-1].as_py(), entries.num_rows, _all_bytes(entries)
    )


def key_hashes(keys: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a well distributed 64-bit hash of each key, covering its length and every byte.

    Effectively part of the format: another hash would cut the same rows into other ranges. Each
    step processes eight bytes of all keys.
    """
    bounds = value_bounds(keys).astype(np.int64)
    lengths = np.diff(bounds)
    hashes = lengths.astype(_U64)
    _mix(hashes, _EACH)
    starts = bounds[:-1] - bounds[0]
    windows = _windows(keys, int(bounds[0]), int(bounds[-1]))
    shortest, longest = (int(lengths.min()), int(lengths.max())) if len(keys) else (0, 0)
    whole = shortest // _WINDOW * _WINDOW
    for place in range(0, whole, _WINDOW):
        hashes ^= windows[starts + place]
        _mix(hashes, _EACH)
    for place in range(whole, longest, _WINDOW):
        rows = np.flatnonzero(lengths > place)
        mask = _MASKS[np.minimum(lengths[rows] - place, _WINDOW)]
        mixed = hashes[rows] ^ (windows[starts[rows] + place] & mask)
        _mix(mixed, _EACH)
        hashes[rows] = mixed
    _mix(hashes, _LAST)
    return hashes


def key_hash(key: bytes) -> int:
    """Return the hash of one key; ten times as fast as `key_hashes` for a single key."""
    # Each step is `_mix` for one value.
    value = len(key) * _EACH_INT & _ALL_BITS
    value ^= value >> 32
    for place in range(0, len(key), _WINDOW):
        value ^= int.from_bytes(key[place : place + _WINDOW], "little")
        value = value * _EACH_INT & _ALL_BITS
        value ^= value >> 32
    value = value * _LAST_INT & _ALL_BITS
    return value ^ value >> 32


def row_bytes(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the size of each row's values in bytes, without the overhead of Arrow or Parquet."""
    sizes = np.full(table.num_rows, _FIXED_BYTES, dtype=np.int64)
    for name in _BYTES_COLUMNS:
        sizes += value_lengths(one_array(table, name))
    for name in _MAP_COLUMNS:
        sizes += _map_bytes(one_array(table, name))
    return sizes


def _all_bytes(table: pa.Table) -> int:
    """Return the sum of `row_bytes`, computed from the first and last offset of each column."""
    size: int = _FIXED_BYTES * table.num_rows
    arrays = [one_array(table, name) for name in _BYTES_COLUMNS]
    for name in _MAP_COLUMNS:
        maps = one_array(table, name)
        first, last = (maps.offsets[place].as_py() for place in (0, -1))
        arrays += (maps.keys[first:last], maps.items[first:last])
    for array in arrays:
        bounds = value_bounds(array)
        size += int(bounds[-1] - bounds[0])
    return size


def _map_bytes(maps: pa.MapArray) -> npt.NDArray[np.int64] | int:
    if not len(maps.keys):
        return 0
    items = value_lengths(maps.keys) + value_lengths(maps.items)
    sizes = np.concatenate([[0], np.cumsum(items, dtype=np.int64)])
    offsets: npt.NDArray[np.int32] = maps.offsets.to_numpy()
    return np.diff(sizes[offsets])


def _mix(hashes: npt.NDArray[np.uint64], multiplier: np.uint64) -> None:
    """Spread every bit upwards, then the well mixed high bits downwards; in place."""
    hashes *= multiplier
    hashes ^= hashes >> _HALF


def _windows(keys: pa.Array, first: int, last: int) -> npt.NDArray[np.uint64]:
    """Return the overlapping eight-byte windows at every offset of the data, as integers."""
    data = np.zeros(last - first + _WINDOW, dtype=np.uint8)
    data[:-_WINDOW] = np.frombuffer(keys.buffers()[2] or b"", dtype=np.uint8)[first:last]
    return np.ndarray((last - first + 1,), dtype="<u8", buffer=data.data, strides=(1,))
