"""Imports of all repositories: started and asked for by requests, run by one process at a time.

A request writes the record and a note that it waits. Whoever runs imports (`ImportRunner`) finds
the note, takes the record up, and removes the note when the import has ended. If the request dies
between the two writes, nobody was told the id, and the record is cleaned up after a while.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NewType

from lakebed.base.actor import current_actor
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, InvalidAddress
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, Commit, CommitID, Repository, RepositoryID
from lakebed.formats.boundaries import Breaks
from lakebed.formats.layout import import_folder
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.commits import check_commit_words
from lakebed.lake.errors import ImportOver, TaskNotFound
from lakebed.lake.imports.places import check_places
from lakebed.lake.imports.sources import ImportSource, in_order, source_messages
from lakebed.lake.keys import IMPORTS, WAITING, WAITING_PARTITION, copy_of, remove_where
from lakebed.lake.settings import CatalogSettings

ImportID = NewType("ImportID", str)
"""Names an import within its repository."""

CANCELED: Final = "Canceled"
"""What the status of a canceled import says; clients look for this word."""

DEFAULT_MESSAGE: Final = "Import objects"
"""The message of a commit that is asked for without one."""

_STRANGE_PATHS: Final = "objects whose paths cannot be imported"
_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not imported, of one kind."""

    kind: str
    """In the plural, as in "symbolic links"."""
    count: int
    example: str
    """Where one of them is, or empty if a Spark job did not report any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProgress:
    """What is known about an import."""

    id: ImportID
    completed: bool
    """Whether it ended well."""
    updated: datetime
    objects: int
    """How many were found so far."""
    skipped: int
    """How many of the others cannot be imported."""
    skipped_addresses: Sequence[str]
    """Where the first of these are."""
    skipped_kinds: Sequence[Skipped]
    """The same by kind."""
    current: str | None
    """What it is at just now: where the last objects were that were found."""
    metarange_id: str | None
    commit: Commit | None
    """What it made, if it ended well; if `unchanged`, the head of the branch."""
    unchanged: bool
    """Whether the branch had all of it already: then no commit was made."""
    error: str | None
    """Why it ended otherwise, if it did."""


class Imports:
    """The imports of all repositories."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        on_start: Callable[[], object],
    ) -> None:
        """Put them on an engine; `on_start` is called whenever there is a new one to be run."""
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
    ) -> ImportID:
        """Begin an import; it goes on after this returns.

        Args:
            repository_id: Where.
            branch: Into which branch; it must stay without uncommitted changes until the end.
            sources: What to import. All that a branch has at their destinations is replaced.
            committer: Of the commit that the import makes.
            message: Of that commit; if empty, `DEFAULT_MESSAGE`.
            metadata: Of that commit.
            strict: Whether an object that cannot be imported ends the import.
            outside: Whether a program outside of the server makes the metarange; see
                `lakebed.lake.imports.outside`.

        Raises:
            InvalidImport: The destinations overlap, or a source is not one.
            InvalidMetadata: The message or the metadata is too long, or has a name that clients
                cannot give.
            InvalidAddress: The storage of this installation has no such place.
            AddressTaken, AddressClosed: A source lies in a repository, or where one was.
            RepositoryNotFound, ReadOnly, BranchNotFound, Protected: It cannot be written to.
            DirtyBranch: Something is staged on the branch.
            OutcomeUnknown: It may have been begun.
        """
        check_commit_words(message, metadata or {})
        ordered = in_order(sources)
        for source in ordered:
            if source.place.parts.scheme != self._block.scheme:
                raise InvalidAddress(
                    f"{source.place} cannot be imported: the storage of this installation serves"
                    f" {self._block.scheme}://"
                )
        opened = self._engine.readings.to_write(repository_id, branch)
        repository = opened.repository
        self._engine.dirty.require_clean(repository, opened.branch)
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
        """Return what is known of an import.

        Raises:
            RepositoryNotFound: There is no such repository.
            TaskNotFound: There is no such import into that branch, or not any more.
        """
        repository = self._engine.repositories.get(repository_id)
        found = self.find(repository_id, branch, import_id)[1].message
        done = found.state == pb.IMPORT_STATE_DONE
        commit = self._engine.commits.get(repository, CommitID(found.commit_id)) if done else None
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
        """End an import, unless its commit is just being published; canceling twice is fine.

        Raises:
            RepositoryNotFound: There is no such repository.
            TaskNotFound: There is no such import into that branch, or not any more.
            ImportOver: It has ended, or its commit is being published.
            OutcomeUnknown: It may have been canceled.
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
                raise ImportOver(import_id, "is being published just now")
            canceled = copy_of(found)
            canceled.state = pb.IMPORT_STATE_CANCELED
            canceled.updated_us = now_us(self._runtime)
            try:
                records.set_if(record.name, canceled, record.predicate)
            except PredicateFailed:
                continue  # it went on: look again
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                if not left:
                    raise
        raise ImportOver(import_id, "goes on too fast: try again")

    def clean(self, repository: Repository, times: CatalogSettings | None = None) -> int:
        """Remove the records of imports that ended a while ago; return how many."""
        settings = times or self._settings
        overdue_us = to_us(self._runtime.now() - settings.task_life_seconds)
        forgotten_us = overdue_us - to_us(settings.task_life_seconds)

        def is_over(found: pb.Import) -> bool:
            running = found.state == pb.IMPORT_STATE_RUNNING
            return found.updated_us < (forgotten_us if running else overdue_us)

        self._remove_files(repository, is_over)
        return remove_where(self.records(repository), is_over)

    def _remove_files(self, repository: Repository, is_over: Callable[[pb.Import], bool]) -> None:
        """Remove what jobs that died left of their listings."""
        for record in self.records(repository).scan_readable():
            if record.message.outside and is_over(record.message):
                folder = repository.namespace.folder(import_folder(record.name.decode()))
                for batch in self._block.list_objects(folder):
                    for address in batch.column("address").to_pylist():
                        self._block.delete(Address.parse(address))

    def breaks(self, repository_id: RepositoryID) -> Breaks:
        """Return where ranges end: whoever makes a metarange outside has to cut them so."""
        return self._engine.committed(self._engine.repositories.get(repository_id)).breaks

    def records(self, repository: Repository) -> Records[pb.Import]:
        """Return the records of the imports into a repository."""
        return Records(self._store, IMPORTS, repository.partition)

    @property
    def _waiting(self) -> Records[pb.WaitingImport]:
        return Records(self._store, WAITING, WAITING_PARTITION)

    def find(
        self, repository_id: RepositoryID, branch: BranchID, import_id: ImportID
    ) -> tuple[Records[pb.Import], Record[pb.Import]]:
        """Return the record of an import, and where it is kept.

        Raises:
            RepositoryNotFound: There is no such repository.
            TaskNotFound: There is no such import into that branch, or not any more.
        """
        records = self.records(self._engine.repositories.get(repository_id))
        record = records.find(import_id.encode())
        if record is None or record.message.branch != branch:
            raise TaskNotFound(import_id)
        return records, record
