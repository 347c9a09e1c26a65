"""Encoding of partition, key and cell as single byte strings, for databases of ordered rows.

A row name is the length of the partition, the partition and the key. A row value begins with the
stamp, so that comparing its first bytes compares stamps.
"""

from collections.abc import Callable
from typing import Final

from lakebed.kv.fenced import Cell
from lakebed.kv.store import PARTITIONS_PAGE, VERSION_BYTES, Version, after_prefix

_LENGTH_BYTES: Final = 2
_HEAD: Final = 2 * VERSION_BYTES
_ALIVE: Final = b"\x01"
_DEAD: Final = b"\x00"


def row_name(partition: bytes, key: bytes = b"") -> bytes:
    """Return the name of a row; without a key, the prefix of the partition's rows."""
    return len(partition).to_bytes(_LENGTH_BYTES, "big") + partition + key


def split_name(name: bytes) -> tuple[bytes, bytes]:
    """Return the partition and the key of a row."""
    end = int.from_bytes(name[:_LENGTH_BYTES], "big") + _LENGTH_BYTES
    return name[_LENGTH_BYTES:end], name[end:]


def list_partitions(
    first_name: Callable[[bytes], bytes | None], cursor: bytes
) -> tuple[list[bytes], bytes | None]:
    """Return a page of partitions and the next cursor, as `Store.partition_page`.

    Skip scan: the first row gives the partition; the next partition begins after its prefix.

    Args:
        first_name: Returns the first row name at or after a name, or None.
        cursor: The row name to begin at.
    """
    page: list[bytes] = []
    while len(page) < PARTITIONS_PAGE:
        name = first_name(cursor)
        if name is None:
            return page, None
        page.append(split_name(name)[0])
        cursor = after_prefix(row_name(page[-1]))
    return page, cursor


def pack(cell: Cell) -> bytes:
    """Return a cell as bytes. Whether it is a tombstone is stored elsewhere."""
    return cell.stamp + cell.version + (cell.value or b"")


def unpack(data: bytes, *, tombstone: bool) -> Cell:
    """Inverse of `pack`."""
    stamp, version = data[:VERSION_BYTES], Version(data[VERSION_BYTES:_HEAD])
    return Cell(version, stamp, None if tombstone else data[_HEAD:])


def pack_body(cell: Cell) -> bytes:
    """Return a cell without its stamp, for databases with a separate field for the stamp."""
    return cell.version + (_DEAD if cell.value is None else _ALIVE + cell.value)


def unpack_body(stamp: bytes, body: bytes) -> Cell:
    """Inverse of `pack_body`."""
    version, kind = Version(body[:VERSION_BYTES]), body[VERSION_BYTES : VERSION_BYTES + 1]
    return Cell(version, stamp, body[VERSION_BYTES + 1 :] if kind == _ALIVE else None)
