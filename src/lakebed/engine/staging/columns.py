"""Columnar parser of staged values.

The general protobuf parser makes an object of each value, and another of each accessed field. Here
all values of a page are parsed together: they lie in one buffer, a cursor has a place in each, and
one field after the other is read at all places at once. This works because protobuf writes the
fields of a message in the order of their numbers. Any other form is left to the general parser,
which also reports errors in unreadable values.

The encoding: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats import CHANGE_SCHEMA

ROWS_MIN: Final = 256
"""Below this number of values, the general parser is faster."""

_BYTES_MAX: Final = 2**31 - 1
_VARINT_BYTES: Final = 10
_PADDING: Final = bytes(2 * _VARINT_BYTES)
_ONE_BYTE: Final = 0x80
_WORD_BYTES: Final = 8
_LENGTH: Final = 2
"""Wire type of length-delimited fields; numbers have 0."""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_Rows = npt.NDArray[np.intp]

_NO_TEXTS: Final = pa.array([], pa.string())

_ONE: Final = np.uint64(1)
_TOPS: Final = np.uint64(0x8080808080808080)
"""The highest bit of each byte of a word: set in each byte of a varint but the last."""

# Combine the low seven bits of each of eight bytes into one number: neighbours, then pairs, then
# fours. Each step: mask of the fixed bits, mask of the moving bits, and the shift.
_STEPS: Final = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]
# Multiplied by a word whose only bit is the lowest of byte n: the highest byte becomes n.
_COUNTS: Final = np.uint64(0x0102030405060708)
_HIGHEST_BYTE: Final = np.uint64(56)


class _UnexpectedEncoding(Exception):
    """A value is not encoded as expected."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Location of each row's text in the buffer, in the order of the rows."""

    starts: _Numbers
    lengths: _Numbers

    def array(self, buffer: pa.Buffer, type_: pa.DataType) -> pa.Array:
        """Return the texts as a column; raises `ArrowInvalid` for invalid UTF-8."""
        count = len(self.starts)
        if not count:
            return pa.array([], type_)
        # For Arrow, the buffer alternates between a text and the bytes up to the next text.
        bounds = np.empty(2 * count, np.int32)
        bounds[::2] = self.starts
        bounds[1::2] = self.starts + self.lengths
        all_of_it = [None, pa.py_buffer(bounds), buffer]
        column = pa.Array.from_buffers(type_, 2 * count - 1, all_of_it).take(_every_second(count))
        if pa.types.is_string(type_):
            column.validate(full=True)
        return column


@lru_cache(maxsize=16)
def _every_second(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2))


class _Cursor:
    """A place in each value, advanced past the fields read."""

    def __init__(self, values: Sequence[bytes]) -> None:
        joined = b"".join([*values, _PADDING])
        if len(joined) > _BYTES_MAX:
            raise _UnexpectedEncoding
        self.buffer = pa.py_buffer(joined)
        self._data = np.frombuffer(self.buffer, np.uint8)
        # The eight bytes from each place on, as numbers.
        places = (len(joined) - _WORD_BYTES,)
        self._words: _Words = np.ndarray(places, "<u8", self.buffer, strides=(1,))
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self.ends: _Numbers = np.cumsum(lengths)
        self.places: _Numbers = self.ends - lengths

    def rows_at(self, tag: int, limits: _Numbers) -> _Rows:
        """Return the rows whose next field is this one, before a limit."""
        return np.flatnonzero((self.places < limits) & (self._data[self.places] == tag))

    def numbers(self, field: int, limits: _Numbers) -> _Numbers:
        """Read a field of numbers; 0 where missing."""
        return self._read(field << 3, limits)

    def texts(self, field: int, limits: _Numbers, *, enter: bool = False) -> _Texts:
        """Read a length-delimited field; with `enter`, stay at its beginning."""
        lengths = self._read(field << 3 | _LENGTH, limits)
        starts = self.places.copy()
        if (lengths < 0).any() or (lengths > limits - starts).any():
            raise _UnexpectedEncoding
        if not enter:
            self.places = starts + lengths
        return _Texts(starts, lengths)

    def _read(self, tag: int, limits: _Numbers) -> _Numbers:
        """Read a tag and a number in the rows that have the tag."""
        values: _Numbers = np.zeros(len(self.places), np.int64)
        found = self.rows_at(tag, limits)
        if not len(found):
            return values
        # Most fields are in all rows, and a slice costs next to nothing.
        rows = slice(None) if len(found) == len(values) else found
        values[rows], sizes = self._varints(self.places[rows] + 1)
        self.places[rows] += 1 + sizes
        if (self.places > limits).any():
            raise _UnexpectedEncoding
        return values

    def _varints(self, places: _Numbers) -> tuple[_Numbers | _Bytes, _Numbers | int]:
        """Return the varint at each place, and its length in bytes."""
        firsts = self._data[places]
        if firsts.max() < _ONE_BYTE:
            return firsts, 1
        words = self._words[places]
        lasts = ~words & _TOPS
        lasts &= ~lasts + _ONE  # the lowest bit set: that of the last byte
        words &= (lasts << _ONE) - _ONE  # clear the bytes after the last byte, if any
        for stays, moves, bits in _STEPS:
            words = words & stays | (words & moves) >> bits
        # The number, from 1, of the byte whose highest bit is set; 0 if none is.
        counts = (lasts >> np.uint64(7)) * _COUNTS >> _HIGHEST_BYTE
        numbers, sizes = words.view(np.int64), counts.view(np.int64)
        long = np.flatnonzero(sizes == 0)
        if len(long):
            ninth, tenth = (self._data[places[long] + at].astype(np.int64) for at in (8, 9))
            goes_on = ninth >= _ONE_BYTE
            if (tenth[goes_on] >= _ONE_BYTE).any():
                raise _UnexpectedEncoding  # the last byte is missing
            numbers[long] |= (ninth & (_ONE_BYTE - 1)) << 56 | (tenth * goes_on) << 63
            sizes[long] = 9 + goes_on
        return numbers, sizes


