"""Answers made of whole columns: texts escaped, joined row by row, and taken as bytes.

A row as a Python value costs more than all the rest of an answer of a thousand rows. So where no
value of a column needs escaping, which is the rule, the column goes into the answer as it is. Where
any does, all values of that column are escaped one by one, as a single value would be.
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
    """How values of a column are written inside an answer."""

    __slots__ = ("_escape", "_plain")

    def __init__(self, escape: Callable[[str], str], *, plain: bytes) -> None:
        """Say how one value is escaped.

        Args:
            escape: Escapes one value.
            plain: A text whose UTF-8 has only these bytes is left as it is.
        """
        self._escape = escape
        self._plain = plain

    def __call__(self, column: pa.Array) -> pa.Array:
        """Return all values of a column of texts, escaped."""
        if not len(column) or not _bytes_of(column).translate(None, self._plain):
            return column
        return pa.array(map(self._escape, column.to_pylist()), pa.string())


def all_but(special: bytes) -> bytes:
    """Return all bytes but some."""
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
    """Return the texts of all rows; a part is a column, or a text that each row has."""
    given = [_scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*given, _scalar(""))


@lru_cache(maxsize=1024)
def _scalar(text: str) -> pa.Scalar:
    # To make one takes as long as to copy it into a hundred rows.
    return pa.scalar(text)


def joined(rows: pa.Array, between: Sequence[tuple[int, bytes]] = ()) -> bytes:
    """Return the texts of all rows, with others between them.

    Args:
        rows: The texts of rows, fresh from `rows_of`.
        between: Other texts, each with the number of rows before it; these numbers rise.
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
    """Return all values of a column, one after the other."""
    _, bounds, data = column.buffers()
    ends = memoryview(bounds).cast("i")
    first, last = ends[column.offset], ends[column.offset + len(column)]
    return bytes(memoryview(data or b"")[first:last])


def _ends(column: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Return where each value of a column begins, and where the last one ends."""
    if not len(column):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]
