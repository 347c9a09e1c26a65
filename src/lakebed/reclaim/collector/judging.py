"""What judging every object of a repository takes and gives, whoever does it.

`Executor` is what a run needs of those who work beside the storage: `on_spark` on a
cluster, `on_arrow` in this process.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from lakebed.formats.gc_files import GCFile, GCManifest, GCRunID
from lakebed.formats.gc_state import GCResultFile, GCResultKind, GCState
from lakebed.reclaim.collector.executors.write import DUE_LABEL
from lakebed.reclaim.collector.rules import ObservationTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What is to be judged, and by what."""

    manifest: GCManifest
    """What the server prepared."""
    state: GCState | None
    """What the run before left."""
    look: ObservationTimes
    """The times of this run."""
    optimized: bool
    """Whether to use the state, and not read and list again what it knows."""
    quiet: bool
    """Whether candidates are due at once."""
    old: tuple[GCFile, ...] = ()
    """Commits that have expired of late, or of a dry run, would: they do not count."""

    @property
    def run_id(self) -> GCRunID:
        """The run."""
        return self.manifest.run.run_id

    @property
    def known(self) -> GCState | None:
        """The state, if it is used."""
        return self.state if self.optimized else None

    @property
    def listed_from_us(self) -> int:
        """Partitions that were made earlier are not listed."""
        return self.known.closed_before_us if self.known is not None else 0

    @property
    def closed_before_us(self) -> int:
        """Partitions that were made earlier are closed after this run.

        For an optimized run they stay closed, also when the server's times were made longer: the
        run does not list them.
        """
        return max(self.look.closed_before_us, self.listed_from_us)

    @property
    def rows_of_files(self) -> int:
        """How many rows there are in the files that the server and the run before wrote."""
        rows = sum(file.rows for file in self.manifest.files)
        if self.known is not None:
            rows += sum(file.rows for file in self.known.commits)
            rows += sum(file.rows for file in of_kind(self.known.files, GCResultKind.RANGES))
        if self.state is not None:
            rows += sum(file.rows for file in of_kind(self.state.files, GCResultKind.OBJECTS))
        return rows


@dataclass(frozen=True, slots=True)
class Count:
    """How many objects of one verdict are in partitions of one stage."""

    verdict: str
    """A `Verdict`, or of candidates, `DUE_LABEL`: the run deletes it, `FREED_LABEL`: old commits
    named it."""
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


class Executor(Protocol):
    """Those who read, list and delete for a run. All methods raise `LakebedError`."""

    name: str
    """As reports have it."""

    def judge(self, judging: Judging) -> Findings:
        """Judge every object, and write down what was found.

        Raises:
            MissingHistory: A file of a commit is not in the storage.
        """

    def sweep(self, manifest: GCManifest, due: Iterable[GCResultFile]) -> tuple[GCResultFile, ...]:
        """Delete what is due; return the files that say what became of it."""

    def count_made_before(
        self, run_id: GCRunID, objects: Iterable[GCResultFile], made_us: int
    ) -> int:
        """How many of the objects in some files are in partitions that were made earlier."""

    def count_open_uploads(self, manifest: GCManifest) -> int:
        """How many uploads are not finished."""

    def have_same_content(self, one: GCManifest, other: GCManifest) -> bool:
        """Whether two preparations have the same content, however it is cut into files."""


def as_files(written: Iterable[dict[str, Any]]) -> tuple[GCResultFile, ...]:
    """Return the files that rows of `executors.write.WRITTEN` name."""
    return tuple(GCResultFile(**row | {"kind": GCResultKind(row["kind"])}) for row in written)


def of_kind(files: Iterable[GCResultFile], kind: GCResultKind) -> tuple[GCResultFile, ...]:
    """Return the files of one kind."""
    return tuple(file for file in files if file.kind is kind)


def repository_uids(manifest: GCManifest) -> tuple[str, ...]:
    """Return whose objects a run looks at: the repository's own, and those of adopted ones.

    An adopted namespace of lakeFS is named by its address: the first run after it was adopted is a
    clean one, as after refs were restored.
    """
    run = manifest.run
    return (
        run.unique_id,
        *run.adopted_unique_ids,
        *(each.storage_namespace for each in run.adopted),
    )
