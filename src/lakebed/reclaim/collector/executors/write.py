"""Deletion in executors, and files with a run's results: of bounded size, with random names.

Spark may run a task twice. Both attempts write files; the driver learns of the files of one
attempt, and the state references no others.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import Runtime
from lakebed.block import DeleteResult, Locked, StorageUnavailable
from lakebed.formats.files import one_array
from lakebed.formats.gc_files import (
    GC_RESULT_SCHEMAS,
    GCResultFile,
    GCResultKind,
    GCRunID,
    encode_result,
)
from lakebed.reclaim.collector.executors.read import TALLY, Batches, Transform
from lakebed.reclaim.collector.rules import Verdict
from lakebed.reclaim.collector.storage import Storage

FILE_ROWS: Final = 100_000
"""Maximum number of rows of a file, and in memory."""

WRITTEN: Final = "name string, kind string, rows long, bytes long, content_id string"
"""Rows with written files: `lakebed.formats.gc_files.GCResultFile`."""

FILE_OR_TOTAL: Final = (
    f"file struct<{WRITTEN}>, total struct<verdict string, stage string, objects long, bytes long>"
)
"""Rows with either a written file or a total: the number of objects with a verdict in partitions of
a stage."""


def _schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([pa.field(n, pa.int64() if n in _NUMBERS else pa.string()) for n in names])


_NUMBERS: Final = ("rows", "objects", "bytes")
_WRITTEN_SCHEMA: Final = _schema(["name", "kind", "rows", "bytes", "content_id"])
_TOTAL_SCHEMA: Final = _schema(["verdict", "stage", "objects", "bytes"])
_FILE_OR_TOTAL_SCHEMA: Final = pa.schema(
    {"file": pa.struct(_WRITTEN_SCHEMA), "total": pa.struct(_TOTAL_SCHEMA)}
)

DUE_LABEL: Final = "due"
"""Verdict in counts for candidates deleted by the run."""

FREED_LABEL: Final = "freed"
"""Verdict in counts for candidates referenced by old commits and not deleted by the run."""

ADOPTED_LABEL: Final = "(adopted from lakeFS)"
"""Branch in counts for objects in an adopted namespace."""

_BRANCH: Final = 3  # index into the parts of a path


class PartWriter:
    """Buffered writer of rows of one kind."""

    def __init__(self, storage: Storage, run_id: GCRunID, kind: GCResultKind) -> None:
        self._storage = storage
        self._run_id = run_id
        self._kind = kind
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, table: pa.Table) -> Batches:
        """Add rows; yield the files written for them."""
        if table.num_rows:
            self._tables.append(table)
            self._rows += table.num_rows
        if self._rows >= FILE_ROWS:
            yield from self.flush()

    def flush(self) -> Batches:
        if self._tables:
            schema = GC_RESULT_SCHEMAS[self._kind]
            table = pa.concat_tables(self._tables).select(schema.names).cast(schema)
            self._tables, self._rows = [], 0
            yield as_row(self._write(table.combine_chunks()))

    def _write(self, table: pa.Table) -> GCResultFile:
        data, content_id = encode_result(self._kind, table)
        name = f"{self._kind}-{self._storage.runtime.random_bytes(8).hex()}.parquet"
        self._storage.block.create(self._storage.file(self._run_id, name), data)
        if self._kind is GCResultKind.SWEPT:
            self._write_text(name.replace(".parquet", ".txt"), table)
        has_size = "size" in table.column_names
        size = (pc.sum(table.column("size")).as_py() or 0) if has_size else 0
        return GCResultFile(name, self._kind, table.num_rows, size, content_id)

    def _write_text(self, name: str, table: pa.Table) -> None:
        """Also write the report as text: a line for each object."""
        columns = (table.column(each).to_pylist() for each in ("path", "size", "error"))
        lines = (
            f"{path}\t{size}\t{error or 'deleted'}\n"
            for path, size, error in zip(*columns, strict=True)
        )
        self._storage.block.put(self._storage.file(self._run_id, name), ["".join(lines).encode()])


def as_row(file: GCResultFile) -> pa.RecordBatch:
    """Return a file as a row of `WRITTEN`."""
    row = {name: [getattr(file, name)] for name in _WRITTEN_SCHEMA.names}
    return pa.RecordBatch.from_pydict(row, schema=_WRITTEN_SCHEMA)


def write_rows(storage: Storage, run_id: GCRunID, kind: GCResultKind) -> Transform:
    """Map rows of a kind to files."""

    def write(batches: Batches) -> Batches:
        writer = PartWriter(storage, run_id, kind)
        for batch in batches:
            yield from writer.add(pa.Table.from_batches([batch]))
        yield from writer.flush()

    return write


def write_judged(storage: Storage, run_id: GCRunID) -> Transform:
    """Map judged objects to files of due objects, of objects to remember, and of counts.

    The rows have the columns of `frames.JUDGED`, and `is_due`, `is_freed`, `is_remembered` and
    `stage`. The resulting rows are `FILE_OR_TOTAL`; totals are over all branches.
    """

    def write(batches: Batches) -> Batches:
        due = PartWriter(storage, run_id, GCResultKind.DUE)
        remembered = PartWriter(storage, run_id, GCResultKind.OBJECTS)
        counts = Counts()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            is_due = table.column("is_due")
            yield from _as_files(due.add(table.filter(is_due)))
            kept = pc.and_(table.column("is_remembered"), pc.invert(is_due))
            yield from _as_files(remembered.add(table.filter(kept)))
            # Only observed objects count.
            is_seen = pc.not_equal(table.column("verdict"), Verdict.UNSEEN.value)
            counts.add(_labelled(table.filter(is_seen)))
        yield from _as_files(due.flush())
        yield from _as_files(remembered.flush())
        by_branch = PartWriter(storage, run_id, GCResultKind.COUNTS)
        yield from _as_files(by_branch.add(counts.table()))
        yield from _as_files(by_branch.flush())
        yield _as_totals(add_up([counts.table()], ["verdict", "stage"]))

    return write


def _as_files(written: Batches) -> Batches:
    """Convert rows of `WRITTEN` to rows of `FILE_OR_TOTAL`."""
    for batch in written:
        totals = pa.nulls(batch.num_rows, _FILE_OR_TOTAL_SCHEMA.field("total").type)
        columns = [batch.to_struct_array(), totals]
        yield pa.RecordBatch.from_arrays(columns, schema=_FILE_OR_TOTAL_SCHEMA)


def _as_totals(counts: pa.Table) -> pa.RecordBatch:
    """Return counts over all branches as rows of `FILE_OR_TOTAL`."""
    totals = counts.select(_TOTAL_SCHEMA.names).cast(_TOTAL_SCHEMA)
    arrays = [one_array(totals, name) for name in _TOTAL_SCHEMA.names]
    files = pa.nulls(counts.num_rows, _FILE_OR_TOTAL_SCHEMA.field("file").type)
    columns = [files, pa.StructArray.from_arrays(arrays, fields=list(_TOTAL_SCHEMA))]
    return pa.RecordBatch.from_arrays(columns, schema=_FILE_OR_TOTAL_SCHEMA)


class Counts:
    """Sums of counts by branch; there may be as many branches as objects."""

    def __init__(self) -> None:
        self._tables = [GC_RESULT_SCHEMAS[GCResultKind.COUNTS].empty_table()]
        self._new_rows = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._new_rows += table.num_rows
        # Only after as many new rows as old: otherwise many branches would be summed each time.
        if self._new_rows >= max(FILE_ROWS, self._tables[0].num_rows):
            self.table()

    def table(self) -> pa.Table:
        self._tables = [add_up(self._tables, ["branch", "verdict", "stage"])]
        self._new_rows = 0
        return self._tables[0]


def _labelled(table: pa.Table) -> pa.Table:
    """Return each judged object as a count of one."""
    branch = pc.list_element(pc.split_pattern(table.column("path"), "/"), _BRANCH)
    branch = pc.if_else(pc.match_substring(table.column("path"), "://"), ADOPTED_LABEL, branch)
    verdict = pc.if_else(table.column("is_freed"), FREED_LABEL, table.column("verdict"))
    verdict = pc.if_else(table.column("is_due"), DUE_LABEL, verdict)
    columns = [
        branch,
        verdict,
        table.column("stage"),
        pa.repeat(pa.scalar(1, pa.int64()), table.num_rows),
        table.column("size"),
    ]
    return pa.table(columns, names=GC_RESULT_SCHEMAS[GCResultKind.COUNTS].names)


def add_up(tables: list[pa.Table], keys: list[str]) -> pa.Table:
    """Return the sums of counts with equal keys."""
    names = [*keys, "objects", "bytes"]
    table = pa.concat_tables([each.select(names).cast(_schema(names)) for each in tables])
    summed = table.group_by(keys).aggregate([("objects", "sum"), ("bytes", "sum")])
    return summed.select([*keys, "objects_sum", "bytes_sum"]).rename_columns(names)


_LOGGER: Final = logging.getLogger(__name__)

BATCH: Final = 1000
"""Number of deletes between two checks of the namespace's owner."""

