"""Answers built from whole Arrow columns: escape the texts, join them row by row, return bytes.

A row as a Python value costs more than the rest of an answer of a thousand rows. So a column
without values that need escaping, the common case, is copied unchanged. If any value needs
escaping, all values of the column are escaped one by one.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ALL_BYTES: Final = bytes(range(256))
_MICROSECONDS: Final = pa.scalar(1_000_000)


class Escaping:
    """Escaping of a column's values inside an answer."""

    __slots__ = ("_escape", "_plain")

    def __init__(self, escape: Callable[[str], str], *, plain: bytes) -> None:
        """Take the escaping of one value; text of only `plain` bytes is not escaped."""
        self._escape = escape
        self._plain = plain

    def __call__(self, column: pa.Array) -> pa.Array:
        """Return all values of a column of texts, escaped."""
        if not len(column) or not _bytes_of(column).translate(None, self._plain):
            return column
        return pa.array(map(self._escape, column.to_pylist()), pa.string())


def all_but(special: bytes) -> bytes:
    """Return all bytes except `special`."""
    return _ALL_BYTES.translate(None, special)


def texts_of(keys: pa.Array) -> pa.Array:
    """Return a column of keys as texts; bytes that are not UTF-8 are replaced."""
    if not len(keys) or _bytes_of(keys).isascii():
        return keys.view(pa.string())
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())


def seconds_of(times: pa.Array) -> pa.Array:
    """Return a column of times in seconds since 1970, as texts."""
    return pc.divide(times.view(pa.int64()), _MICROSECONDS).cast(pa.string())


def rows_of(*parts: str | pa.Array) -> pa.Array:
    """Return the texts of all rows; a part is a column, or a text repeated in each row."""
    given = [_scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*given, _scalar(""))


@lru_cache(maxsize=1024)
def _scalar(text: str) -> pa.Scalar:
    # Creating a scalar takes as long as copying it into a hundred rows.
    return pa.scalar(text)


def joined(rows: pa.Array, between: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Return the texts of all rows as bytes, with other texts between them.

    `rows` is the result of `rows_of`. Each text of `between` has the number of rows before it, in
    ascending order.
    """
    whole = _bytes_of(rows) if len(rows) else b""
    if not between:
        return whole
    ends = _ends(rows)
    pieces = []
    begin = 0
    for rows_before, text in between:
        end = int(ends[rows_before] - ends[0])
        pieces += [whole[begin:end], text]
        begin = end
    return b"".join([*pieces, whole[begin:]])


def _bytes_of(column: pa.Array) -> bytes:
    """Return the concatenated bytes of a column."""
    _, bounds, data = column.buffers()
    ends = memoryview(bounds).cast("i")
    first, last = ends[column.offset], ends[column.offset + len(column)]
    return bytes(memoryview(data or b"")[first:last])


def _ends(column: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Return the offset of each value of a column, and the end of the last value."""
    if not len(column):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]
