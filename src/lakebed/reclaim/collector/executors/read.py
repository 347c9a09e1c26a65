"""Reading of files and listing of objects in executors.

Each function returns a function for `DataFrame.mapInArrow`, from rows with file names to the
content of the files. Lakebed's own drivers read the storage, so Spark needs no connectors.

Branches are listed in the storage instead of the record store, so that deleted branches are found.
Partitions sort newest first: an optimized run reads a branch's up to the first closed partition.

`TALLY` counts the listed or deleted objects of a step, to show progress. On Spark, executors count,
and report to the driver at the end of each task.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import Namespace, ObjectNotFound
from lakebed.formats import (
    AddressType,
    MetaRange,
    MetaRangeID,
    RangeID,
    decode_metarange,
    decode_range,
    metarange_path,
    range_path,
)
from lakebed.formats.gc_files import (
    GC_RESULT_SCHEMAS,
    GCAdopted,
    GCFile,
    GCFileKind,
    GCResultKind,
    GCRunID,
    decode_gc_table,
    decode_result,
)
from lakebed.formats.layout import LAKEBED_FOLDER
from lakebed.formats.object_paths import (
    ISSUED_FROM,
    MADE_FROM,
    REPOSITORIES,
    TIME_DIGITS,
    WHOLE_PATH_PATTERN,
    branches_folder,
    partition_made_us,
)
from lakebed.reclaim.collector.errors import MissingHistory, MissingRange
from lakebed.reclaim.collector.rules import canonical_path, is_adopted
from lakebed.reclaim.collector.storage import Storage


class Tally:
    """Object counter of one step; not synchronized: a lost count does no harm."""

    def __init__(self) -> None:
        self._objects = 0
        self._others: Callable[[], int] = lambda: 0
        self._begun = time.monotonic()

    def begin(self) -> None:
        """Start counting from zero for a new step."""
        self._objects, self._begun = -self._others(), time.monotonic()

    def follow(self, others: Callable[[], int]) -> None:
        """Also add the counts of `others`, starting from zero."""
        self._objects += self._others()  # final counts of the previous source
        self._others = others

    def add(self, objects: int) -> None:
        self._objects += objects

    def __str__(self) -> str:
        seconds = time.monotonic() - self._begun
        objects = self._objects + self._others()
        if not objects:
            return ""
        return f"{objects:,} objects, {objects / max(seconds, 0.001):,.0f}/s"


TALLY: Final = Tally()
"""Counter of this process."""


Batches = Iterator[pa.RecordBatch]
Transform = Callable[[Batches], Batches]

FILES: Final = "name string, kind string, rows long, content_id string"
"""Rows with the names of files of a run."""

FOLDERS: Final = "folder string"
"""Rows with the names of folders in the namespace."""

_PATHS: Final = pa.schema([pa.field("path", pa.string())])
_ROWS_MAX: Final = 10_000


def read_prepared_paths(storage: Storage, run_id: GCRunID) -> Transform:
    """Map files of uploads and staged entries to the referenced paths."""

    def read(batches: Batches) -> Batches:
        for table in _prepared(storage, run_id, batches):
            yield from _as_batches(relative(table.column("address"), storage), storage)

    return read


def read_prepared_rows(storage: Storage, run_id: GCRunID) -> Transform:
    """Map files of one kind written by the server to their rows."""

    def read(batches: Batches) -> Batches:
        for table in _prepared(storage, run_id, batches):
            yield from table.to_batches(max_chunksize=_ROWS_MAX)

    return read


def _prepared(storage: Storage, run_id: GCRunID, batches: Batches) -> Iterator[pa.Table]:
    for row in rows(batches):
        file = GCFile(row["name"], GCFileKind(row["kind"]), row["rows"], row["content_id"])
        address = storage.file(run_id, file.name)
        yield decode_gc_table(storage.block.read(address), file, file=str(address))


def read_results(storage: Storage, run_id: GCRunID, kind: GCResultKind) -> Transform:
    """Map files written by a run to their rows."""

    def read(batches: Batches) -> Batches:
        for row in rows(batches):
            address = storage.file(run_id, row["name"])
            table = decode_result(
                storage.block.read(address), kind, row["content_id"], file=str(address)
            )
            yield from table.cast(GC_RESULT_SCHEMAS[kind]).to_batches(max_chunksize=_ROWS_MAX)

    return read


def read_ranges_of(storage: Storage, repository: str, *, may_miss: bool = False) -> Transform:
    """Map ids of metaranges, with a commit of each, to the ids of their ranges.

    If `may_miss`, missing metaranges are skipped: their commits do not count.
    """

    def read(batches: Batches) -> Batches:
        for row in rows(batches):
            try:
                found = _ranges_of(storage, repository, **row)
            except MissingHistory:
                if not may_miss:
                    raise
                found = []
            yield texts("range_id", found)

    return read


def find_range(storage: Storage, repository: str, range_id: str) -> Transform:
    """Keep the ids of metaranges, with a commit of each, that contain a range."""

    def read(batches: Batches) -> Batches:
        for batch in batches:
            names_it = [
                range_id in _ranges_of(storage, repository, **row) for row in batch.to_pylist()
            ]
            yield batch.filter(pa.array(names_it, pa.bool_()))

    return read


def _ranges_of(
    storage: Storage, repository: str, *, commit_id: str, metarange_id: str
) -> list[RangeID]:
    def read(found: MetaRangeID) -> MetaRange:
        address = storage.namespace.address(metarange_path(found))
        try:
            data = storage.block.read(address)
        except ObjectNotFound as error:
            raise MissingHistory(repository, commit_id, found, str(address)) from error
        return decode_metarange(data, found, file=str(address), read=read)

    return [ref.range_id for ref in read(MetaRangeID(metarange_id)).refs]


def read_paths_of(
    storage: Storage, count: Callable[[int], None], *, may_miss: bool = False
) -> Transform:
    """Map ids of ranges to the paths in their entries; `count` gets their number.

    If `may_miss`, missing ranges are skipped: their commits do not count.
    """

    def read(batches: Batches) -> Batches:
        for row in rows(batches):
            found = RangeID(row["range_id"])
            address = storage.namespace.address(range_path(found))
            try:
                data = storage.block.read(address)
            except ObjectNotFound as error:
                if may_miss:
                    continue
                raise MissingRange(found, str(address)) from error
            table = decode_range(data, found, file=str(address))
            count(table.num_rows)
            yield from _as_batches(entry_paths(table, storage), storage)

    return read


def entry_paths(entries: pa.Table, storage: Storage) -> pa.ChunkedArray:
    """Return the paths in entries whose objects may belong to the repository."""
    is_relative = pc.equal(entries.column("address_type"), int(AddressType.RELATIVE))
    addresses = entries.column("address")
    own = addresses.filter(is_relative)
    others = relative(addresses.filter(pc.invert(is_relative)), storage)
    return pa.chunked_array([*own.chunks, *others.chunks], pa.string())


def relative(addresses: pa.ChunkedArray, storage: Storage) -> pa.ChunkedArray:
    """Return the paths of full addresses, if they are in the repository's namespaces."""
    namespace, prefix = storage.namespace, str(storage.namespace)
    adopted = [each.storage_namespace for each in storage.adopted]
    is_inside = pc.starts_with(addresses, prefix)
    inside = pc.utf8_slice_codeunits(addresses.filter(is_inside), len(prefix))
    others = pc.unique(addresses.filter(pc.invert(is_inside))).to_pylist()
    # A different spelling of an address inside would look like a foreign address.
    respelled = [canonical_path(each, AddressType.FULL, namespace, adopted) for each in others]
    more = pa.array([path for path in respelled if path is not None], pa.string())
    return pa.chunked_array([*inside.chunks, more], pa.string())