_TRIES: Final = 4
_PAUSE_SECONDS: Final = 0.5


def delete_due(
    storage: Storage, run_id: GCRunID, count: Callable[[int], None] = TALLY.add
) -> Transform:
    """Map objects that are due to the files with their results; `count` gets their number.

    The rows have the columns of `frames.JUDGED`. Objects that could not be deleted are also written
    as objects for the next run.
    """

    def delete(batches: Batches) -> Batches:
        results = PartWriter(storage, run_id, GCResultKind.SWEPT)
        failed = PartWriter(storage, run_id, GCResultKind.OBJECTS)
        versions = PartWriter(storage, run_id, GCResultKind.VERSIONS)
        runtime = storage.runtime
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH):
                storage.check_owner()
                some = pa.Table.from_batches([batch.slice(start, BATCH)])
                paths = some.column("path").to_pylist()
                deleted = delete_objects(storage, runtime, paths)
                errors = [str(each.error or "") for each in deleted]
                count(len(errors))
                _log_failures(deleted)
                swept = some.append_column("error", pa.array(errors, pa.string()))
                yield from results.add(swept)
                yield from failed.add(swept.filter(pc.not_equal(swept.column("error"), "")))
                yield from versions.add(_of_versions(some, deleted))
        yield from results.flush()
        yield from failed.flush()
        yield from versions.flush()

    return delete


