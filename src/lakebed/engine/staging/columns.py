"""Staged values, many at a time, as columns.

The general parser of protobuf makes an object of each value, and every field that is asked for
makes another one. Here all values of a page are read together: they lie in one buffer, each has a
place in it, and one field after the other is read at all places at once. That works because
protobuf writes the fields of a message in the order of their numbers. Whatever looks otherwise is
left to the general parser, which also says what is wrong with a value that cannot be read.

The description of the bytes: https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.formats import CHANGE_SCHEMA

ROWS_MIN: Final = 256
"""For fewer values, the general parser is faster."""

_BYTES_MAX: Final = 2**31 - 1
_VARINT_BYTES: Final = 10
_PADDING: Final = bytes(2 * _VARINT_BYTES)
_ONE_BYTE: Final = 0x80
_LENGTH: Final = 2
"""The wire type of what has its length before it; that of numbers is 0."""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]
_Rows = npt.NDArray[np.intp]

_NO_TEXTS: Final = pa.array([], pa.string())
_SHIFTS: Final = np.arange(0, 7 * _VARINT_BYTES, 7, dtype=np.uint64)


class _OtherForm(Exception):  # noqa: N818 - it says what was found
    """A value is not written as expected."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Where each row's text is in the buffer; they lie there in the order of the rows."""

    starts: _Numbers
    lengths: _Numbers

    def array(self, buffer: pa.Buffer, type_: pa.DataType) -> pa.Array:
        """Return the texts as a column; raises `ArrowInvalid` for what is not UTF-8."""
        count = len(self.starts)
        if not count:
            return pa.array([], type_)
        # As Arrow sees it, the buffer is a text, what lies behind it, the next text, and so on.
        bounds = np.empty(2 * count, np.int32)
        bounds[::2] = self.starts
        bounds[1::2] = self.starts + self.lengths
        all_of_it = [None, pa.py_buffer(bounds), buffer]
        column = pa.Array.from_buffers(type_, 2 * count - 1, all_of_it).take(_every_other(count))
        if pa.types.is_string(type_):
            column.validate(full=True)
        return column


@lru_cache(maxsize=16)
def _every_other(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2))


class _Cursor:
    """A place in each value, which moves behind the fields that were read."""

    def __init__(self, values: Sequence[bytes]) -> None:
        joined = b"".join([*values, _PADDING])
        if len(joined) > _BYTES_MAX:
            raise _OtherForm
        self.buffer = pa.py_buffer(joined)
        self._data = np.frombuffer(self.buffer, np.uint8)
        # The bytes of a number, if one began at this place.
        places = (len(joined) - _VARINT_BYTES, _VARINT_BYTES)
        self._numbers: _Bytes = np.ndarray(places, np.uint8, self.buffer, strides=(1, 1))
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self.ends: _Numbers = np.cumsum(lengths)
        self.places: _Numbers = self.ends - lengths

    def rows_at(self, tag: int, limits: _Numbers) -> _Rows:
        """Return the rows in which this field comes next, before a limit."""
        return np.flatnonzero((self.places < limits) & (self._data[self.places] == tag))

    def numbers(self, field: int, limits: _Numbers) -> _Numbers:
        """Read a field of numbers; 0 where it is not."""
        return self._read(field << 3, limits)

    def texts(self, field: int, limits: _Numbers, *, enter: bool = False) -> _Texts:
        """Read a field of bytes, of text or of a message; with `enter`, stay at its beginning."""
        lengths = self._read(field << 3 | _LENGTH, limits)
        starts = self.places.copy()
        if (lengths < 0).any() or (lengths > limits - starts).any():
            raise _OtherForm
        if not enter:
            self.places = starts + lengths
        return _Texts(starts, lengths)

    def _read(self, tag: int, limits: _Numbers) -> _Numbers:
        """Read a tag and a number in the rows that have it."""
        values: _Numbers = np.zeros(len(self.places), np.int64)
        found = self.rows_at(tag, limits)
        if not len(found):
            return values
        # All rows have most fields, and a slice costs next to nothing.
        rows = slice(None) if len(found) == len(values) else found
        values[rows], sizes = _varints(self._numbers[self.places[rows] + 1])
        self.places[rows] += 1 + sizes
        if (self.places > limits).any():
            raise _OtherForm
        return values


def _varints(numbers: _Bytes) -> tuple[_Numbers, _Numbers | int]:
    """Return the number that each row begins with, and how many bytes of the row it has."""
    firsts = numbers[:, 0]
    if firsts.max() < _ONE_BYTE:
        return firsts.astype(np.int64), 1
    goes_on = numbers >= _ONE_BYTE
    lasts = goes_on.argmin(axis=1)
    if (firsts[lasts == 0] >= _ONE_BYTE).any():
        raise _OtherForm  # no byte of it is the last one
    columns = np.arange(lasts.max() + 1)
    bits = (numbers[:, columns] & (_ONE_BYTE - 1)).astype(np.uint64) << _SHIFTS[columns]
    bits *= columns <= lasts[:, np.newaxis]
    return bits.sum(axis=1).view(np.int64), lasts + 1


def parse_columns(keys: Sequence[bytes], values: Sequence[bytes]) -> pa.Table | None:
    """Return staged values as a table by `CHANGE_SCHEMA`; None: the general parser is needed."""
    try:
        return _parse(keys, values)
    except (_OtherForm, pa.ArrowInvalid):
        return None


def _parse(keys: Sequence[bytes], values: Sequence[bytes]) -> pa.Table:
    cursor = _Cursor(values)
    buffer = cursor.buffer
    ends = cursor.ends
    identity = cursor.texts(1, ends)
    entry = cursor.texts(2, ends, enter=True)
    limits = entry.starts + entry.lengths

    def text(field: int) -> pa.Array:
        return cursor.texts(field, limits).array(buffer, pa.string())

    columns = {
        "key": pa.array(keys, pa.binary()),
        "identity": identity.array(buffer, pa.binary()),
        "address": text(1),
        "address_type": _small(cursor.numbers(2, limits)),
        "size": pa.array(cursor.numbers(3, limits)),
        "checksum": text(4),
        "mtime": pa.array(cursor.numbers(5, limits)).view(CHANGE_SCHEMA.field("mtime").type),
        "content_type": text(6),
        "metadata": _maps(cursor, limits),
        "tombstone": pa.array(identity.lengths == 0),
    }
    if (cursor.places != limits).any():
        raise _OtherForm
    cursor.texts(3, ends)
    if (cursor.places != ends).any():
        raise _OtherForm
    return pa.table([columns[field.name] for field in CHANGE_SCHEMA], schema=CHANGE_SCHEMA)


def _small(numbers: _Numbers) -> pa.Array:
    return pa.array(numbers).cast(pa.int8())


def _maps(cursor: _Cursor, limits: _Numbers) -> pa.Array:
    """Read the pairs of metadata, the first of all rows, then the second, and so on."""
    found: list[tuple[_Rows, _Texts, _Texts]] = []
    while len(rows := cursor.rows_at(7 << 3 | _LENGTH, limits)):
        pair = cursor.texts(7, limits, enter=True)
        ends = pair.starts + pair.lengths
        key, value = cursor.texts(1, ends), cursor.texts(2, ends)
        if (cursor.places != ends).any():
            raise _OtherForm
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
    columns: list[_Numbers],
    found: list[tuple[_Rows, _Texts, _Texts]],
    order: _Rows,
) -> _Numbers:
    picked = [column[rows] for column, (rows, *_) in zip(columns, found, strict=True)]
    return np.concatenate(picked)[order]
