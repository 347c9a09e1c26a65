"""A run on Spark: judging is one shuffle, from files and listings to files."""

from collections.abc import Iterable

from pyspark import Accumulator
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from lakebed.formats import RangeID, range_path
from lakebed.formats.gc_files import GCManifest, GCResultFile, GCResultKind, GCRunID
from lakebed.reclaim.collector import frames
from lakebed.reclaim.collector.errors import ExecutorFailed, MissingHistory, MissingRange
from lakebed.reclaim.collector.executors.read import TALLY
from lakebed.reclaim.collector.executors.write import (
    FILE_OR_TOTAL,
    WRITTEN,
    delete_due,
    write_judged,
    write_rows,
)
from lakebed.reclaim.collector.frame_reader import FrameReader
from lakebed.reclaim.collector.judging import (
    Count,
    Findings,
    Judging,
    as_files,
    of_kind,
    repository_uids,
)
from lakebed.reclaim.collector.rules import Verdict
from lakebed.reclaim.collector.spark import explained
from lakebed.reclaim.collector.storage import Storage


class SparkExecutor:
    """Executors of Spark; the memory of the driver grows with files, not with objects.

    All methods raise `ExecutorFailed` for a Lakebed error in an executor.
    """

    name = "spark"

    def __init__(self, spark: SparkSession, storage: Storage) -> None:
        self._reader = FrameReader(spark, storage)
        self._objects = objects = self._reader.counter()
        TALLY.follow(lambda: objects.value)

    def judge(self, judging: Judging) -> Findings:
        return _SparkJudging(self._reader.of(judging.manifest), judging, self._objects).run()

    def sweep(self, manifest: GCManifest, due: Iterable[GCResultFile]) -> tuple[GCResultFile, ...]:
        run_id, reader = manifest.run.run_id, self._reader.of(manifest)
        transform = delete_due(reader.storage, run_id, self._objects.add)
        with explained():
            rows = reader.results(run_id, due, GCResultKind.DUE).repartition(reader.width)
            return _as_files(rows.mapInArrow(transform, WRITTEN).collect())

    def count_made_before(
        self, run_id: GCRunID, objects: Iterable[GCResultFile], made_us: int
    ) -> int:
        with explained():
            found = self._reader.results(run_id, objects, GCResultKind.OBJECTS)
            return found.where(f.col("made_us") < made_us).count()

    def count_open_uploads(self, manifest: GCManifest) -> int:
        with explained():
            return self._reader.uploads(manifest).where(f.col("open")).count()

    def have_same_content(self, one: GCManifest, other: GCManifest) -> bool:
        with explained():
            reader = self._reader.of(one)
            for read in (reader.uncommitted, reader.commits):
                mine, others = read(one), read(other)
                if not (mine.exceptAll(others).isEmpty() and others.exceptAll(mine).isEmpty()):
                    return False
            return True


