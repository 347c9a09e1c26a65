"""The frames of a run, each read from the storage by the executors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from lakebed.formats.gc_files import (
    GCFile,
    GCFileKind,
    GCManifest,
    GCResultFile,
    GCResultKind,
    GCRunID,
    GCState,
)
from lakebed.reclaim.collector import frames
from lakebed.reclaim.collector.executors.read import (
    FILES,
    FOLDERS,
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
)
from lakebed.reclaim.collector.storage import Storage

_RESULT_COLUMNS: Final[dict[GCResultKind, StructType | str]] = {
    GCResultKind.OBJECTS: frames.JUDGED,
    GCResultKind.DUE: frames.JUDGED,
    GCResultKind.RANGES: "range_id string",
    GCResultKind.SWEPT: (
        "path string, size long, born_us long, made_us long, verdict string, found_us long,"
        " error string"
    ),
    GCResultKind.COUNTS: "branch string, verdict string, stage string, objects long, bytes long",
}


@dataclass(frozen=True, slots=True)
class FrameReader:
    """Reader of frames; files are read when a frame is evaluated."""

    spark: SparkSession
    storage: Storage

    def of(self, manifest: GCManifest) -> "FrameReader":
        """Return a reader that treats the run's adopted namespaces as the repository's own."""
        return replace(self, storage=replace(self.storage, adopted=manifest.run.adopted))

    @property
    def width(self) -> int:
        """Number of partitions for work on files and folders."""
        return self.spark.sparkContext.defaultParallelism * 2

    def uncommitted(self, manifest: GCManifest) -> DataFrame:
        """Return the paths referenced by staging, links and open uploads, as `frames.PATHS`."""
        files = manifest.of_kind(GCFileKind.UPLOADS) + manifest.of_kind(GCFileKind.STAGED)
        transform = read_prepared_paths(self.storage, manifest.run.run_id)
        return self._read(files, transform, frames.PATHS)

    def uploads(self, manifest: GCManifest) -> DataFrame:
        """Return the links and multipart uploads known to the server."""
        transform = read_prepared_rows(self.storage, manifest.run.run_id)
        files = manifest.of_kind(GCFileKind.UPLOADS)
        return self._read(files, transform, "address string, kind string, open boolean")

    def commits(self, manifest: GCManifest) -> DataFrame:
        """Return the commit records known to the server."""
        return self._commits(manifest.run.run_id, manifest.of_kind(GCFileKind.COMMITS))

    def metaranges(
        self, manifest: GCManifest, known: GCState | None, old: Sequence[GCFile] = ()
    ) -> DataFrame:
        """Return the metaranges of unknown commits that are not `old`, with a commit of each."""
        commits = self.commits(manifest)
        if old:
            commits = frames.unknown(commits, self._commits(manifest.run.run_id, old), "id")
        if known is not None:
            commits = frames.unknown(commits, self._commits(known.run_id, known.commits), "id")
        return _each_metarange(commits)

    def ranges(
        self, manifest: GCManifest, known: GCState | None, old: Sequence[GCFile] = ()
    ) -> DataFrame:
        """Return the distinct ranges of unknown commits that are not `old`."""
        transform = read_ranges_of(self.storage, manifest.run.repository)
        metaranges = self.metaranges(manifest, known, old)
        return self._mapped(metaranges, transform, "range_id string").distinct()

    def old_ranges(self, manifest: GCManifest, old: Sequence[GCFile]) -> DataFrame:
        """Return the distinct ranges of old commits."""
        transform = read_ranges_of(self.storage, manifest.run.repository, may_miss=True)
        metaranges = _each_metarange(self._commits(manifest.run.run_id, old))
        return self._mapped(metaranges, transform, "range_id string").distinct()

    def metaranges_with_range(self, manifest: GCManifest, range_id: str) -> DataFrame:
        """Return the metaranges that contain a range, with a commit of each."""
        metaranges = self.metaranges(manifest, None)
        transform = find_range(self.storage, manifest.run.repository, range_id)
        return self._mapped(metaranges, transform, metaranges.schema)

    def named_by_ranges(
        self, ranges: DataFrame, entries: Accumulator[int], *, may_miss: bool = False
    ) -> DataFrame:
        """Return the paths in ranges, as `frames.PATHS`; `entries` counts the rows read."""
        transform = read_paths_of(self.storage, entries.add, may_miss=may_miss)
        return self._mapped(ranges, transform, frames.PATHS)

    def counter(self) -> Accumulator[int]:
        """Return a counter for executors."""
        return self.spark.sparkContext.accumulator(0)

    def listed(
        self, repository_uids: Iterable[str], closed_before_us: int, objects: Accumulator[int]
    ) -> DataFrame:
        """Return the objects in open partitions, as `frames.STORED`; `objects` counts them."""
        storage = self.storage
        uids = self.spark.createDataFrame(
            [(uid,) for uid in sorted(set(repository_uids))], "repository_uid string"
        )
        branches = uids.repartition(1).mapInArrow(list_branches(storage), FOLDERS)
        partitions = self._by_folder(branches).mapInArrow(
            list_partitions(storage, closed_before_us), FOLDERS
        )
        return self._by_folder(partitions).mapInArrow(
            list_objects(storage, objects.add), frames.STORED
        )

    def _by_folder(self, folders: DataFrame) -> DataFrame:
        """Distribute folders over all executors.

        The task of a folder depends only on its name: if Spark lists again after losing an
        executor, no folder moves to a finished task.
        """
        return folders.repartition(self.width, "folder")

    def results(
        self, run_id: GCRunID, files: Iterable[GCResultFile], kind: GCResultKind
    ) -> DataFrame:
        """Return the rows of one kind written by a run."""
        chosen = [file for file in files if file.kind is kind]
        transform = read_results(self.storage, run_id, kind)
        return self._read(chosen, transform, _RESULT_COLUMNS[kind])

    def saved(self, state: GCState | None) -> DataFrame:
        """Return the objects in the state, as `frames.JUDGED`."""
        if state is None:
            return self.spark.createDataFrame([], frames.JUDGED)
        return self.results(state.run_id, state.files, GCResultKind.OBJECTS)

    def known_ranges(self, state: GCState) -> DataFrame:
        """Return the ranges read by the previous runs."""
        return self.results(state.run_id, state.files, GCResultKind.RANGES)

    def _commits(self, run_id: GCRunID, files: Iterable[GCFile]) -> DataFrame:
        transform = read_prepared_rows(self.storage, run_id)
        return self._read(files, transform, "id string, metarange_id string")

    def _read(
        self,
        files: Iterable[GCFile] | Iterable[GCResultFile],
        transform: Transform,
        schema: StructType | str,
    ) -> DataFrame:
        """Apply a transform to file names; executors read the files."""
        rows = [(file.name, str(file.kind), file.rows, file.content_id) for file in files]
        if not rows:
            return self.spark.createDataFrame([], schema)  # Spark skips empty partitions
        named = self.spark.createDataFrame(rows, FILES)
        return named.repartition(min(len(rows), self.width)).mapInArrow(transform, schema)

    def _mapped(
        self, frame: DataFrame, transform: Transform, schema: StructType | str
    ) -> DataFrame:
        """Apply a transform with the rows distributed over all executors."""
        return frame.repartition(self.width).mapInArrow(transform, schema)


def _each_metarange(commits: DataFrame) -> DataFrame:
    return commits.groupBy("metarange_id").agg(f.min("id").alias("commit_id"))
