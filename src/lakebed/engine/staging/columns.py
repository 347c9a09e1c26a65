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
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

from lakebed.formats import CHANGE_SCHEMA

ROWS_MIN: Final = 64
"""For fewer values, the general parser is faster."""

_PADDING: Final = bytes(512)
_PIECES_BYTES_MAX: Final = 16 << 20
_TEXT_MAX: Final = 2**31 - 1
_ZERO: Final = np.zeros(1, np.int64)
_NO_BYTES: Final = np.zeros(0, np.uint8)
_VARINT_BYTES: Final = 10
_ONE_BYTE: Final = 0x80
_LENGTH: Final = 2
"""The wire type of what has its length before it; that of numbers is 0."""

_Bytes = npt.NDArray[np.uint8]
_Numbers = npt.NDArray[np.int64]


class _OtherForm(Exception):  # noqa: N818 - it says what was found
    """A value is not written as expected."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """Where each row's text is in the buffer."""

    starts: _Numbers
    lengths: _Numbers

    def array(self, data: _Bytes, type_: pa.DataType) -> pa.Array:
        """Return the texts as a column; raises `ArrowInvalid` for what is not UTF-8."""
        ends = np.cumsum(self.lengths)
        if len(ends) and ends[-1] > _TEXT_MAX:
            raise _OtherForm
        bounds = np.concatenate([_ZERO, ends]).astype(np.int32)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(self._joined(data))]
        column = pa.Array.from_buffers(type_, len(self.lengths), buffers)
        column.validate(full=True)
        return column

    def _joined(self, data: _Bytes) -> _Bytes:
        """Return all texts, one behind the other."""
        longest = int(self.lengths.max(initial=0))
        if longest > len(_PADDING) or longest * len(self.lengths) > _PIECES_BYTES_MAX:
            whole, joined = data.data, bytearray()
            for start, length in zip(self.starts, self.lengths, strict=True):
                joined += whole[start : start + length]
            return np.frombuffer(joined, np.uint8)
        # Pieces of one length are copied much faster; what is too much of them is left out. Beside
        # one long text, many short ones would take many times their memory: see the way above.
        pieces = sliding_window_view(data, max(1, longest))[self.starts]
        if (self.lengths == longest).all():
            return pieces.reshape(-1) if longest else _NO_BYTES
        return pieces[np.arange(longest) < self.lengths[:, np.newaxis]]


class _Cursor:
    """A place in each value, which moves behind the fields that were read."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self.data = np.frombuffer(b"".join(values) + _PADDING, np.uint8)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        self.ends: _Numbers = np.cumsum(lengths)
        self.places: _Numbers = self.ends - lengths

    def rows_at(self, tag: int, limits: _Numbers) -> npt.NDArray[np.intp]:
        """Return the rows in which this field comes next, before a limit."""
        return np.flatnonzero((self.places < limits) & (self.data[self.places] == tag))

    def numbers(self, field: int, limits: _Numbers) -> _Numbers:
        """Read a field of numbers; 0 where it is not."""
        return self._read(self.rows_at(field << 3, limits), limits)

    def texts(self, field: int, limits: _Numbers, *, enter: bool = False) -> _Texts:
        """Read a field of bytes, of text or of a message; with `enter`, stay at its beginning."""
        rows = self.rows_at(field << 3 | _LENGTH, limits)
        lengths = self._read(rows, limits)
        starts = self.places.copy()
        if (lengths < 0).any() or (lengths > limits - starts).any():
            raise _OtherForm
        if not enter:
            self.places = starts + lengths
        return _Texts(starts, lengths)

    def _read(self, rows: npt.NDArray[np.intp], limits: _Numbers) -> _Numbers:
        """Read a tag and a number in some rows."""
        values = np.zeros(len(self.places), np.uint64)
        self.places[rows] += 1
        for position in range(_VARINT_BYTES):
            read = self.data[self.places[rows]]
            low = (read & (_ONE_BYTE - 1)).astype(np.uint64)
            values[rows] |= low << np.uint64(7 * position)
            self.places[rows] += 1
            rows = rows[read >= _ONE_BYTE]
            if not len(rows):
                break
            if (self.places[rows] >= limits[rows]).any():
                raise _OtherForm
        else:
            raise _OtherForm
        return values.view(np.int64)


def parse_columns(keys: Sequence[bytes], values: Sequence[bytes]) -> pa.Table | None:
    """Return staged values as a table by `CHANGE_SCHEMA`; None: the general parser is needed."""
    try:
        return _parse(keys, values)
    except (_OtherForm, pa.ArrowInvalid):
        return None


def _parse(keys: Sequence[bytes], values: Sequence[bytes]) -> pa.Table:
    cursor = _Cursor(values)
    data = cursor.data
    ends = cursor.ends
    identity = cursor.texts(1, ends)
    entry = cursor.texts(2, ends, enter=True)
    limits = entry.starts + entry.lengths

    def text(field: int) -> pa.Array:
        return cursor.texts(field, limits).array(data, pa.string())

    columns = {
        "key": pa.array(keys, pa.binary()),
        "identity": identity.array(data, pa.binary()),
        "address": text(1),
        "address_type": _small(cursor.numbers(2, limits)),
        "size": pa.array(cursor.numbers(3, limits)),
        "checksum": text(4),
        "mtime": pa.array(cursor.numbers(5, limits)).cast(CHANGE_SCHEMA.field("mtime").type),
        "content_type": text(6),
        "metadata": _maps(cursor, limits, data),
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


def _maps(cursor: _Cursor, limits: _Numbers, data: _Bytes) -> pa.Array:
    """Read the pairs of metadata, the first of all rows, then the second, and so on."""
    found: list[tuple[npt.NDArray[np.intp], _Texts, _Texts]] = []
    while len(rows := cursor.rows_at(7 << 3 | _LENGTH, limits)):
        pair = cursor.texts(7, limits, enter=True)
        ends = pair.starts + pair.lengths
        key, value = cursor.texts(1, ends), cursor.texts(2, ends)
        if (cursor.places != ends).any():
            raise _OtherForm
        found.append((rows, key, value))
    rows = np.concatenate([rows for rows, *_ in found]) if found else np.array([], np.intp)
    order = np.argsort(rows, kind="stable")
    keys, values = (
        _Texts(
            _picked([each.starts for each in texts], found, order),
            _picked([each.lengths for each in texts], found, order),
        ).array(data, pa.string())
        for texts in ([key for _, key, _ in found], [value for *_, value in found])
    )
    counts = np.bincount(rows, minlength=len(limits))
    bounds = np.concatenate([_ZERO, np.cumsum(counts)]).astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(bounds), keys, values)


def _picked(
    columns: list[_Numbers],
    found: list[tuple[npt.NDArray[np.intp], _Texts, _Texts]],
    order: npt.NDArray[np.intp],
) -> _Numbers:
    picked = [column[rows] for column, (rows, *_) in zip(columns, found, strict=True)]
    return np.concatenate(picked)[order] if picked else np.array([], np.int64)
