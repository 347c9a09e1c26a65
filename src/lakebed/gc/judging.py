"""Judging every object of a repository: from files and listings to files, in one shuffle."""

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f

from lakebed.formats import RangeID, range_path
from lakebed.formats.gc_files import GCManifest
from lakebed.formats.gc_state import GCResultFile, GCResultKind, GCState
from lakebed.gc import frames
from lakebed.gc.errors import ExecutorFailed, MissingHistory, MissingRange
from lakebed.gc.executors.write import (
    DUE_LABEL,
    FILE_OR_TOTAL,
    WRITTEN,
    write_judged,
    write_rows,
)
from lakebed.gc.rules import Look, Verdict
from lakebed.gc.sources import Sources
from lakebed.gc.spark import explained


@dataclass(frozen=True, slots=True)
class Count:
    """How many objects of one verdict are in partitions of one stage."""

    verdict: str
    """A `Verdict`, or `DUE_LABEL` for candidates that the run deletes."""
    stage: str
    """``closed`` before this run, ``closing`` by it, or ``open``."""
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The result of judging."""

    objects: tuple[GCResultFile, ...]
    """What the next run must know; objects that cannot be deleted come on top."""
    due: tuple[GCResultFile, ...]
    """What this run deletes."""
    ranges: tuple[GCResultFile, ...]
    """All ranges that were ever read."""
    ranges_read: int
    rows_read: int
    """Entries of ranges, what the server prepared, and what the run before left."""
    counts: tuple[GCResultFile, ...]
    """The figures by branch, not added up yet."""
    totals: tuple[Count, ...]
    """The figures of all branches."""

    def of(self, verdict: str) -> tuple[int, int]:
        """How many objects were found to be something, and their bytes."""
        found = [count for count in self.totals if count.verdict == verdict]
        return sum(count.objects for count in found), sum(count.bytes for count in found)

    @property
    def listed(self) -> int:
        """How many objects came from listings; those in closed partitions came from the state."""
        return sum(count.objects for count in self.totals if count.stage != "closed")

    def staying(self, stage: str) -> int:
        """How many objects of a stage this run does not delete."""
        return sum(
            count.objects
            for count in self.totals
            if count.stage == stage and count.verdict != DUE_LABEL
        )

    def going(self, stage: str) -> int:
        """How many objects of a stage this run deletes."""
        return sum(
            count.objects
            for count in self.totals
            if count.stage == stage and count.verdict == DUE_LABEL
        )


class Judging:
    """The judging of one run.

    Args:
        sources: Where frames come from.
        manifest: What the server prepared.
        state: What the run before left.
        look: The times of this run.
        optimized: Whether to use the state, and not read and list again what it knows.
        quiet: Whether candidates are due at once.
    """

    def __init__(
        self,
        sources: Sources,
        manifest: GCManifest,
        state: GCState | None,
        look: Look,
        *,
        optimized: bool,
        quiet: bool,
    ) -> None:
        self._sources = sources
        self._manifest = manifest
        self._run_id = manifest.run.run_id
        self._state = state
        self._known = state if optimized else None
        self._look = look
        self._entries = sources.counter()
        self._quiet = quiet
        # Closed partitions stay closed for an optimized run, also when the server's times were made
        # longer: the run does not list them.
        known_closed_us = self._known.closed_before_us if self._known is not None else 0
        self.closed_before_us = max(look.closed_before_us, known_closed_us)

    def run(self) -> Findings:
        """Judge, and write down what was found.

        Raises:
            ExecutorFailed: An executor raised one of our errors.
            MissingHistory: A range of a commit is not in the storage.
        """
        try:
            with explained():
                return self._run()
        except ExecutorFailed as failed:
            range_id = MissingRange.id_in(failed)
            if range_id is None:
                raise
            raise self._whose(range_id) from failed

    def _whose(self, range_id: str) -> MissingHistory:
        """Find a commit that a missing range belongs to, which takes a while."""
        with explained():
            (found,) = self._sources.naming(self._manifest, range_id).take(1)
        file = str(self._sources.storage.namespace.address(range_path(RangeID(range_id))))
        repository = self._manifest.run.repository
        return MissingHistory(repository, found["commit_id"], found["metarange_id"], file)

    def _run(self) -> Findings:
        new_ranges = self._write(self._new_ranges(), GCResultKind.RANGES)
        written = self._write_judged(self._judged(new_ranges)).collect()
        files = as_files(row.file for row in written if row.file is not None)
        return Findings(
            objects=of_kind(files, GCResultKind.OBJECTS),
            due=of_kind(files, GCResultKind.DUE),
            ranges=self._all_ranges(new_ranges),
            ranges_read=sum(file.rows for file in new_ranges),
            rows_read=self._entries.value + self._rows_of_files(),
            counts=of_kind(files, GCResultKind.COUNTS),
            totals=tuple(Count(**row.total.asDict()) for row in written if row.total is not None),
        )

    def _rows_of_files(self) -> int:
        """How many rows there are in the files that the server and the run before wrote."""
        rows = sum(file.rows for file in self._manifest.files)
        if self._known is not None:
            rows += sum(file.rows for file in self._known.commits)
            rows += sum(file.rows for file in of_kind(self._known.files, GCResultKind.RANGES))
        if self._state is not None:
            rows += sum(file.rows for file in of_kind(self._state.files, GCResultKind.OBJECTS))
        return rows

    def _new_ranges(self) -> DataFrame:
        sources = self._sources
        ranges = sources.ranges(self._manifest, self._known)
        if self._known is None:
            return ranges
        return frames.unknown(ranges, sources.known_ranges(self._known), "range_id")

    def _all_ranges(self, new_ranges: tuple[GCResultFile, ...]) -> tuple[GCResultFile, ...]:
        if self._known is None:
            return new_ranges
        known = self._sources.known_ranges(self._known)
        together = known.unionByName(self._read(new_ranges, GCResultKind.RANGES))
        return self._write(together, GCResultKind.RANGES)

    def _judged(self, new_ranges: tuple[GCResultFile, ...]) -> DataFrame:
        sources = self._sources
        saved = sources.saved(self._state)
        committed = sources.named_by_ranges(
            self._read(new_ranges, GCResultKind.RANGES), self._entries
        )
        looked = sources.listed(repository_uids(self._manifest), self._listed_from_us)
        if self._known is not None:
            committed = committed.unionByName(frames.saved_commit_named(saved))
            looked = frames.looked_at(saved, looked, self._known.closed_before_us)
        held = sources.held(self._manifest)
        return frames.judge(looked, committed=committed, held=held, saved=saved, look=self._look)

    @property
    def _listed_from_us(self) -> int:
        return self._known.closed_before_us if self._known is not None else 0

    def _write_judged(self, judged: DataFrame) -> DataFrame:
        is_due = frames.is_due(self._look)
        if self._quiet:
            is_due = f.col("verdict") == Verdict.CANDIDATE.value
        is_unseen = f.col("verdict") == Verdict.UNSEEN.value
        labelled = judged.withColumns(
            {
                "is_due": is_due,
                "is_remembered": frames.is_remembered(self.closed_before_us),
                "stage": self._stage(),
            }
        ).where(~is_unseen | f.col("is_remembered"))  # new ranges name many old objects
        transform = write_judged(self._sources.storage, self._run_id)
        return labelled.mapInArrow(transform, FILE_OR_TOTAL)

    def _stage(self) -> Column:
        return (
            f.when(f.col("made_us") < self._listed_from_us, "closed")
            .when(f.col("made_us") < self.closed_before_us, "closing")
            .otherwise("open")
        )

    def _read(self, files: Iterable[GCResultFile], kind: GCResultKind) -> DataFrame:
        return self._sources.results(self._run_id, files, kind)

    def _write(self, frame: DataFrame, kind: GCResultKind) -> tuple[GCResultFile, ...]:
        transform = write_rows(self._sources.storage, self._run_id, kind)
        return as_files(frame.mapInArrow(transform, WRITTEN).collect())


def as_files(written: Iterable[Row]) -> tuple[GCResultFile, ...]:
    """Return the files that rows of `WRITTEN` name."""
    rows = (row.asDict() for row in written)
    return tuple(GCResultFile(**row | {"kind": GCResultKind(row["kind"])}) for row in rows)


def of_kind(files: Iterable[GCResultFile], kind: GCResultKind) -> tuple[GCResultFile, ...]:
    """Return the files of one kind."""
    return tuple(file for file in files if file.kind is kind)


def repository_uids(manifest: GCManifest) -> tuple[str, ...]:
    """Return whose objects a run looks at: the repository's own, and those of adopted ones."""
    return (manifest.run.unique_id, *manifest.run.adopted_unique_ids)
