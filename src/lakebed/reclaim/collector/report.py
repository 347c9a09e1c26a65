"""The reports of runs: what each found and did, and how long its files are kept."""

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
from lakebed.formats.documents import load_json, read_record
from lakebed.formats.gc_files import GCRunID
from lakebed.formats.gc_state import (
    GC_RESULT_SCHEMAS,
    REFUSAL_NAME,
    SUMMARY_NAME,
    GCResultFile,
    GCResultKind,
    decode_result,
)
from lakebed.formats.layout import gc_run_folder, gc_runs_folder
from lakebed.reclaim.collector.errors import NotTheOwner
from lakebed.reclaim.collector.executors.write import add_up
from lakebed.reclaim.collector.judging import of_kind
from lakebed.reclaim.collector.storage import Storage

KEPT_US: Final = 30 * 24 * 3600 * 1_000_000
"""How long the files of a run are kept, at least."""

SERVER: Final = "server"
"""Who makes runs every few minutes, of which only some are kept."""

_REPORT: Final = (SUMMARY_NAME, GCResultKind.COUNTS, GCResultKind.SWEPT, GCResultKind.VERSIONS)
"""How the names of the files begin that are a report."""

_RUN_ID: Final = re.compile(r"[0-9a-f]{36}")
_TIME_DIGITS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run; times are microseconds since 1970 by the server's clock."""

    run_id: GCRunID
    repository: str
    mode: str
    """``clean`` or ``optimized``."""
    dry_run: bool
    assume_quiet: bool
    began_us: int
    cutoff_us: int
    """Objects that are younger were left alone."""
    looked_at: int
    """How many objects were judged."""
    listed: int
    """How many of them the storage listed; earlier runs remembered the others."""
    ranges_read: int
    rows_read: int
    """Entries of those ranges, what the server prepared, and what the run before left."""
    committed: int
    held: int
    young: int
    waiting: int
    """Candidates that a later run deletes, if they are still garbage then."""
    waiting_bytes: int
    next_us: int
    """Runs that begin after this time delete them."""
    due: int
    """Candidates whose time had come."""
    due_bytes: int
    deleted: int
    deleted_bytes: int
    failed: int
    """Objects that could not be deleted, without those that are locked; they stay candidates."""
    success: bool
    why: str = ""
    """Why the first of those could not be deleted."""
    versions: str = "keep"
    """The setting `gc.versions`: ``keep`` or ``delete``."""
    versions_deleted: int = 0
    """How many versions were deleted, delete markers among them; `deleted_bytes` is theirs."""
    kept: int = 0
    """Of the deleted objects: how many the bucket keeps as older versions. Their bytes are not in
    `deleted_bytes`."""
    kept_bytes: int = 0
    locked: int = 0
    """Objects that object lock of the storage protects; they stay candidates."""
    locked_until: str = ""
    """When the first of those can be deleted."""
    freed: int = 0
    """Of those that wait: only commits named them that have expired since the run before, or of a
    dry run, would expire."""
    freed_bytes: int = 0
    executor: str = "spark"
    """Who did the work: ``spark``, ``arrow`` (the command itself) or `SERVER`."""
    counts: tuple[GCResultFile, ...] = ()
    """The figures by branch."""
    swept: tuple[GCResultFile, ...] = ()
    """What became of each object that was to be deleted."""
    left_alone: str = ""
    """The namespace in lakeFS whose objects no run touches before they are adopted."""
    commits: dict[str, Any] = field(default_factory=dict)
    """How many commits expired, or of a dry run, would have; see `expireCommits` of the API."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for a JSON document."""
        return asdict(self)

    def encode(self) -> bytes:
        """Return the file of the summary."""
        return json.dumps(self.as_dict(), indent=1).encode()

    def sentence(self) -> str:
        """Say in words what happened."""
        return self._of_commits() + self._of_objects() + self._of_lakefs()

    def _of_lakefs(self) -> str:
        if not self.left_alone:
            return ""
        return (
            f" All objects of lakeFS below {self.left_alone} are left alone: `lakebed migrate adopt"
            f" lakefs://{self.repository}` takes them over, once lakeFS is off."
        )

    def _of_commits(self) -> str:
        """Say what became of old commits, and what that frees."""
        names = ("expired", "waiting", "marked") if self.dry_run else ("expired",)
        commits = sum(self.commits.get(name, 0) for name in names)
        if not commits:
            return ""
        does = "would expire, which would free" if self.dry_run else "expired, which frees"
        return f"{commits} commits {does} {self.freed} objects ({self.freed_bytes:,} bytes). "

    def _of_objects(self) -> str:
        waiting = "nothing else is garbage"
        if self.waiting:
            begins = to_datetime(self.next_us).isoformat(" ", "seconds")
            waiting = f"{self.waiting} more are garbage, for runs that begin after {begins}"
        if self.dry_run:
            would = f"{self.due} objects would be deleted"
            return f"A dry run, nothing was changed: {would}; {waiting}."
        if self.failed:
            done = f"{self.deleted} of {self.due} objects were deleted"
            return f"{done}, the storage refused {self.failed}: {self.why}.{self._of_versions()}"
        if not self.due:
            return f"There was nothing to delete yet; {waiting}."
        done = f"{self.deleted} objects ({self.deleted_bytes:,} bytes) were deleted; {waiting}."
        return done + self._of_versions()

    def _of_versions(self) -> str:
        """Return the sentences on older versions and on object lock."""
        told = ""
        if self.kept:
            told += (
                f" Of {self.kept} of them the bucket keeps older versions ({self.kept_bytes:,}"
                " bytes), since gc.versions is keep: a lifecycle rule of the bucket deletes them."
            )
        if self.locked:
            told += (
                f" {self.locked} objects are locked by the storage, the first of them until"
                f" {self.locked_until}; later runs try again."
            )
        return told


