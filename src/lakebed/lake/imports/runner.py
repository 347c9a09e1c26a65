"""Running waiting imports: lease, heartbeats, result.

Any number of processes can do this concurrently. An import is leased if no process runs it, or if
its record did not change for `task_heartbeat_seconds` by the local clock: then its process has
died, and this process continues from the checkpoint. (If the other is alive after all, its next
heartbeat fails and stops it.) An import waiting for a job outside of the server is left alone while
the job reports; without a report for the same time, the import fails.
"""

import logging
from contextlib import suppress
from typing import Final

from lakebed.base.actor import Actor, EntryPoint, acting_as
from lakebed.base.errors import LakebedError, shown
from lakebed.base.leases import Observations
from lakebed.base.runtime import Runtime
from lakebed.block import BlockStore, StorageUnavailable
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Deleting, RepositoryNotFound
from lakebed.engine.leases import LeaseLostError
from lakebed.engine.model import Repository, RepositoryID
from lakebed.kv import CorruptRecord, OutcomeUnknown, Store, Version
from lakebed.kv.records import Record, Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import JobSilent
from lakebed.lake.imports.imports import Imports
from lakebed.lake.imports.run import ImportRun, LeasedImport
from lakebed.lake.keys import WAITING, WAITING_PARTITION
from lakebed.lake.settings import CatalogSettings

HEARTBEAT_SECONDS: Final = 1.0
"""Heartbeat interval. Clients abandon an import whose status does not change."""

ATTEMPTS_MAX: Final = 20
"""Maximum number of attempts of an import whose processes die."""


_LOGGER: Final = logging.getLogger(__name__)


class ImportRunner:
    """Runs imports. One instance per process."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
        imports: Imports,
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._settings = settings
        self._imports = imports
        self._waiting = Records(store, WAITING, WAITING_PARTITION)
        self._observed = Observations(runtime)
        # Notes of imports with damaged records, already logged.
        self._damaged: set[Version] = set()

    def run_waiting(self) -> int:
        """Run the waiting imports one after the other; return their number.

        Raises `OutcomeUnknown` if the store is unavailable; the next call continues.
        """
        taken = 0
        for note in list(self._waiting.scan_readable()):
            try:
                taken += self._handle(note)
            except CorruptRecord as error:
                if note.predicate not in self._damaged:
                    self._damaged.add(note.predicate)
                    _LOGGER.warning("import %s is skipped: %s", note.name.decode(), error)
        return taken

    def _handle(self, note: Record[pb.WaitingImport]) -> int:
        """Run the import of a note if it is due; return the number of imports run."""
        repository = self._repository(note.message)
        records = None if repository is None else self._imports.records(repository)
        record = None if records is None else records.find(note.name)
        if record is None or record.message.state != pb.IMPORT_STATE_RUNNING:
            self._forget(note)
            return 0
        if not self._is_due(record):
            return 0
        assert repository is not None
        assert records is not None
        leased = LeasedImport(records, record, self._runtime)
        if not leased.take_up():
            return 0
        self._run(repository, leased, note)
        return 1

    def _repository(self, waiting: pb.WaitingImport) -> Repository | None:
        try:
            repository = self._engine.repositories.get(RepositoryID(waiting.repository))
        except (RepositoryNotFound, Deleting):
            return None
        return repository if repository.unique_id == waiting.unique_id else None

    def _is_due(self, record: Record[pb.Import]) -> bool:
        if not record.message.owner and not _waits_for_job(record.message):
            return True
        seconds = self._settings.task_heartbeat_seconds
        return self._observed.is_dead(record.name, record.predicate, seconds=seconds)

    def _forget(self, note: Record[pb.WaitingImport]) -> None:
        self._observed.forget(note.name)
        # If the deletion is lost, the next pass repeats it.
        with suppress(OutcomeUnknown):
            self._waiting.delete(note.name)

    def _run(
        self, repository: Repository, leased: LeasedImport, note: Record[pb.WaitingImport]
    ) -> None:
        """Run an import with heartbeats, and record its result."""

        def work() -> None:
            self._work(repository, leased, note.name.decode())

        leased.keep_alive(work, heartbeat_seconds=HEARTBEAT_SECONDS)
        if leased.message.state != pb.IMPORT_STATE_RUNNING:
            self._forget(note)

    def _work(self, repository: Repository, leased: LeasedImport, import_id: str) -> None:
        try:
            self._complete(repository, leased)
        except LeaseLostError:
            _LOGGER.info("import %s was canceled, or taken over by another process", import_id)
        except OutcomeUnknown as error:
            # The commit may have been published: the next process to take over checks.
            _LOGGER.warning("import %s was interrupted, and will be retried: %s", import_id, error)
        except StorageUnavailable as error:
            if _may_go_on(leased.message):
                _LOGGER.warning(
                    "import %s was interrupted, and will be retried: %s", import_id, error
                )
            else:
                _LOGGER.warning("import %s failed: %s: %s", import_id, error.kind, error)
                _note_failure(leased, error.kind, shown(error))
        except LakebedError as error:
            _LOGGER.warning("import %s failed: %s: %s", import_id, error.kind, error)
            _note_failure(leased, error.kind, shown(error))
        except Exception as error:
            _LOGGER.exception("import %s failed", import_id)
            _note_failure(leased, LakebedError.kind, shown(error, internal="import"))

    def _complete(self, repository: Repository, leased: LeasedImport) -> None:
        if leased.message.attempts > ATTEMPTS_MAX:
            died = f"{ATTEMPTS_MAX} processes died running this import: it is abandoned"
            _note_failure(leased, "task_died", died)
            return
        if _waits_for_job(leased.message):
            raise JobSilent(self._settings.task_heartbeat_seconds)
        message = leased.message
        actor = Actor(user=message.username, entry_point=EntryPoint.IMPORT, force=message.force)
        with acting_as(actor):
            ImportRun(self._engine, self._block, self._runtime, repository, leased).run()


def _waits_for_job(message: pb.Import) -> bool:
    """Whether a job outside of the server has yet to hand in the metarange."""
    return message.outside and not message.handed_metarange_id


def _may_go_on(message: pb.Import) -> bool:
    """Whether to retry after the storage recovers: hours of work may be stored."""
    has_saved = bool(
        message.saved_metarange_id or message.metarange_id or message.handed_metarange_id
    )
    return has_saved and message.attempts < ATTEMPTS_MAX


def _note_failure(leased: LeasedImport, kind: str, text: str) -> None:
    def fail(message: pb.Import) -> None:
        message.state = pb.IMPORT_STATE_FAILED
        message.error_kind, message.error = kind, text

    with suppress(LeaseLostError, OutcomeUnknown):
        leased.change(fail)
