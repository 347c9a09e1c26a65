"""Entries by the million, made column by column."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats import CHANGE_SCHEMA, ENTRY_SCHEMA

DIRECTORY_FILES = 1000


def numbered_entries(numbers: pa.Array, *, version: int = 0) -> pa.Table:
    """Return entries whose keys rise with their numbers: a thousand files in each directory."""
    count = len(numbers)
    chance = np.random.default_rng([version, count, numbers[0].as_py() if count else 0])
    directories = _digits(pc.divide(numbers, DIRECTORY_FILES), 7)
    keys = _joined("data/directory-", directories, "/part-", _digits(numbers, 10), ".parquet")
    names = [_hexadecimal(chance, count) for _ in range(3)]
    instants = chance.integers(1_600_000_000_000_000, 1_800_000_000_000_000, count)
    columns = {
        "key": keys.cast(pa.binary()),
        "identity": names[0].cast(pa.binary()),
        "address": _joined("repos/lake/branches/main/partition/", names[1]),
        "address_type": np.zeros(count, dtype=np.int8),
        "size": chance.integers(0, 1 << 30, count),
        "checksum": names[2],
        "mtime": pa.array(instants).cast(pa.timestamp("us", tz="UTC")),
        "content_type": pa.repeat("application/octet-stream", count),
        "metadata": pa.MapArray.from_arrays(
            pa.array(np.zeros(count + 1, dtype=np.int32)),
            pa.array([], pa.string()),
            pa.array([], pa.string()),
            ENTRY_SCHEMA.field("metadata").type,
        ),
    }
    return pa.table(columns, schema=ENTRY_SCHEMA)


def as_puts(entries: pa.Table) -> pa.Table:
    """Return changes that put these entries."""
    tombstones = pa.array(np.zeros(entries.num_rows, dtype=np.bool_))
    return entries.append_column("tombstone", tombstones).cast(CHANGE_SCHEMA)


def in_batches(first: int, last: int, step: int, *, rows: int = 64 << 10) -> Iterator[pa.Table]:
    """Yield the entries of every `step`-th number, some at a time."""
    for begin in range(first, last, rows * step):
        yield numbered_entries(pa.array(range(begin, min(last, begin + rows * step), step)))


def _digits(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")


def _joined(*parts: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _hexadecimal(chance: np.random.Generator, count: int) -> pa.Array:
    """Return texts of 32 digits."""
    digits = chance.bytes(16 * count).hex().encode()
    bounds = np.arange(0, 32 * count + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(bounds), pa.py_buffer(digits))
