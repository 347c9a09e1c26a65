"""A run in this process, without Spark and Java: column by column, in bounded memory.

Files are read and written, folders listed and objects deleted by the functions that Spark executors
run. Instead of a shuffle, rows are partitioned by path and judged bucket by bucket. So memory does
not depend on the number of objects; it grows with the number of commits and ranges, by their ids.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.runtime import Runtime
from lakebed.formats.gc_files import (
    GC_RESULT_SCHEMAS,
    GC_SCHEMAS,
    GCFile,
    GCFileKind,
    GCManifest,
    GCResultFile,
    GCResultKind,
    GCRunID,
    GCState,
)
from lakebed.reclaim.collector import columns
from lakebed.reclaim.collector.columns import (
    BUDGET_BYTES,
    PartitionedTable,
    Parts,
    buckets_of,
    parallel_buckets,
)
from lakebed.reclaim.collector.errors import MissingHistory, MissingRange
from lakebed.reclaim.collector.executors.read import (
    STORED_SCHEMA,
    Batches,
    Transform,
    find_range,
    list_branches,
    list_objects,
    list_partitions,
    read_paths_of,
    read_prepared_paths,
    read_prepared_rows,
    read_ranges_of,
    read_results,
    texts,
)
from lakebed.reclaim.collector.executors.write import delete_due, write_judged, write_rows
from lakebed.reclaim.collector.judging import (
    Count,
    Findings,
    Judging,
    as_files,
    of_kind,
    repository_uids,
)
from lakebed.reclaim.collector.rules import Verdict
from lakebed.reclaim.collector.storage import Storage

_AT_ONCE: Final = 8
"""Number of files read, or folders of a cloud listed, at the same time."""

_JUDGING_THREADS: Final = 2
"""Number of judging threads: Arrow releases the GIL while it works."""


class ArrowExecutor:
    """In-process executor; up to `budget_bytes` of each table are in memory, the rest on disk."""

    def __init__(
        self,
        storage: Storage,
        runtime: Runtime,
        *,
        name: str = "arrow",
        budget_bytes: int = BUDGET_BYTES,
    ) -> None:
        self.name = name
        self._reader = _Reader(storage, runtime)
        self._budget_bytes = budget_bytes

    def judge(self, judging: Judging) -> Findings:
        reader = self._reader.of(judging.manifest)
        with tempfile.TemporaryDirectory(prefix="lakebed-gc-") as folder:
            return _ArrowJudging(reader, judging, self._tables(Path(folder))).run()

    def sweep(self, manifest: GCManifest, due: Iterable[GCResultFile]) -> tuple[GCResultFile, ...]:
        run_id, reader = manifest.run.run_id, self._reader.of(manifest)
        batches = reader.results(run_id, due, GCResultKind.DUE)
        return _as_files(delete_due(reader.storage, run_id)(batches))

    def count_made_before(
        self, run_id: GCRunID, objects: Iterable[GCResultFile], made_us: int
    ) -> int:
        batches = self._reader.results(run_id, objects, GCResultKind.OBJECTS)
        return sum(pc.sum(pc.less(each.column("made_us"), made_us)).as_py() for each in batches)

    def count_open_uploads(self, manifest: GCManifest) -> int:
        uploads = self._reader.prepared(manifest, GCFileKind.UPLOADS)
        return pc.sum(uploads.column("open")).as_py() or 0

    def have_same_content(self, one: GCManifest, other: GCManifest) -> bool:
        reader = self._reader.of(one)
        commits = (_sorted(reader.prepared(each, GCFileKind.COMMITS)) for each in (one, other))
        with tempfile.TemporaryDirectory(prefix="lakebed-gc-") as folder:
            mine, others = (self._tables(Path(folder) / each) for each in ("one", "other"))
            reader.read_uncommitted(one, mine.uncommitted)
            reader.read_uncommitted(other, others.uncommitted)
            parts = buckets_of(mine.uncommitted, others.uncommitted)
            return _are_equal(commits) and all(_are_equal(map(_sorted, part)) for part in parts)

    def _tables(self, folder: Path) -> "_Tables":
        return _Tables(folder, self._reader.runtime, self._budget_bytes)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of the files of runs."""

    storage: Storage
    runtime: Runtime

    def of(self, manifest: GCManifest) -> "_Reader":
        """Return a reader that treats the run's adopted namespaces as the repository's own."""
        return replace(self, storage=replace(self.storage, adopted=manifest.run.adopted))

    def prepared(self, manifest: GCManifest, kind: GCFileKind) -> pa.Table:
        return self.rows_of(manifest.run.run_id, manifest.of_kind(kind), kind)

    def rows_of(self, run_id: GCRunID, files: Iterable[GCFile], kind: GCFileKind) -> pa.Table:
        """Return the rows of one kind written by a server."""
        batches = read_prepared_rows(self.storage, run_id)(_file_rows(files))
        return pa.Table.from_batches(batches, GC_SCHEMAS[kind])

    def results(
        self, run_id: GCRunID, files: Iterable[GCResultFile], kind: GCResultKind
    ) -> Batches:
        """Return the rows of one kind written by a run."""
        return read_results(self.storage, run_id, kind)(_file_rows(of_kind(files, kind)))

    def read_uncommitted(self, manifest: GCManifest, to: PartitionedTable) -> None:
        """Add the paths referenced by staging, links and open uploads to a table."""
        files = manifest.of_kind(GCFileKind.UPLOADS) + manifest.of_kind(GCFileKind.STAGED)
        self.map(read_prepared_paths(self.storage, manifest.run.run_id), _file_rows(files), to)

    def list_objects(self, partitions: pa.ChunkedArray, to: PartitionedTable) -> None:
        """Add the objects of partitions to a table."""
        folders = _each(pa.table({"folder": partitions}))
        # Reading file metadata on a disk is CPU work under the GIL: eight threads take a quarter
        # more CPU time than one thread.
        limit = 1 if self.storage.is_on_disk else _AT_ONCE
        self.map(list_objects(self.storage), folders, to, limit=limit)

    def map(
        self,
        transform: Transform,
        rows: Iterable[pa.RecordBatch],
        to: PartitionedTable,
        *,
        limit: int = _AT_ONCE,
    ) -> None:
        """Apply a transform to batches, several at a time, and add the results to a table."""
        self.runtime.map_parallel(lambda row: to.add(transform(iter([row]))), rows, limit=limit)

    def map_texts(self, transform: Transform, rows: Iterable[pa.RecordBatch]) -> pa.ChunkedArray:
        """Like `map`, for transforms to few strings in one column; return all of them."""
        found = self.runtime.map_parallel(
            lambda row: [batch.column(0) for batch in transform(iter([row]))], rows, limit=_AT_ONCE
        )
        return pa.chunked_array([each for some in found for each in some], pa.string())


