"""Input and result of judging every object of a repository.

`Executor` is the interface of the work beside the storage: `on_spark` on a cluster, `on_arrow` in
this process.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from lakebed.formats.gc_files import (
    GCFile,
    GCManifest,
    GCResultFile,
    GCResultKind,
    GCRunID,
    GCState,
)
from lakebed.reclaim.collector.executors.write import DUE_LABEL
from lakebed.reclaim.collector.rules import ObservationTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """Input of judging."""

    manifest: GCManifest
    state: GCState | None
    times: ObservationTimes
    optimized: bool
    """Whether to use the state instead of reading and listing everything."""
    quiet: bool
    """Whether candidates are due at once."""
    old: tuple[GCFile, ...] = ()
    """Commits expired since the last run or, for a dry run, about to expire: they do not count."""

    @property
    def run_id(self) -> GCRunID:
        return self.manifest.run.run_id

    @property
    def known(self) -> GCState | None:
        return self.state if self.optimized else None

    @property
    def listed_from_us(self) -> int:
        """Partitions created earlier are not listed."""
        return self.known.closed_before_us if self.known is not None else 0

    @property
    def closed_before_us(self) -> int:
        """Partitions created earlier are closed after this run.

        In an optimized run they stay closed even if the server's times were increased: the run does
        not list them.
        """
        return max(self.times.closed_before_us, self.listed_from_us)

    @property
    def rows_of_files(self) -> int:
        """Number of rows in the files of the server and the previous run."""
        rows = sum(file.rows for file in self.manifest.files)
        if self.known is not None:
            rows += sum(file.rows for file in self.known.commits)
            rows += sum(file.rows for file in of_kind(self.known.files, GCResultKind.RANGES))
        if self.state is not None:
            rows += sum(file.rows for file in of_kind(self.state.files, GCResultKind.OBJECTS))
        return rows


@dataclass(frozen=True, slots=True)
class Count:
    """Number of objects with a verdict in partitions of a stage."""

    verdict: str
    """A `Verdict` or, for candidates, `DUE_LABEL` (deleted by the run) or `FREED_LABEL` (referenced
    by old commits)."""
    stage: str
    """``closed`` before this run, ``closing`` by it, or ``open``."""
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Result of judging."""

    objects: tuple[GCResultFile, ...]
    """Objects for the next run, without objects that could not be deleted."""
    due: tuple[GCResultFile, ...]
    """Objects deleted by this run."""
    ranges: tuple[GCResultFile, ...]
    """All ranges ever read."""
    ranges_read: int
    rows_read: int
    """Entries of ranges, and rows of the server's and the previous run's files."""
    counts: tuple[GCResultFile, ...]
    """Counts by branch, not added up yet."""
    totals: tuple[Count, ...]
    """Counts over all branches."""

    def of(self, verdict: str) -> tuple[int, int]:
        """Return the number of objects with a verdict, and their bytes."""
        found = [count for count in self.totals if count.verdict == verdict]
        return sum(count.objects for count in found), sum(count.bytes for count in found)

    @property
    def listed(self) -> int:
        """Number of objects from listings; the state has the objects of closed partitions."""
        return sum(count.objects for count in self.totals if count.stage != "closed")

    def kept_in(self, stage: str) -> int:
        """Return the number of objects of a stage not deleted by this run."""
        return sum(
            count.objects
            for count in self.totals
            if count.stage == stage and count.verdict != DUE_LABEL
        )

    def due_in(self, stage: str) -> int:
        """Return the number of objects of a stage deleted by this run."""
        return sum(
            count.objects
            for count in self.totals
            if count.stage == stage and count.verdict == DUE_LABEL
        )


class Executor(Protocol):
    """Reads, lists and deletes for a run. All methods raise `LakebedError`."""

    name: str

    def judge(self, judging: Judging) -> Findings:
        """Judge every object, and write the results; raise `MissingHistory` if a file is gone."""

    def sweep(self, manifest: GCManifest, due: Iterable[GCResultFile]) -> tuple[GCResultFile, ...]:
        """Delete the due objects; return the files with their results."""

    def count_made_before(
        self, run_id: GCRunID, objects: Iterable[GCResultFile], made_us: int
    ) -> int:
        """Return how many of the objects are in partitions created before `made_us`."""

    def count_open_uploads(self, manifest: GCManifest) -> int:
        """Return the number of unfinished uploads."""

    def have_same_content(self, one: GCManifest, other: GCManifest) -> bool:
        """Return whether two preparations have equal content, however split into files."""


def as_files(written: Iterable[dict[str, Any]]) -> tuple[GCResultFile, ...]:
    """Return the files in rows of `executors.write.WRITTEN`."""
    return tuple(GCResultFile(**row | {"kind": GCResultKind(row["kind"])}) for row in written)


def of_kind(files: Iterable[GCResultFile], kind: GCResultKind) -> tuple[GCResultFile, ...]:
    """Return the files of one kind."""
    return tuple(file for file in files if file.kind is kind)


def repository_uids(manifest: GCManifest) -> tuple[str, ...]:
    """Return the owners of a run's objects: the repository, and its adopted ones.

    An adopted namespace of lakeFS is identified by its address: the first run after the adoption is
    a clean run, as after a restore of refs.
    """
    run = manifest.run
    return (
        run.unique_id,
        *run.adopted_unique_ids,
        *(each.storage_namespace for each in run.adopted),
    )
