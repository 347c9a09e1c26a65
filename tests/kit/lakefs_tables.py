"""Writes table files in the format of lakeFS, from what is known of the format.

Nothing of the reader is used here: what one misunderstands the other would not undo.
"""

import struct
from collections.abc import Iterable, Sequence

import pyarrow as pa
from awscrt.checksums import crc32c

Row = tuple[bytes, bytes]

MAGIC = bytes.fromhex("f7cff485b741e288")
SET = (1).to_bytes(8, "little")
"""What a key of a row ends with: sequence number zero, and the kind "set"."""


def table(
    rows: Sequence[Row],
    *,
    rows_per_block: int = 50,
    blocks_per_index: int | None = None,
    restart_interval: int = 16,
    compressed: bool = True,
) -> bytes:
    """Return a table; with `blocks_per_index` it has an index of indexes."""
    out = bytearray()

    def add(block: bytes) -> bytes:
        """Append a block, and return its handle."""
        kind = 0
        if compressed:
            block, kind = bytes(pa.compress(block, "snappy", asbytes=True)), 1
        handle = varint(len(out)) + varint(len(block))
        body = block + bytes([kind])
        out.extend(body + struct.pack("<I", masked(crc32c(body))))
        return handle

    index: list[Row] = []
    for begin in range(0, len(rows), rows_per_block):
        part = [(key + SET, value) for key, value in rows[begin : begin + rows_per_block]]
        index.append((part[-1][0], add(block_of(part, restart_interval))))
    properties = [(b"rocksdb.num.entries", varint(len(rows)))]
    if blocks_per_index:
        tops = []
        for begin in range(0, len(index), blocks_per_index):
            part = index[begin : begin + blocks_per_index]
            tops.append((part[-1][0], add(block_of(part, 1))))
        index = tops
        kind = struct.pack("<I", 2)
        properties.append((b"rocksdb.block.based.table.index.type", kind))
    properties_handle = add(block_of(sorted(properties), restart_interval))
    metaindex = add(block_of([(b"rocksdb.properties", properties_handle)], 1))
    index_handle = add(block_of(index, 1))
    handles = (metaindex + index_handle).ljust(40, b"\x00")
    return bytes(out) + b"\x01" + handles + struct.pack("<I", 2) + MAGIC


def block_of(rows: Iterable[Row], restart_interval: int) -> bytes:
    out = bytearray()
    restarts: list[int] = []
    before = b""
    for number, (key, value) in enumerate(rows):
        shared = 0
        if number % restart_interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value))
        out += key[shared:] + value
        before = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts)}II", *restarts, len(restarts))


def value(identity: bytes, data: bytes) -> bytes:
    """A value of a range or a metarange: two parts, each with its length, as Go writes numbers."""
    return varint(2 * len(identity)) + identity + varint(2 * len(data)) + data


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def masked(checksum: int) -> int:
    rotated = (checksum >> 15) | ((checksum & 0x7FFF) << 17)
    return (rotated + 0xA282EAD8) % (1 << 32)
