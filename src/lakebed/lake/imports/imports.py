"""Starting imports and reading their status; one process at a time runs an import.

A request writes the record and a waiting note. `ImportRunner` finds the note, leases the record,
and removes the note when the import has ended. If the request dies between the two writes, its
client has not received the id, and the record is removed after a while.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NewType

from lakebed.base.actor import current_actor
from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.base.tracing import traced
from lakebed.block import BlockStore, InvalidAddress
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, RepositoryID
from lakebed.formats.boundaries import Breaks
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import check_commit_words
from lakebed.lake.errors import ImportOver, InvalidImport, TaskNotFound
from lakebed.lake.imports.run import SKIPPED_SHOWN_MAX
from lakebed.lake.imports.sources import ImportSource, check_places, in_order, source_messages
from lakebed.lake.keys import IMPORTS, WAITING, WAITING_PARTITION, copy_of
from lakebed.lake.settings import CatalogSettings

ImportID = NewType("ImportID", str)
"""Id of an import, unique within its repository."""

CANCELED: Final = "Canceled"
"""Status text of a canceled import; clients match this word."""

DEFAULT_MESSAGE: Final = "Import objects"
"""Default commit message of an import."""

_STRANGE_PATHS: Final = "objects whose paths cannot be imported"
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Skipped:
    """Skipped objects of the same kind."""

    kind: str
    """In the plural, for example "symbolic links"."""
    count: int
    example: str
    """Address of one of them, or empty if a Spark job reported none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """Status of an import."""

    id: ImportID
    completed: bool
    """Whether the import succeeded."""
    updated: datetime
    objects: int
    """Number of objects found so far."""
    skipped: int
    """Number of objects that cannot be imported."""
    skipped_addresses: Sequence[str]
    """Addresses of the first skipped objects."""
    skipped_kinds: Sequence[Skipped]
    """The skipped objects by kind."""
    current: str | None
    """Location of the last objects found."""
    metarange_id: str | None
    commit: Commit | None
    """The commit of a successful import; if `unchanged`, the head. None of a dry run."""
    unchanged: bool
    """Whether the branch already had all objects, so that no commit was made."""
    error: str | None
    """The error of a failed or canceled import."""


