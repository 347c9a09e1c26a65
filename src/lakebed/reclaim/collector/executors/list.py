"""Listing of a repository's objects in executors: branches, partitions, objects.

Branches are listed in the storage instead of the record store, so that deleted branches are found.
Partitions sort newest first: an optimized run reads a branch's up to the first closed partition.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import Namespace
from lakebed.formats.gc_files import GCAdopted
from lakebed.formats.layout import LAKEBED_FOLDER
from lakebed.formats.object_paths import (
    ISSUED_FROM,
    MADE_FROM,
    TIME_DIGITS,
    WHOLE_PATH_PATTERN,
    branches_folder,
    partition_made_us,
)
from lakebed.reclaim.collector.executors.read import TALLY, Batches, Transform, rows, texts
from lakebed.reclaim.collector.rules import is_adopted
from lakebed.reclaim.collector.storage import Storage

STORED_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("born_us", pa.int64()),
        pa.field("made_us", pa.int64()),
    ]
)

_FOLDERS: Final = 1000
_BRANCHES: Final = 256
_AT_ONCE: Final = 16
_ALL_ONES: Final = np.uint64((1 << 64) - 1)
_LETTER_A: Final = 97


def list_branches(storage: Storage) -> Transform:
    """Map unique ids of repositories to the folders of their branches; keep adopted folders."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            if is_adopted(row["repository_uid"]):
                yield from _as_batches(iter([row["repository_uid"]]))
                continue
            folder = branches_folder(row["repository_uid"])
            names = storage.block.list_folders(storage.namespace.folder(folder))
            yield from _as_batches(f"{folder}{name}/" for name in names)

    return read


def list_partitions(storage: Storage, closed_before_us: int) -> Transform:
    """Map folders of branches to the folders of their open partitions.

    An adopted folder gets no more objects: the first run that lists it closes it.
    """

    def open_in(folder: str) -> list[str]:
        if is_adopted(folder):
            return [] if closed_before_us else [folder]
        names = storage.block.list_folders(storage.namespace.folder(folder))
        return [f"{folder}{name}/" for name in _open(names, closed_before_us)]

    def read(batches: Batches) -> Batches:
        runtime = storage.runtime
        folders = (row["folder"] for row in rows(batches))
        while some := list(islice(folders, _BRANCHES)):
            # Each is a request to the storage, dominated by its round trip.
            found = runtime.map_parallel(open_in, some, limit=_AT_ONCE)
            yield from _as_batches(chain.from_iterable(found))

    return read


def _open(names: Iterable[str], closed_before_us: int) -> Iterator[str]:
    for name in names:
        made_us = partition_made_us(name)
        if made_us is None:
            continue
        if made_us < closed_before_us:
            return  # all following partitions are older
        yield name


def _as_batches(folders: Iterator[str]) -> Batches:
    while some := list(islice(folders, _FOLDERS)):
        yield texts("folder", some)


def list_objects(storage: Storage, count: Callable[[int], None] = TALLY.add) -> Transform:
    """Map folders of partitions to their objects; `count` gets their number."""

    def read(batches: Batches) -> Batches:
        storage.check_owner()
        for row in rows(batches):
            adopted = [each for each in storage.adopted if each.storage_namespace == row["folder"]]
            for each in adopted:
                for listed in storage.block.list_objects(Namespace.parse(row["folder"])):
                    count(listed.num_rows)
                    yield adopted_objects(listed, each)
            if adopted:
                continue
            folder = storage.namespace.folder(row["folder"])
            for listed in storage.block.list_objects(folder):
                count(listed.num_rows)
                yield stored_objects(listed, storage.namespace)

    return read


def stored_objects(listed: pa.RecordBatch, namespace: Namespace) -> pa.RecordBatch:
    """Return the listed objects that garbage collection may delete.

    Equivalent to `rules.stored_object`, column by column: a listing has millions of rows.
    """
    paths = pc.utf8_slice_codeunits(listed.column("address"), len(str(namespace)))
    is_own = pc.match_substring_regex(paths, WHOLE_PATH_PATTERN)
    paths = paths.filter(is_own)
    issued_us = _numbers(paths, ISSUED_FROM)
    mtime_us = listed.column("mtime").cast(pa.int64()).filter(is_own).to_numpy()
    born_us = np.maximum(issued_us.astype(np.int64), mtime_us)
    columns = [paths, listed.column("size").filter(is_own), born_us, made_us_of(paths)]
    return pa.RecordBatch.from_arrays(
        [pa.array(column) for column in columns], schema=STORED_SCHEMA
    )


def adopted_objects(listed: pa.RecordBatch, adopted: GCAdopted) -> pa.RecordBatch:
    """Return the listed objects of an adopted folder, which has no partitions."""
    own = pc.starts_with(listed.column("address"), f"{adopted.storage_namespace}{LAKEBED_FOLDER}/")
    listed = listed.filter(pc.invert(own))
    mtime_us = listed.column("mtime").cast(pa.int64())
    columns = [
        listed.column("address"),
        listed.column("size"),
        pc.max_element_wise(mtime_us, adopted.adopted_us),
        pa.repeat(pa.scalar(0, pa.int64()), listed.num_rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STORED_SCHEMA)


def made_us_of(paths: pa.Array) -> npt.NDArray[np.int64]:
    """Return the creation time of the partition of each object path."""
    # Partition names contain descending times.
    return (_ALL_ONES - _numbers(paths, MADE_FROM)).astype(np.int64)


def _numbers(paths: pa.Array, start: int) -> npt.NDArray[np.uint64]:
    """Return the hexadecimal numbers at offset `start` of each path."""
    texts = pc.utf8_slice_codeunits(paths, start, start + TIME_DIGITS)
    _, buffer = texts.cast(pa.binary(TIME_DIGITS)).buffers()
    # The digits are ASCII: 0-9 are 48-57, a-f are 97-102.
    digits = np.frombuffer(buffer, np.uint8).reshape(-1, TIME_DIGITS)
    values = np.where(digits < _LETTER_A, digits - 48, digits - 87).astype(np.uint64)
    shifts = np.arange(4 * (TIME_DIGITS - 1), -1, -4, dtype=np.uint64)
    numbers: npt.NDArray[np.uint64] = np.bitwise_or.reduce(values << shifts, axis=1)
    return numbers
