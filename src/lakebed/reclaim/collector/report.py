"""Reports of runs, and the retention of their files."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import to_datetime
from lakebed.block import Address, ObjectNotFound
from lakebed.block.errors import LOCKED
from lakebed.formats.files import load_json, read_record
from lakebed.formats.gc_files import (
    GC_RESULT_SCHEMAS,
    REFUSAL_NAME,
    SUMMARY_NAME,
    GCResultFile,
    GCResultKind,
    GCRunID,
    decode_result,
)
from lakebed.formats.layout import gc_run_folder, gc_runs_folder
from lakebed.reclaim.collector.errors import NotTheOwner
from lakebed.reclaim.collector.executors.write import add_up
from lakebed.reclaim.collector.judging import of_kind
from lakebed.reclaim.collector.storage import Storage

KEPT_US: Final = 30 * 24 * 3600 * 1_000_000
"""Minimum time for which the files of a run are kept."""

SERVER: Final = "server"
"""Executor of the frequent runs in the background process, of which only some are kept."""

_REPORT: Final = (SUMMARY_NAME, GCResultKind.COUNTS, GCResultKind.SWEPT, GCResultKind.VERSIONS)
"""Prefixes of the file names of a report."""

_RUN_ID: Final = re.compile(r"[0-9a-f]{36}")
_TIME_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Summary of one run; times are microseconds since 1970 by the server's clock."""

    run_id: GCRunID
    repository: str
    mode: str
    """``clean`` or ``optimized``."""
    dry_run: bool
    assume_quiet: bool
    began_us: int
    cutoff_us: int
    """Younger objects were kept."""
    looked_at: int
    """Number of objects judged."""
    listed: int
    """Number of objects listed in the storage; the others were in the state."""
    ranges_read: int
    rows_read: int
    """Entries of the ranges, and rows of the server's and the previous run's files."""
    committed: int
    held: int
    young: int
    waiting: int
    """Candidates that a later run deletes if they are still garbage."""
    waiting_bytes: int
    next_us: int
    """Runs that begin after this time delete the waiting candidates."""
    due: int
    """Candidates to be deleted by this run."""
    due_bytes: int
    deleted: int
    deleted_bytes: int
    failed: int
    """Candidates that could not be deleted, without locked objects; kept for later runs."""
    success: bool
    why: str = ""
    """Why the first failed object could not be deleted."""
    versions: str = "keep"
    """The setting `gc.versions`: ``keep`` or ``delete``."""
    versions_deleted: int = 0
    """Deleted versions, including delete markers; `deleted_bytes` is their size."""
    kept: int = 0
    """Deleted objects kept by the bucket as older versions; `deleted_bytes` excludes them."""
    kept_bytes: int = 0
    locked: int = 0
    """Objects protected by the storage's object lock; kept for later runs."""
    locked_until: str = ""
    """When the first locked object can be deleted."""
    freed: int = 0
    """Waiting candidates referenced only by commits that expired since the last run or, for a dry
    run, would expire."""
    freed_bytes: int = 0
    executor: str = "spark"
    """``spark``, ``arrow`` (the command itself) or `SERVER`."""
    counts: tuple[GCResultFile, ...] = ()
    swept: tuple[GCResultFile, ...] = ()
    left_alone: str = ""
    """Namespace in lakeFS whose objects are kept until they are adopted."""
    commits: dict[str, Any] = field(default_factory=dict)
    """Counts of expired commits or, for a dry run, of commits that would expire; see
    `expireCommits` of the API."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    def encode(self) -> bytes:
        return json.dumps(self.as_dict(), indent=1).encode()

    def sentence(self) -> str:
        """Return the result of the run in sentences."""
        return self._of_commits() + self._of_objects() + self._of_lakefs()

    def _of_lakefs(self) -> str:
        if not self.left_alone:
            return ""
        return (
            f" Objects of lakeFS below {self.left_alone} are kept: once lakeFS is off, adopt them"
            f" with `lakebed migrate adopt lakefs://{self.repository}`."
        )

    def _of_commits(self) -> str:
        names = ("expired", "waiting", "marked") if self.dry_run else ("expired",)
        commits = sum(self.commits.get(name, 0) for name in names)
        if not commits:
            return ""
        does = "would expire, which would free" if self.dry_run else "expired, which frees"
        return f"{commits} commits {does} {self.freed} objects ({self.freed_bytes:,} bytes). "

    def _of_objects(self) -> str:
        waiting = "no other garbage was found"
        if self.waiting:
            begins = to_datetime(self.next_us).isoformat(" ", "seconds")
            waiting = f"{self.waiting} more await confirmation by a run that begins after {begins}"
        if self.dry_run:
            would = f"{self.due} objects would be deleted"
            return f"Dry run: {would}; {waiting}."
        if self.failed:
            done = f"{self.deleted} of {self.due} objects were deleted"
            return f"{done}; the storage refused {self.failed}: {self.why}.{self._of_versions()}"
        if not self.due:
            return f"No objects to delete yet; {waiting}."
        done = f"{self.deleted} objects ({self.deleted_bytes:,} bytes) were deleted; {waiting}."
        return done + self._of_versions()

    def _of_versions(self) -> str:
        """Return the sentences on older versions and on object lock."""
        told = ""
        if self.kept:
            told += (
                f" The bucket keeps older versions of {self.kept} of them ({self.kept_bytes:,}"
                " bytes), since gc.versions is keep: delete these by a lifecycle rule of the"
                " bucket."
            )
        if self.locked:
            told += (
                f" {self.locked} objects are locked by the storage, the first until"
                f" {self.locked_until}; later runs retry them."
            )
        return told


@dataclass(slots=True)
class Progress:
    """Progress of a run."""

    has_begun: bool = False
    """Whether the run has begun to delete. A run that ends earlier is refused."""


@contextmanager
def recording_failure(storage: Storage, run_id: GCRunID, executor: str) -> Iterator[Progress]:
    """Write the reason to the storage if a run ends early; the error is raised."""
    progress = Progress()
    try:
        yield progress
    except NotTheOwner:
        raise  # the namespace belongs to another repository
    except LakebedError as error:
        told = {"kind": error.kind, "message": str(error), "executor": executor}
        note = json.dumps(told | asdict(progress)).encode()
        with suppress(LakebedError):
            storage.block.put(storage.file(run_id, REFUSAL_NAME), [note])
        raise


def add_delete_results(
    storage: Storage, summary: RunSummary, files: Iterable[GCResultFile]
) -> tuple[RunSummary, tuple[GCResultFile, ...]]:
    """Return the summary with the results of deleting, and the files of undeleted objects."""
    files = tuple(files)
    swept, failed = of_kind(files, GCResultKind.SWEPT), of_kind(files, GCResultKind.OBJECTS)
    sums = dict.fromkeys(("versions", "bytes", "kept", "kept_bytes", "locked"), 0)
    until: list[str] = []
    for file in of_kind(files, GCResultKind.VERSIONS):
        table = _read_result(storage, summary.run_id, file)
        is_locked = pc.not_equal(table.column("locked"), "")
        until += pc.unique(table.column("locked").filter(is_locked)).to_pylist()
        for name, column in zip(sums, (*table.columns[1:5], is_locked), strict=True):
            sums[name] += pc.sum(column).as_py() or 0
    stay = sum(file.rows for file in failed)
    stay_bytes = sum(file.bytes for file in failed)
    found = replace(
        summary,
        deleted=summary.due - stay,
        deleted_bytes=summary.due_bytes - stay_bytes - sums["kept_bytes"],
        failed=stay - sums["locked"],
        success=stay == sums["locked"],
        versions_deleted=sums["versions"],
        kept=sums["kept"],
        kept_bytes=sums["kept_bytes"],
        locked=sums["locked"],
        locked_until=min(until, default=""),
        swept=swept,
    )
    if storage.versions == "delete":
        found = replace(found, deleted_bytes=sums["bytes"])
    if found.failed:
        tables = (_read_result(storage, summary.run_id, file) for file in swept)
        errors = (each for table in tables for each in table.column("error").to_pylist())
        why = next(each for each in errors if each and not each.startswith(LOCKED))
        found = replace(found, why=why)
    return found, failed


def _read_result(storage: Storage, run_id: GCRunID, file: GCResultFile) -> pa.Table:
    address = storage.file(run_id, file.name)
    return decode_result(storage.block.read(address), file.kind, file.content_id, file=str(address))


def read_summary(storage: Storage, run_id: GCRunID) -> RunSummary | None:
    """Return the figures of a run, or None if it did not finish; raise `DamagedFile` if damaged."""
    address = storage.file(run_id, SUMMARY_NAME)
    try:
        data = storage.block.read(address)
    except ObjectNotFound:
        return None
    return read_record(RunSummary, load_json(data, file=str(address)), file=str(address))


def run_ids(storage: Storage) -> Iterator[GCRunID]:
    """Yield the runs of a repository, oldest first."""
    parent = storage.namespace.folder(gc_runs_folder(storage.repository_uid))
    for name in storage.block.list_folders(parent):
        yield GCRunID(name)


def counts_by_branch(storage: Storage, summary: RunSummary) -> list[dict[str, Any]]:
    """Return the number of objects of each verdict in a run, by branch."""
    tables = [GC_RESULT_SCHEMAS[GCResultKind.COUNTS].empty_table()]
    for file in summary.counts:
        table = _read_result(storage, summary.run_id, file)
        tables = [add_up([*tables, table], ["branch", "verdict", "stage"])]
    found = add_up(tables, ["branch", "verdict"]).to_pylist()
    return sorted(found, key=lambda each: (each["branch"], each["verdict"]))


def prune(storage: Storage, latest: GCRunID) -> int:
    """Remove the files of runs older than `KEPT_US` before the latest; return the number of runs.

    The latest run's folder has all files referenced by the state.

    Raises:
        NotTheOwner: The namespace now belongs to another repository.
        BlockError: The storage refused or failed.
    """
    storage.check_owner()
    # Run ids begin with the time. Folders with other names are kept.
    first_kept = f"{int(latest[:_TIME_DIGITS], 16) - KEPT_US:016x}"
    old = [each for each in run_ids(storage) if _RUN_ID.fullmatch(each) and each < first_kept]
    for run_id in old:
        remove_files(storage, run_id)
    return len(old)


def remove_superseded_files(storage: Storage, run_id: GCRunID) -> None:
    """Remove the files of a server's run when a later run exists.

    The report of a run that has deleted anything is kept. Runs by other executors are kept. Raises
    as `prune`.
    """
    storage.check_owner()
    summary = read_summary(storage, run_id)
    if summary is not None and summary.executor == SERVER:
        did_something = summary.deleted or summary.failed
        remove_files(storage, run_id, keep=_REPORT if did_something else ())


def remove_refused_files(storage: Storage, after: GCRunID | None) -> None:
    """Remove the files of a server's refused runs later than `after`, except the last reason.

    Runs may be refused every few minutes until an operator intervenes. Runs that have begun to
    delete are kept: the state may reference their files. Raises as `prune`, and `DamagedFile` if a
    reason is unreadable.
    """
    storage.check_owner()
    later = [each for each in run_ids(storage) if each > (after or "")]
    refused = [each for each in later if _is_refused_by_server(storage, each)]
    for run_id in refused[:-1]:
        remove_files(storage, run_id)
    for run_id in refused[-1:]:
        remove_files(storage, run_id, keep=(REFUSAL_NAME,))


def _is_refused_by_server(storage: Storage, run_id: GCRunID) -> bool:
    address = storage.file(run_id, REFUSAL_NAME)
    try:
        note = load_json(storage.block.read(address), file=str(address))
    except ObjectNotFound:
        return False
    return note.get("executor") == SERVER and not note["has_begun"]


def remove_files(storage: Storage, run_id: GCRunID, *, keep: tuple[str, ...] = ()) -> None:
    """Remove the files of a run, except names beginning with `keep`; a `BlockError` leaves some."""
    folder = storage.namespace.folder(gc_run_folder(storage.repository_uid, run_id))
    for batch in storage.block.list_objects(folder):
        addresses = [
            Address.parse(each)
            for each in batch.column("address").to_pylist()
            if not each.rpartition("/")[2].startswith(keep)
        ]
        for result in storage.delete(addresses):
            if result.error is not None:
                raise result.error