class Imports:
    """Starts, cancels and cleans up the imports of all repositories.

    Methods raise `RepositoryNotFound` for a missing repository, and `TaskNotFound` if the branch
    has no such import, or its record was removed.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        on_start: Callable[[], object],
    ) -> None:
        """`on_start` is called after each started import."""
        self._on_start = on_start
        self._engine = engine
        self._store = store
        self._block = block
        self._runtime = runtime
        self._settings = settings

    @traced("catalog.start_import")
    def start(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        sources: Sequence[ImportSource],
        *,
        committer: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        strict: bool = False,
        outside: bool = False,
        dry_run: bool = False,
    ) -> ImportID:
        """Start an import and return without waiting for its end.

        - `branch`: the destination branch; must stay without uncommitted changes until the end.
        - `sources`: objects to import. They replace all objects at their destinations. Without
          sources, the import makes an empty commit.
        - `message`: message of the commit; if empty, `DEFAULT_MESSAGE`.
        - `strict`: whether an object that cannot be imported fails the import.
        - `outside`: whether a program outside of the server builds the metarange; see
          `lakebed.lake.imports.imports`.
        - `dry_run`: end after listing the objects, without a commit.

        Raises:
            InvalidImport: The destinations overlap, or a source is invalid.
            InvalidMetadata: The message or the metadata is too long, or a metadata key is reserved.
            InvalidAddress: The storage of this installation has no such location.
            AddressTaken, AddressClosed: A source is in the namespace of a repository, existing or
                deleted.
            ReadOnly, BranchNotFound, Protected, DirtyBranch: The branch cannot be imported into.
            OutcomeUnknown: The import may have been started.
        """
        check_commit_words(message, metadata or {})
        ordered = in_order(sources)
        for source in ordered:
            if source.place.parts.scheme != self._block.scheme:
                raise InvalidAddress(
                    f"{source.place} cannot be imported: the storage of this installation serves"
                    f" {self._block.scheme}://, so copy the objects there first"
                )
        if outside and (dry_run or any(each.include or each.exclude for each in ordered)):
            raise InvalidImport("an import on Spark has no patterns and no dry run: omit spark")
        opened = self._engine.readings.to_write(repository_id, branch)
        repository = opened.repository
        self._engine.uncommitted.require_clean(repository, opened.branch)
        check_places(self._engine, ordered)
        begun = pb.Import(
            branch=branch,
            branch_unique_id=self._engine.branches.get(repository, branch).unique_id,
            sources=source_messages(ordered),
            committer=committer,
            message=message or DEFAULT_MESSAGE,
            metadata=metadata or {},
            strict=strict,
            outside=outside,
            dry_run=dry_run,
            force=current_actor().force,
            username=current_actor().user,
            state=pb.IMPORT_STATE_RUNNING,
            started_us=now_us(self._runtime),
            updated_us=now_us(self._runtime),
        )
        import_id = ImportID(self._runtime.random_bytes(10).hex())
        self.records(repository).set_if(import_id.encode(), begun, ABSENT)
        waiting = pb.WaitingImport(repository=repository.id, unique_id=repository.unique_id)
        self._waiting.set(import_id.encode(), waiting)
        self._on_start()
        return import_id

    @traced("catalog.import_status")
    def status(
        self, repository_id: RepositoryID, branch: BranchID, import_id: ImportID
    ) -> ImportProgress:
        repository = self._engine.repositories.get(repository_id)
        found = self.find(repository_id, branch, import_id)[1].message
        done = found.state == pb.IMPORT_STATE_DONE
        commit = (
            self._engine.commits.get(repository, CommitID(found.commit_id))
            if found.commit_id
            else None
        )
        kinds = [Skipped(each.kind, each.count, each.example) for each in found.strays]
        if found.skipped:
            example = next(iter(found.skipped_addresses), "")
            kinds.append(Skipped(_STRANGE_PATHS, found.skipped, example))
        strays = [each.example for each in found.strays]
        error = CANCELED if found.state == pb.IMPORT_STATE_CANCELED else found.error
        return ImportProgress(
            id=import_id,
            completed=done,
            updated=to_datetime(found.updated_us),
            objects=found.objects,
            skipped=sum(each.count for each in kinds),
            skipped_addresses=(*strays, *found.skipped_addresses),
            skipped_kinds=kinds,
            current=found.current or None,
            metarange_id=found.metarange_id or None,
            commit=commit,
            unchanged=found.unchanged,
            error=error or None,
        )

    @traced("catalog.cancel_import")
    def cancel(self, repository_id: RepositoryID, branch: BranchID, import_id: ImportID) -> None:
        """Cancel an import; idempotent.

        Raises:
            ImportOver: The import has ended, or its commit is being published.
            OutcomeUnknown: The import may have been canceled.
        """
        for left in reversed(range(_TRIES)):
            records, record = self.find(repository_id, branch, import_id)
            found = record.message
            if found.state == pb.IMPORT_STATE_CANCELED:
                return
            if found.state != pb.IMPORT_STATE_RUNNING:
                how = "is completed" if found.state == pb.IMPORT_STATE_DONE else "has failed"
                raise ImportOver(import_id, how)
            if found.offered_commit_ids:
                raise ImportOver(import_id, "is being published")
            canceled = copy_of(found)
            canceled.state = pb.IMPORT_STATE_CANCELED
            canceled.updated_us = now_us(self._runtime)
            try:
                records.set_if(record.name, canceled, record.predicate)
            except PredicateFailed:
                continue  # the import made progress: read the record again
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                if not left:
                    raise
        raise ImportOver(import_id, "changes too fast: retry")

    def breaks(self, repository_id: RepositoryID) -> Breaks:
        """Return the range boundaries that a metarange built outside must use."""
        return self._engine.committed(self._engine.repositories.get(repository_id)).breaks

    def records(self, repository: Repository) -> Records[pb.Import]:
        return Records(self._store, IMPORTS, repository.partition)

    @property
    def _waiting(self) -> Records[pb.WaitingImport]:
        return Records(self._store, WAITING, WAITING_PARTITION)

    def find(
        self, repository_id: RepositoryID, branch: BranchID, import_id: ImportID
    ) -> tuple[Records[pb.Import], Record[pb.Import]]:
        """Return the record of an import, with its collection."""
        records = self.records(self._engine.repositories.get(repository_id))
        record = records.find(import_id.encode())
        if record is None or record.message.branch != branch:
            raise TaskNotFound(import_id)
        return records, record


_METARANGE_ID: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Progress of a job."""

    objects: int = 0
    """Number of objects found so far."""
    skipped: int = 0
    skipped_addresses: Sequence[str] = ()
    current: str = ""
    """Location of the last objects found."""
    metarange_id: str = ""
    """The complete metarange, or empty while the job is running."""
    error: str = ""
    """Reason for the job's failure, or empty."""


