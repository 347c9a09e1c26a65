"""Listing the objects of a repository in executors: branches, their partitions, their objects.

Branches are found in the storage and not asked of the server, so that those which were deleted are
found too. Partitions sort newest first: an optimized run reads those of a branch up to the first
that is closed, and no further.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import BlockStore, Namespace
from lakebed.gc.paths import branches_folder, partition_made_us
from lakebed.gc.reading import Batches, Transform, rows, texts
from lakebed.gc.rules import stored_object
from lakebed.gc.storage import Storage

STORED_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("born_us", pa.int64()),
        pa.field("made_us", pa.int64()),
    ]
)

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
    """Return the objects of a listing that garbage collection may touch."""
    paths = pc.utf8_slice_codeunits(listed.column("address"), len(str(namespace))).to_pylist()
    sizes = listed.column("size").to_pylist()
    mtimes = listed.column("mtime").cast(pa.int64()).to_pylist()
    found = [
        (one.path, one.size, one.born_us, one.made_us)
        for path, size, mtime_us in zip(paths, sizes, mtimes, strict=True)
        if (one := stored_object(path, size=size, mtime_us=mtime_us)) is not None
    ]
    columns = zip(*found, strict=True) if found else [()] * len(STORED_SCHEMA)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, STORED_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


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