class _SparkJudging:
    """Judging in one run."""

    def __init__(self, reader: FrameReader, judging: Judging, objects: Accumulator[int]) -> None:
        self._objects = objects
        self._reader = reader
        self._judging = judging
        self._manifest = judging.manifest
        self._known = judging.known
        self._entries = reader.counter()

    def run(self) -> Findings:
        try:
            with explained():
                return self._run()
        except ExecutorFailed as failed:
            range_id = MissingRange.id_in(failed)
            if range_id is None:
                raise
            raise self._missing_history(range_id) from failed

    def _missing_history(self, range_id: str) -> MissingHistory:
        """Find a commit with a missing range, which takes a while."""
        with explained():
            (found,) = self._reader.metaranges_with_range(self._manifest, range_id).take(1)
        file = str(self._reader.storage.namespace.address(range_path(RangeID(range_id))))
        repository = self._manifest.run.repository
        return MissingHistory(repository, found["commit_id"], found["metarange_id"], file)

    def _run(self) -> Findings:
        new_ranges = self._write(self._new_ranges(), GCResultKind.RANGES)
        old_ranges = self._old_ranges(new_ranges)
        judged = frames.with_freed(self._judged(new_ranges), self._named_by_old(old_ranges))
        written = self._write_judged(judged).collect()
        files = _as_files(row.file for row in written if row.file is not None)
        return Findings(
            objects=of_kind(files, GCResultKind.OBJECTS),
            due=of_kind(files, GCResultKind.DUE),
            ranges=self._all_ranges(new_ranges),
            ranges_read=sum(file.rows for file in (*new_ranges, *old_ranges)),
            rows_read=self._entries.value + self._judging.rows_of_files,
            counts=of_kind(files, GCResultKind.COUNTS),
            totals=tuple(Count(**row.total.asDict()) for row in written if row.total is not None),
        )

    def _new_ranges(self) -> DataFrame:
        reader = self._reader
        ranges = reader.ranges(self._manifest, self._known, self._judging.old)
        if self._known is None:
            return ranges
        return frames.unknown(ranges, reader.known_ranges(self._known), "range_id")

    def _old_ranges(self, new_ranges: tuple[GCResultFile, ...]) -> tuple[GCResultFile, ...]:
        """Write the ranges that only old commits have."""
        if not self._judging.old:
            return ()
        ranges = self._reader.old_ranges(self._manifest, self._judging.old)
        others = self._read(new_ranges, GCResultKind.RANGES)
        return self._write(frames.unknown(ranges, others, "range_id"), GCResultKind.RANGES)

    def _named_by_old(self, old_ranges: tuple[GCResultFile, ...]) -> DataFrame | None:
        if not old_ranges:
            return None
        ranges = self._read(old_ranges, GCResultKind.RANGES)
        return self._reader.named_by_ranges(ranges, self._entries, may_miss=True)

    def _all_ranges(self, new_ranges: tuple[GCResultFile, ...]) -> tuple[GCResultFile, ...]:
        if self._known is None:
            return new_ranges
        known = self._reader.known_ranges(self._known)
        together = known.unionByName(self._read(new_ranges, GCResultKind.RANGES))
        return self._write(together, GCResultKind.RANGES)

    def _judged(self, new_ranges: tuple[GCResultFile, ...]) -> DataFrame:
        reader = self._reader
        saved = reader.saved(self._judging.state)
        committed = reader.named_by_ranges(
            self._read(new_ranges, GCResultKind.RANGES), self._entries
        )
        observed = reader.listed(
            repository_uids(self._manifest), self._judging.listed_from_us, self._objects
        )
        if self._known is not None:
            committed = committed.unionByName(frames.saved_commit_referenced(saved))
            observed = frames.observed_objects(saved, observed, self._known.closed_before_us)
        uncommitted = reader.uncommitted(self._manifest)
        return frames.judge(
            observed,
            committed=committed,
            uncommitted=uncommitted,
            saved=saved,
            times=self._judging.times,
        )

    def _write_judged(self, judged: DataFrame) -> DataFrame:
        is_due = frames.is_due(self._judging.times)
        if self._judging.quiet:
            is_due = f.col("verdict") == Verdict.CANDIDATE.value
        is_unseen = f.col("verdict") == Verdict.UNSEEN.value
        labelled = judged.withColumns(
            {
                "is_due": is_due,
                "is_remembered": frames.is_remembered(self._judging.closed_before_us),
                "stage": self._stage(),
            }
        ).where(~is_unseen | f.col("is_remembered"))  # new ranges reference many old objects
        transform = write_judged(self._reader.storage, self._judging.run_id)
        return labelled.mapInArrow(transform, FILE_OR_TOTAL)

    def _stage(self) -> Column:
        return (
            f.when(f.col("made_us") < self._judging.listed_from_us, "closed")
            .when(f.col("made_us") < self._judging.closed_before_us, "closing")
            .otherwise("open")
        )

    def _read(self, files: Iterable[GCResultFile], kind: GCResultKind) -> DataFrame:
        return self._reader.results(self._judging.run_id, files, kind)

    def _write(self, frame: DataFrame, kind: GCResultKind) -> tuple[GCResultFile, ...]:
        transform = write_rows(self._reader.storage, self._judging.run_id, kind)
        return _as_files(frame.mapInArrow(transform, WRITTEN).collect())


def _as_files(written: Iterable[Row]) -> tuple[GCResultFile, ...]:
    return as_files(row.asDict() for row in written)