class OutsideImports:
    """Receives the reports of Spark jobs, which build metaranges outside of the server.

    The record of such an import says so. The job reports its progress, which is its heartbeat, and
    finally hands in the metarange. From then on the import continues as others do: a process of the
    server leases it, validates the metarange (`lakebed.lake.imports.validation`), and publishes it.
    """

    def __init__(self, imports: Imports, runtime: Runtime, on_handed: Callable[[], object]) -> None:
        """`on_handed` is called when an import is ready to be published."""
        self._imports = imports
        self._runtime = runtime
        self._on_handed = on_handed

    @traced("catalog.report_import")
    def report(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        import_id: ImportID,
        sources: Sequence[ImportSource],
        report: JobReport,
        *,
        committer: str,
    ) -> ImportProgress:
        """Record the progress of a job, and return the status of the import; idempotent.

        `sources` and `committer` must equal those of the start.

        Raises:
            TaskNotFound: The branch has no such import, or its record was removed.
            InvalidImport: Another user started it, its sources differ, or the server runs it.
            ImportOver: A different metarange was handed in before.
            OutcomeUnknown: The report may have been recorded.
        """
        if report.metarange_id and not _METARANGE_ID.fullmatch(report.metarange_id):
            raise InvalidImport(
                f"{report.metarange_id!r} is not a metarange id: ids have 64 hexadecimal digits"
            )
        for left in reversed(range(_TRIES)):
            records, record = self._imports.find(repository_id, branch, import_id)
            found = record.message
            _check(import_id, found, sources, report, committer)
            if found.state != pb.IMPORT_STATE_RUNNING or found.handed_metarange_id:
                break
            changed = copy_of(found)
            _note(changed, report)
            changed.updated_us = now_us(self._runtime)
            try:
                records.set_if(record.name, changed, record.predicate)
            except PredicateFailed:
                continue  # canceled, or changed by another request: read the record again
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                if not left:
                    raise
            else:
                break
        if report.metarange_id:
            self._on_handed()
        return self._imports.status(repository_id, branch, import_id)


def _check(
    import_id: ImportID,
    found: pb.Import,
    sources: Sequence[ImportSource],
    report: JobReport,
    committer: str,
) -> None:
    if not found.outside:
        raise InvalidImport(f"import {import_id} is run by the server, which accepts no reports")
    if found.committer != committer:
        raise InvalidImport(f"import {import_id} was started by {found.committer}, not {committer}")
    if source_messages(in_order(sources)) != list(found.sources):
        raise InvalidImport(f"import {import_id} was started with other sources or destinations")
    handed = found.handed_metarange_id
    if handed and report.metarange_id not in {"", handed}:
        raise ImportOver(import_id, f"already has metarange {handed}")


def _note(message: pb.Import, report: JobReport) -> None:
    message.objects, message.skipped = report.objects, report.skipped
    message.current = report.current
    del message.skipped_addresses[:]
    message.skipped_addresses.extend(report.skipped_addresses[:SKIPPED_SHOWN_MAX])
    message.handed_metarange_id = report.metarange_id
    if report.error:
        message.state = pb.IMPORT_STATE_FAILED
        message.error_kind, message.error = "job_failed", report.error
