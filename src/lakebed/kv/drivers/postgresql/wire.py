"""Parameters and values of the store's statements, in the binary form of the protocol."""

import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from psycopg.pq.abc import PGresult

from lakebed.kv.store import Item, item_of_row

_BYTEA: Final = 17
_LENGTH: Final = struct.Struct("!i")
# Array header: one dimension, no nulls, the element type, the length, the first index.
_ARRAY_HEAD: Final = struct.Struct("!iiiii")

int8 = struct.Struct("!q").pack
float8 = struct.Struct("!d").pack


def array(values: Sequence[bytes]) -> bytes:
    """Encode an array of bytea."""
    parts = [_ARRAY_HEAD.pack(1, 0, _BYTEA, len(values), 1)]
    for value in values:
        parts += (_LENGTH.pack(len(value)), value)
    return b"".join(parts)


def value(found: PGresult, row: int, column: int) -> bytes:
    """Return a value that is not null."""
    return cast("bytes", found.get_value(row, column))


def items(found: PGresult) -> list[Item]:
    """Return rows with the columns of an item."""
    get = found.get_value
    return [item_of_row((get(row, 0), get(row, 1), get(row, 2))) for row in range(found.ntuples)]


def items_at(places: Sequence[tuple[bytes, bytes]], found: PGresult) -> list[Item | None]:
    """Return the items at places, from rows of place number, value and version."""
    items: list[Item | None] = [None] * len(places)
    get = cast("Callable[[int, int], bytes]", found.get_value)
    for row in range(found.ntuples):
        place = int.from_bytes(get(row, 0)) - 1
        items[place] = item_of_row((places[place][1], get(row, 1), get(row, 2)))
    return items