@dataclass(slots=True)
class Progress:
    """How far a run has come."""

    has_begun: bool = False
    """Whether it has begun to delete. If it ends before that, it is refused."""


@contextmanager
def noting_failure(storage: Storage, run_id: GCRunID, executor: str) -> Iterator[Progress]:
    """Leave a note of why a run ends early, if it does; the error goes through."""
    progress = Progress()
    try:
        yield progress
    except NotTheOwner:
        raise  # nothing of this run is wanted there
    except LakebedError as error:
        told = {"kind": error.kind, "message": str(error), "executor": executor}
        note = json.dumps(told | asdict(progress)).encode()
        with suppress(LakebedError):
            storage.block.put(storage.file(run_id, REFUSAL_NAME), [note])
        raise


def add_up_swept(
    storage: Storage, summary: RunSummary, files: Iterable[GCResultFile]
) -> tuple[RunSummary, tuple[GCResultFile, ...]]:
    """Return the summary with the results of deleting, and the files of objects that stay."""
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


def read_summary(storage: Storage, run_id: GCRunID) -> dict[str, Any] | None:
    """Return the figures of a run; None if it did not finish.

    Raises:
        DamagedFile: The file is not a summary.
    """
    address = storage.file(run_id, SUMMARY_NAME)
    try:
        data = storage.block.read(address)
    except ObjectNotFound:
        return None
    found: dict[str, Any] = load_json(data, file=str(address))
    read_record(RunSummary, found, file=str(address))
    return found


def run_ids(storage: Storage) -> Iterator[GCRunID]:
    """Iterate over the runs of a repository, the oldest first."""
    parent = storage.namespace.folder(gc_runs_folder(storage.repository_uid))
    for name in storage.block.list_folders(parent):
        yield GCRunID(name)


def counts_by_branch(storage: Storage, summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how many objects of each verdict a run found, by branch."""
    run_id = GCRunID(summary["run_id"])
    tables = [GC_RESULT_SCHEMAS[GCResultKind.COUNTS].empty_table()]
    for file in summary["counts"]:
        table = _read_result(storage, run_id, GCResultFile(**file | {"kind": GCResultKind.COUNTS}))
        tables = [add_up([*tables, table], ["branch", "verdict", "stage"])]
    found: list[dict[str, Any]] = add_up(tables, ["branch", "verdict"]).to_pylist()
    return sorted(found, key=lambda each: (each["branch"], each["verdict"]))


def prune(storage: Storage, latest: GCRunID) -> int:
    """Remove the files of runs that began long before the latest one; return how many runs.

    The state names the latest run, and all files that the state names are in that run's folder.

    Raises:
        NotTheOwner: The namespace now belongs to another repository.
        BlockError: The storage refused or failed.
    """
    storage.check_owner()
    # Ids of runs begin with the time. Folders with other names are left alone.
    first_kept = f"{int(latest[:_TIME_DIGITS], 16) - KEPT_US:016x}"
    old = [each for each in run_ids(storage) if _RUN_ID.fullmatch(each) and each < first_kept]
    for run_id in old:
        remove_files(storage, run_id)
    return len(old)


def thin_out(storage: Storage, run_id: GCRunID) -> None:
    """Remove what is left of a run of a server that is not the latest any more.

    Its report is kept, if it has deleted anything. Runs that others make are left as they are.

    Raises:
        NotTheOwner: The namespace now belongs to another repository.
        BlockError: The storage refused or failed.
    """
    storage.check_owner()
    summary = read_summary(storage, run_id)
    if summary is not None and summary.get("executor") == SERVER:
        did_something = summary["deleted"] or summary["failed"]
        remove_files(storage, run_id, keep=_REPORT if did_something else ())


def thin_out_refused(storage: Storage, after: GCRunID | None) -> None:
    """Of runs of a server that were refused, leave the reason of the last one, and nothing else.

    They may be refused every few minutes, until somebody has done something about it. Runs that
    have begun to delete are left as they are: the state may name their files.

    Args:
        storage: Of the repository.
        after: The last run that was not refused; only later ones are looked at.

    Raises:
        NotTheOwner: The namespace now belongs to another repository.
        DamagedFile: A note cannot be read.
        BlockError: The storage refused or failed.
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
    """Remove the files of a run, but for those whose names begin with one of `keep`.

    Raises:
        BlockError: The storage refused or failed; some may be left.
    """
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
