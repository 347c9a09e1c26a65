"""Reading of files in executors: the paths referenced by them.

Each function returns a function for `DataFrame.mapInArrow`, from rows with file names to the
content of the files. Lakebed's own drivers read the storage, so Spark needs no connectors.

`TALLY` counts the listed or deleted objects of a step, to show progress. On Spark, executors count,
and report to the driver at the end of each task.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.block import ObjectNotFound
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
from lakebed.formats.gc_files import GCFile, GCFileKind, GCRunID, decode_gc_table
from lakebed.formats.gc_state import GC_RESULT_SCHEMAS, GCResultKind, decode_result
from lakebed.formats.object_paths import REPOSITORIES
from lakebed.reclaim.collector.errors import MissingHistory, MissingRange
from lakebed.reclaim.collector.rules import canonical_path
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
