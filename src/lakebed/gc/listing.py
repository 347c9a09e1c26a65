"""Listing the objects of a repository in executors: branches, their partitions, their objects.

Branches are found in the storage and not asked of the server, so that those which were deleted are
found too. Partitions sort newest first: an optimized run reads those of a branch up to the first
that is closed, and no further.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockStore, Namespace
from lakebed.gc.paths import (
    ISSUED_FROM,
    MADE_FROM,
    OBJECT_PATTERN,
    TIME_MAX,
    branches_folder,
    partition_made_us,
)
from lakebed.gc.reading import Batches, Transform, rows, texts
from lakebed.gc.storage import Storage

STORED_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("born_us", pa.int64()),
        pa.field("made_us", pa.int64()),
    ]
)

_DIGITS: Final = 16
_LETTER_A: Final = 97

# Sorts after every character that a name can hold.
_LAST: Final = "\U0010ffff"


def branches(storage: Storage) -> Transform:
    """From unique ids of repositories to the folders of their branches."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            folder = branches_folder(row["repository_uid"])
            for name in folders(storage.block, storage.namespace.folder(folder)):
                yield texts("folder", [f"{folder}{name}/"])

    return read


def partitions(storage: Storage, closed_before_us: int) -> Transform:
    """From folders of branches to those of their partitions that are not closed."""

    def read(batches: Batches) -> Batches:
        for row in rows(batches):
            folder = row["folder"]
            for name in folders(storage.block, storage.namespace.folder(folder)):
                made_us = partition_made_us(name)
                if made_us is None:
                    continue
                if made_us < closed_before_us:
                    break  # so are all that follow, which are older
                yield texts("folder", [f"{folder}{name}/"])

    return read


def objects(storage: Storage) -> Transform:
    """From folders of partitions to their objects."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            folder = storage.namespace.folder(row["folder"])
            for listed in storage.block.list_objects(folder):
                yield stored_objects(listed, storage.namespace)

    return read


def stored_objects(listed: pa.RecordBatch, namespace: Namespace) -> pa.RecordBatch:
    """Return the objects of a listing that garbage collection may touch.

    The same as `lakebed.gc.rules.stored_object` for each, column by column: a listing has millions.
    """
    paths = pc.utf8_slice_codeunits(listed.column("address"), len(str(namespace)))
    is_own = pc.match_substring_regex(paths, f"^{OBJECT_PATTERN}$")
    paths = paths.filter(is_own)
    made_us = TIME_MAX - _numbers(pc.utf8_slice_codeunits(paths, MADE_FROM, MADE_FROM + _DIGITS))
    issued_us = _numbers(pc.utf8_slice_codeunits(paths, ISSUED_FROM, ISSUED_FROM + _DIGITS))
    mtime_us = listed.column("mtime").cast(pa.int64()).filter(is_own).to_numpy()
    born_us = np.maximum(issued_us.astype(np.int64), mtime_us)
    columns = [paths, listed.column("size").filter(is_own), born_us, made_us.astype(np.int64)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], schema=STORED_SCHEMA
    )


def _numbers(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return numbers that are spelled with 16 hexadecimal digits."""
    # The digits are ASCII: 0-9 are 48-57, a-f are 97-102.
    digits = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8).reshape(-1, _DIGITS)
    values = np.where(digits < _LETTER_A, digits - 48, digits - 87).astype(np.uint64)
    shifts = np.arange(4 * (_DIGITS - 1), -1, -4, dtype=np.uint64)
    numbers: npt.NDArray[np.uint64] = np.bitwise_or.reduce(values << shifts, axis=1)
    return numbers


def folders(block: BlockStore, parent: Namespace) -> Iterator[str]:
    """Iterate over the names of the folders in one, in order, with one look each."""
    after = None
    prefix = len(str(parent))
    while True:
        batch = next(iter(block.list_objects(parent, start_after=after)), None)
        if batch is None:
            return
        path = batch.column("address")[0].as_py()[prefix:]
        name, slash, _ = path.partition("/")
        if slash:
            yield name
        after = parent.address(f"{name}/{_LAST}" if slash else name)
