"""Reader of lakeFS's metadata files: RocksDB block-based tables, format version 2.

The footer at the end of a table points to the *metaindex* block, which points to the properties,
and to the *index* block, which points to the data blocks, in large tables through a second index
level. Each block is followed by a byte for its compression and by a checksum.

In a block, rows are sorted by key, and keys are prefix-compressed::

    <shared bytes> <other bytes> <bytes of the value>  other part of the key, value
"""

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from awscrt.checksums import crc32c

from lakebed.clients.migrate.errors import DamagedTable

_FOOTER_BYTES: Final = 53
_MAGIC: Final = bytes.fromhex("f7cff485b741e288")
_FORMAT: Final = 2
_CRC32C: Final = 1
_TRAILER_BYTES: Final = 5
_PLAIN, _SNAPPY_KIND = 0, 1
_INDEX_TYPE: Final = b"rocksdb.block.based.table.index.type"
_TWO_LEVELS: Final = (2).to_bytes(4, "little")
_MORE: Final = 0x80
"""Continuation bit of a varint."""

_KEY_TAIL_BYTES: Final = 8
"""Length of the sequence number and the type at the end of a key."""

_BLOCK_BYTES_MAX: Final = 1 << 30
_SNAPPY: Final = pa.Codec("snappy")

Rows = tuple[list[bytes], list[bytes]]
"""Keys and values."""


class Table:
    """A table file in memory."""

    def __init__(self, data: bytes, name: str) -> None:
        """Open a table; `name` is for error messages."""
        self._data = data
        self._name = name
        try:
            metaindex, self._index = self._footer()
            found = dict(zip(*_rows(self._block(*metaindex)), strict=True))
            handle = found.get(b"rocksdb.properties")
            self.properties: dict[bytes, bytes] = {}
            """The properties of the table."""
            if handle is not None:
                keys, values = _rows(self._block(*_handle(handle)))
                self.properties = dict(zip(keys, values, strict=True))
        except (IndexError, struct.error, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error

    def rows(self) -> Iterator[Rows]:
        """Yield the keys and values of each block, sorted by key."""
        try:
            for handle in self._handles():
                keys, values = _rows(self._block(*_handle(handle)))
                yield [key[:-_KEY_TAIL_BYTES] for key in keys], values
        except (IndexError, struct.error, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error

    def _handles(self) -> Iterator[bytes]:
        _, handles = _rows(self._block(*self._index))
        if self.properties.get(_INDEX_TYPE) != _TWO_LEVELS:
            yield from handles
            return
        for handle in handles:
            yield from _rows(self._block(*_handle(handle)))[1]

    def _footer(self) -> tuple[tuple[int, int], tuple[int, int]]:
        footer = self._data[-_FOOTER_BYTES:]
        if len(footer) < _FOOTER_BYTES or not footer.endswith(_MAGIC):
            raise self._damaged("it has no table footer")
        (version,) = struct.unpack_from("<I", footer, _FOOTER_BYTES - len(_MAGIC) - 4)
        if version != _FORMAT or footer[0] != _CRC32C:
            raise self._damaged(f"it has format {version} with checksums of kind {footer[0]}")
        offset, at = read_varint(footer, 1)
        size, at = read_varint(footer, at)
        return (offset, size), _handle(footer[at:])

    def _block(self, offset: int, size: int) -> bytes:
        end = offset + size
        if end + _TRAILER_BYTES > len(self._data):
            raise self._damaged(f"it is truncated: a block should end at byte {end}")
        kind = self._data[end]
        (stored,) = struct.unpack_from("<I", self._data, end + 1)
        checksum = crc32c(self._data[offset : end + 1])
        # Stored in masked form.
        if ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF != stored:
            raise self._damaged(f"the block at byte {offset} has a wrong checksum")
        if kind == _PLAIN:
            return self._data[offset:end]
        if kind != _SNAPPY_KIND:
            raise self._damaged(f"the block at byte {offset} has the unknown compression {kind}")
        raw = self._data[offset:end]
        whole, _ = read_varint(raw, 0)
        if whole > _BLOCK_BYTES_MAX:
            raise self._damaged(f"the block at byte {offset} claims {whole} bytes")
        unpacked: bytes = _SNAPPY.decompress(raw, whole, asbytes=True)
        return unpacked

    def _damaged(self, reason: str) -> DamagedTable:
        return DamagedTable(self._name, reason)


def _rows(block: bytes) -> Rows:
    """Return the keys and values of a block. The restart points at its end are not needed."""
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restarts + 1)
    keys: list[bytes] = []
    values: list[bytes] = []
    at, key = 0, b""
    while at < end:
        shared, other, length, more = block[at : at + 4]
        # Nearly always, the first two fit in a byte, and the third in one or two.
        if shared | other | length < _MORE:
            at += 3
        elif shared | other | more < _MORE:
            length += (more - 1) * _MORE
            at += 4
        else:
            shared, at = read_varint(block, at)
            other, at = read_varint(block, at)
            length, at = read_varint(block, at)
        key = key[:shared] + block[at : at + other]
        at += other
        keys.append(key)
        values.append(block[at : at + length])
        at += length
    if at != end:
        raise IndexError("a row exceeds its block")
    return keys, values


def _handle(data: bytes) -> tuple[int, int]:
    """Return the offset and the size of a block."""
    offset, at = read_varint(data, 0)
    return offset, read_varint(data, at)[0]


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and the position after it."""
    value = data[at]
    at += 1
    if value < _MORE:
        return value, at
    value -= _MORE
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, at
        shift += 7