class _Tables:
    """Everything known about paths, in a table for each kind."""

    def __init__(self, folder: Path, runtime: Runtime, budget_bytes: int) -> None:
        def table(name: str, schema: pa.Schema) -> PartitionedTable:
            return PartitionedTable(folder, name, schema, runtime, budget_bytes=budget_bytes)

        self.observed = table("looked", STORED_SCHEMA)
        self.committed = table("committed", columns.PATHS_SCHEMA)
        self.uncommitted = table("uncommitted", columns.PATHS_SCHEMA)
        self.found = table("found", columns.FOUND_SCHEMA)
        self.old = table("old", columns.PATHS_SCHEMA)


class _ArrowJudging:
    """Judging in one run."""

    def __init__(self, reader: _Reader, judging: Judging, tables: _Tables) -> None:
        self._reader = reader
        self._storage = reader.storage
        self._judging = judging
        self._tables = tables
        self._entries: list[int] = []

    def run(self) -> Findings:
        judging = self._judging
        known_ranges = self._known_ranges()
        new_ranges = self._new_ranges(known_ranges)
        self._read_all(new_ranges)
        old_ranges = self._read_old(new_ranges)
        rows = [row for batch in self._judge_all() for row in batch.to_pylist()]
        files = as_files(row["file"] for row in rows if row["file"] is not None)
        all_ranges = pa.table({"range_id": pa.chunked_array([*known_ranges.chunks, new_ranges])})
        return Findings(
            objects=of_kind(files, GCResultKind.OBJECTS),
            due=of_kind(files, GCResultKind.DUE),
            ranges=self._write(all_ranges, GCResultKind.RANGES),
            ranges_read=len(new_ranges) + old_ranges,
            rows_read=sum(self._entries) + judging.rows_of_files,
            counts=of_kind(files, GCResultKind.COUNTS),
            totals=tuple(Count(**row["total"]) for row in rows if row["total"] is not None),
        )

    # References from commits

    def _known_ranges(self) -> pa.ChunkedArray:
        known = self._judging.known
        batches = () if known is None else self._saved(known, GCResultKind.RANGES)
        return pa.chunked_array([batch.column("range_id") for batch in batches], pa.string())

    def _new_ranges(self, known: pa.ChunkedArray) -> pa.Array:
        """Return the ranges of new commits not read by any run."""
        transform = read_ranges_of(self._storage, self._judging.manifest.run.repository)
        metaranges = self._metaranges(self._judging.known)
        found = pc.unique(self._reader.map_texts(transform, _each(metaranges)))
        return found.filter(pc.invert(pc.is_in(found, value_set=known)))

    def _metaranges(self, known: GCState | None) -> pa.Table:
        """Return the metaranges of unknown commits, with a commit of each."""
        commits = self._reader.prepared(self._judging.manifest, GCFileKind.COMMITS)
        if self._judging.old:
            is_old = pc.is_in(commits.column("id"), value_set=self._old().column("id"))
            commits = commits.filter(pc.invert(is_old))
        if known is not None:
            before = self._reader.rows_of(known.run_id, known.commits, GCFileKind.COMMITS)
            is_known = pc.is_in(commits.column("id"), value_set=before.column("id"))
            commits = commits.filter(pc.invert(is_known))
        return _each_metarange(commits)

    def _old(self) -> pa.Table:
        return self._reader.rows_of(self._judging.run_id, self._judging.old, GCFileKind.OLD)

    def _read_old(self, new_ranges: pa.Array) -> int:
        """Read the references from old commits; return the number of ranges read for them."""
        if not self._judging.old:
            return 0
        repository = self._judging.manifest.run.repository
        metaranges = _each(_each_metarange(self._old()))
        transform = read_ranges_of(self._storage, repository, may_miss=True)
        found = pc.unique(self._reader.map_texts(transform, metaranges))
        found = found.filter(pc.invert(pc.is_in(found, value_set=new_ranges)))
        paths = read_paths_of(self._storage, self._entries.append, may_miss=True)
        self._reader.map(paths, _each(pa.table({"range_id": found})), self._tables.old)
        return len(found)

    def _read_ranges(self, ranges: pa.Array) -> None:
        transform = read_paths_of(self._storage, self._entries.append)
        try:
            self._reader.map(
                transform, _each(pa.table({"range_id": ranges})), self._tables.committed
            )
        except MissingRange as missing:
            raise self._missing_history(missing) from missing

    def _missing_history(self, missing: MissingRange) -> MissingHistory:
        """Find a commit with a missing range, which takes a while."""
        repository = self._judging.manifest.run.repository
        transform = find_range(self._storage, repository, missing.range_id)
        metaranges = self._metaranges(None)
        found = next(row for batch in transform(_each(metaranges)) for row in batch.to_pylist())
        return MissingHistory(repository, found["commit_id"], found["metarange_id"], missing.file)

    # Reading and listing

    def _read_all(self, new_ranges: pa.Array) -> None:
        # In parallel: Arrow reads files without the GIL, and listing a disk needs little else. If
        # several parts fail, the error of the first is raised: missing history.
        parts: list[Callable[[], None]] = [
            lambda: self._read_ranges(new_ranges),
            self._list,
            lambda: self._reader.read_uncommitted(self._judging.manifest, self._tables.uncommitted),
            self._read_saved,
        ]
        self._reader.runtime.map_parallel(lambda part: part(), parts)

    def _read_saved(self) -> None:
        if self._judging.state is not None:
            for batch in self._saved(self._judging.state, GCResultKind.OBJECTS):
                self._remember(pa.Table.from_batches([batch]))

    def _list(self) -> None:
        judging, reader = self._judging, self._reader
        uids = sorted(set(repository_uids(judging.manifest)))
        branches = reader.map_texts(
            list_branches(self._storage), _each(pa.table({"repository_uid": uids}))
        )
        partitions = reader.map_texts(
            list_partitions(self._storage, judging.listed_from_us),
            _each(pa.table({"folder": branches})),
        )
        reader.list_objects(partitions, self._tables.observed)

    def _remember(self, saved: pa.Table) -> None:
        tables, known = self._tables, self._judging.known
        tables.found.add(_batches(columns.saved_found(saved)))
        if known is not None:
            tables.committed.add(_batches(columns.saved_commit_referenced(saved)))
            tables.observed.add(_batches(columns.saved_closed(saved, known.closed_before_us)))

    def _saved(self, state: GCState, kind: GCResultKind) -> Batches:
        return self._reader.results(state.run_id, state.files, kind)

    # Verdicts

    def _judge_all(self) -> Batches:
        """Judge all objects; return the files and the totals."""
        tables = self._tables
        write = write_judged(self._storage, self._judging.run_id)
        written = self._reader.runtime.map_parallel(
            lambda parts: list(write(self._labelled(parts))),
            parallel_buckets(
                tables.observed,
                tables.committed,
                tables.uncommitted,
                tables.found,
                tables.old,
                count=_JUDGING_THREADS,
            ),
        )
        return chain.from_iterable(written)

    def _labelled(self, parts: Parts) -> Batches:
        """Yield judged objects as input of `write_judged`."""
        judging = self._judging
        for observed, committed, uncommitted, found, old in parts:
            judged = columns.judge(
                observed,
                committed=committed,
                uncommitted=uncommitted,
                found=found,
                times=judging.times,
            )
            is_due = (
                columns.is_candidate(judged)
                if judging.quiet
                else columns.is_due(judged, judging.times)
            )
            is_remembered = columns.is_remembered(judged, judging.closed_before_us)
            labelled = (
                judged.append_column("is_due", is_due)
                .append_column("is_freed", columns.is_freed(judged, old))
                .append_column("is_remembered", is_remembered)
                .append_column("stage", self._stage(judged.column("made_us")))
            )
            # New ranges reference many old objects.
            is_seen = pc.not_equal(judged.column("verdict"), Verdict.UNSEEN.value)
            yield from _batches(labelled.filter(pc.or_(is_seen, is_remembered)))

    def _stage(self, made_us: pa.ChunkedArray) -> pa.ChunkedArray:
        is_closed = pc.less(made_us, self._judging.listed_from_us)
        is_closing = pc.less(made_us, self._judging.closed_before_us)
        return pc.if_else(is_closed, "closed", pc.if_else(is_closing, "closing", "open"))

    def _write(self, table: pa.Table, kind: GCResultKind) -> tuple[GCResultFile, ...]:
        transform = write_rows(self._storage, self._judging.run_id, kind)
        return _as_files(transform(_batches(table.cast(GC_RESULT_SCHEMAS[kind]))))


def _each_metarange(commits: pa.Table) -> pa.Table:
    grouped = commits.group_by("metarange_id").aggregate([("id", "min")])
    return grouped.rename_columns({"id_min": "commit_id"})


def _batches(table: pa.Table) -> Batches:
    return iter(table.to_batches())


def _each(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as batches of one row: a file or a folder."""
    for batch in table.to_batches():
        for number in range(batch.num_rows):
            yield batch.slice(number, 1)


def _file_rows(files: Iterable[GCFile] | Iterable[GCResultFile]) -> Iterator[pa.RecordBatch]:
    """Yield rows with file names, as in `executors.read.FILES`."""
    for file in files:
        row = texts("name", [file.name])
        yield (
            row.append_column("kind", pa.array([str(file.kind)]))
            .append_column("rows", pa.array([file.rows]))
            .append_column("content_id", pa.array([file.content_id]))
        )


def _as_files(written: Batches) -> tuple[GCResultFile, ...]:
    return as_files(row for batch in written for row in batch.to_pylist())


def _are_equal(tables: Iterable[pa.Table]) -> bool:
    one, other = tables
    return bool(one.equals(other))


def _sorted(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()
