"""The id of a table: a hash of its logical content, whatever its memory or file looks like.

Two tables have the same id exactly if they have the same rows in the same order. How Arrow chunks,
slices or pads them, and how Parquet encodes and compresses them, does not matter. An id can
therefore be computed before a file is written, stays the same when the Parquet library changes, and
is checked against what a reader decoded.

    id      = SHA-256 of: kind, row count, and for each column its name and digest
    column  = SHA-256 of: fixed width: the values, little-endian
                          bytes, text: all lengths (int32), then all bytes
                          map:         all lengths (int32), then the digests of the flattened keys
                                       and of the flattened values

Every part has a fixed size or comes after its length, so no two contents spell the same input.
There are no nulls: the schemas forbid them. Columns are hashed buffer by buffer, which costs about
as much as copying them a few times; SHA-256 is the fastest good hash where the processor has
instructions for it, as all current servers do.
"""

import hashlib
import struct

import pyarrow as pa
import pyarrow.compute as pc


def content_id(kind: str, table: pa.Table) -> str:
    """Return the id of a table of a kind (``range``, ``metarange``), in hexadecimal."""
    total = hashlib.sha256(_framed(kind.encode()))
    total.update(struct.pack("<q", table.num_rows))
    for name, column in zip(table.column_names, table.columns, strict=True):
        total.update(_framed(name.encode()))
        total.update(_digest(_contiguous(column)))
    return total.hexdigest()


def _framed(text: bytes) -> bytes:
    return struct.pack("<q", len(text)) + text


def _contiguous(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def _digest(array: pa.Array) -> bytes:
    if array.null_count:
        raise TypeError("a column with nulls has no digest")
    if pa.types.is_map(array.type):
        return _digest_map(array)
    digest = hashlib.sha256()
    if pa.types.is_binary(array.type) or pa.types.is_string(array.type):
        digest.update(_fixed_width(pc.binary_length(array)))
        digest.update(_data(array))
    else:
        digest.update(_fixed_width(array))
    return digest.digest()


def _digest_map(array: pa.MapArray) -> bytes:
    offsets = array.offsets
    digest = hashlib.sha256(_fixed_width(pc.subtract(offsets[1:], offsets[:-1])))
    # Of a slice, `keys` and `items` are still those of the whole array.
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    for flat in (array.keys, array.items):
        digest.update(_digest(flat[first:last]))
    return digest.digest()


def _fixed_width(array: pa.Array) -> memoryview | bytes:
    values = array.buffers()[1]
    if values is None:
        return b""
    width = array.type.bit_width // 8
    return memoryview(values)[array.offset * width : (array.offset + len(array)) * width]


def _data(array: pa.Array) -> memoryview | bytes:
    _, offsets, data = array.buffers()
    if offsets is None or data is None:
        return b""
    bounds = memoryview(offsets).cast("i")
    return memoryview(data)[bounds[array.offset] : bounds[array.offset + len(array)]]