def parse_columns(
    keys: Sequence[bytes], values: Sequence[bytes], *, prefix_bytes: int
) -> pa.Table | None:
    """Return staged values by `CHANGE_SCHEMA`, or None if the general parser is needed.

    The first `prefix_bytes` of each key are dropped.
    """
    # One slice of the whole column, instead of a copy of each key.
    end = max(map(len, keys), default=prefix_bytes)
    try:
        return _parse(pc.binary_slice(pa.array(keys, pa.binary()), prefix_bytes, end), values)
    except (_UnexpectedEncoding, pa.ArrowInvalid):
        return None


def _parse(keys: pa.Array, values: Sequence[bytes]) -> pa.Table:
    cursor = _Cursor(values)
    buffer = cursor.buffer
    ends = cursor.ends
    identity = cursor.texts(1, ends)
    entry = cursor.texts(2, ends, enter=True)
    limits = entry.starts + entry.lengths

    def text(field: int) -> pa.Array:
        return cursor.texts(field, limits).array(buffer, pa.string())

    columns = {
        "key": keys,
        "identity": identity.array(buffer, pa.binary()),
        "address": text(1),
        "address_type": pa.array(cursor.numbers(2, limits)).cast(pa.int8()),
        "size": pa.array(cursor.numbers(3, limits)),
        "checksum": text(4),
        "mtime": pa.array(cursor.numbers(5, limits)).view(CHANGE_SCHEMA.field("mtime").type),
        "content_type": text(6),
        "metadata": _maps(cursor, limits),
        "tombstone": pa.array(identity.lengths == 0),
    }
    if (cursor.places != limits).any():
        raise _UnexpectedEncoding
    cursor.texts(3, ends)
    if (cursor.places != ends).any():
        raise _UnexpectedEncoding
    return pa.table([columns[field.name] for field in CHANGE_SCHEMA], schema=CHANGE_SCHEMA)


def _maps(cursor: _Cursor, limits: _Numbers) -> pa.Array:
    """Read the pairs of metadata: the first of all rows, then the second, and so on."""
    found: list[tuple[_Rows, _Texts, _Texts]] = []
    while len(rows := cursor.rows_at(7 << 3 | _LENGTH, limits)):
        pair = cursor.texts(7, limits, enter=True)
        ends = pair.starts + pair.lengths
        key, value = cursor.texts(1, ends), cursor.texts(2, ends)
        if (cursor.places != ends).any():
            raise _UnexpectedEncoding
        found.append((rows, key, value))
    bounds = np.zeros(len(limits) + 1, np.int32)
    if not found:
        return pa.MapArray.from_arrays(pa.array(bounds), _NO_TEXTS, _NO_TEXTS)
    rows = np.concatenate([rows for rows, *_ in found])
    order = np.argsort(rows, kind="stable")
    keys, values = (
        _Texts(
            _picked([each.starts for each in texts], found, order),
            _picked([each.lengths for each in texts], found, order),
        ).array(cursor.buffer, pa.string())
        for texts in ([key for _, key, _ in found], [value for *_, value in found])
    )
    np.cumsum(np.bincount(rows, minlength=len(limits)), out=bounds[1:])
    return pa.MapArray.from_arrays(pa.array(bounds), keys, values)


def _picked(
    columns: list[_Numbers], found: list[tuple[_Rows, _Texts, _Texts]], order: _Rows
) -> _Numbers:
    picked = [column[rows] for column, (rows, *_) in zip(columns, found, strict=True)]
    return np.concatenate(picked)[order]