def _as_batches(paths: pa.ChunkedArray, storage: Storage) -> Batches:
    """Yield paths in batches, without imported objects, which are never listed."""
    is_own = pc.starts_with(paths, REPOSITORIES)
    for each in storage.adopted:
        is_own = pc.or_(is_own, pc.starts_with(paths, each.storage_namespace))
    own = paths.filter(is_own)
    yield from pa.table([own], schema=_PATHS).to_batches(max_chunksize=_ROWS_MAX)


def texts(name: str, values: Sequence[str]) -> pa.RecordBatch:
    """Return a batch with one column of strings, perhaps empty."""
    return pa.RecordBatch.from_arrays([pa.array(values, pa.string())], names=[name])


def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield rows as dictionaries; each is a file or folder, not an object."""
    for batch in batches:
        yield from batch.to_pylist()


STORED_SCHEMA: Final = pa.schema(
    {"path": pa.string(), "size": pa.int64(), "born_us": pa.int64(), "made_us": pa.int64()}
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
                yield from _folder_batches(iter([row["repository_uid"]]))
                continue
            folder = branches_folder(row["repository_uid"])
            names = storage.block.list_folders(storage.namespace.folder(folder))
            yield from _folder_batches(f"{folder}{name}/" for name in names)

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
            yield from _folder_batches(chain.from_iterable(found))

    return read


def _open(names: Iterable[str], closed_before_us: int) -> Iterator[str]:
    for name in names:
        made_us = partition_made_us(name)
        if made_us is None:
            continue
        if made_us < closed_before_us:
            return  # all following partitions are older
        yield name


def _folder_batches(folders: Iterator[str]) -> Batches:
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