def _of_versions(objects: pa.Table, deleted: list[DeleteResult]) -> pa.Table:
    """Return the rows of `GCResultKind.VERSIONS`; none for a bucket without versions."""
    pairs = zip(objects.select(["path", "size"]).to_pylist(), deleted, strict=True)
    rows = [
        {
            "path": row["path"],
            "versions": each.versions,
            "bytes": each.bytes,
            "kept": each.leaves_versions,
            "kept_bytes": row["size"] if each.leaves_versions else 0,
            "locked": each.error.until if isinstance(each.error, Locked) else "",
        }
        for row, each in pairs
        if each.versions or each.leaves_versions or isinstance(each.error, Locked)
    ]
    return pa.Table.from_pylist(rows, schema=GC_RESULT_SCHEMAS[GCResultKind.VERSIONS])


def _log_failures(deleted: list[DeleteResult]) -> None:
    failures = [each.error for each in deleted if each.error and not isinstance(each.error, Locked)]
    if failures:
        _LOGGER.warning(
            "%d of %d objects could not be deleted: first error: %s",
            len(failures),
            len(deleted),
            failures[0],
        )


def delete_objects(storage: Storage, runtime: Runtime, paths: Sequence[str]) -> list[DeleteResult]:
    """Delete objects; return a result for each. A missing object counts as deleted.

    Transient failures of the storage are retried.
    """
    results: dict[str, DeleteResult] = {}
    left = list(paths)
    for attempt in range(_TRIES):
        if attempt:
            runtime.sleep(_PAUSE_SECONDS * 2 ** (attempt - 1) * (0.5 + runtime.random()))
        deleted = storage.delete([storage.object_at(path) for path in left])
        for path, result in zip(left, deleted, strict=True):
            before = results.get(path, result)
            results[path] = result if before is result else _both(before, result)
        left = [
            path
            for path, result in zip(left, deleted, strict=True)
            if isinstance(result.error, StorageUnavailable)
        ]
        if not left:
            break
    return [results[path] for path in paths]


def _both(before: DeleteResult, again: DeleteResult) -> DeleteResult:
    """Return the sum of two attempts: a failed attempt may have deleted versions."""
    return replace(
        again, versions=before.versions + again.versions, bytes=before.bytes + again.bytes
    )
