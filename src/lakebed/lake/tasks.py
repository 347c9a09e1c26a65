"""Tasks: long-running operations in the background.

A task is a record in its repository. The process that runs it regularly writes a heartbeat into the
record, and finally the result. Tasks are not taken over: if its process dies, heartbeats stop and
the task counts as failed. (If the process is alive after all, delayed or with a wrong clock, its
result is still written.)
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NewType

from lakebed.base.actor import acting_as, current_actor
from lakebed.base.errors import LakebedError, shown
from lakebed.base.leases import with_heartbeat
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository, RepositoryID
from lakebed.engine.refs.restore import is_restored
from lakebed.formats import DumpID
from lakebed.kv import ABSENT, OutcomeUnknown, Store
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.errors import TaskNotFound
from lakebed.lake.keys import TASKS, copy_of
from lakebed.lake.refs import Refs
from lakebed.lake.settings import CatalogSettings

TaskID = NewType("TaskID", str)
"""Id of a task, unique within its repository."""

RunInBackground = Callable[[Callable[[], None]], object]
"""Starts a function without waiting for its end."""

ReportProgress = Callable[[str], object]
"""Reports the progress of a task, shown by its status."""

DUMP_REFS: Final = "dump_refs"
RESTORE_REFS: Final = "restore_refs"

_HEARTBEATS_PER_TIMEOUT: Final = 4
_TRIES: Final = 5

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """Status of a task."""

    id: TaskID
    kind: str
    done: bool
    """Whether the task has ended, successfully or not."""
    updated: datetime
    progress: str | None
    """Progress of a running task, or None if its kind reports none."""
    result: str | None
    """Result of a successful task; of a dump or restore, the id of the dump."""
    error: str | None
    """Error of a failed task."""
    error_kind: str | None


def run_inline(work: Callable[[], None]) -> None:
    """Run a task synchronously: for tests, and for programs that can wait."""
    work()


class Tasks:
    """Starts tasks of all repositories and reads their status.

    Methods raise `RepositoryNotFound` if the repository does not exist.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        runtime: Runtime,
        settings: CatalogSettings,
        run_in_background: RunInBackground,
        refs: Refs,
    ) -> None:
        self._refs = refs
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._settings = settings
        self._run_in_background = run_in_background

    @traced("catalog.start_dump")
    def start_dump(self, repository_id: RepositoryID) -> TaskID:
        repository = self._engine.repositories.get(repository_id)
        return self.start(repository, DUMP_REFS, lambda: self._refs.dump(repository_id))

    @traced("catalog.start_restore")
    def start_restore(self, repository_id: RepositoryID, dump_id: DumpID) -> TaskID:
        """Start restoring a dump; raise `Invalid` if the repository is not bare."""
        repository = self._engine.repositories.get(repository_id)
        is_restored(self._store, repository, dump_id)  # raises if the repository is not bare

        def restore() -> str:
            self._refs.restore(repository_id, dump_id)
            return dump_id

        return self.start(repository, RESTORE_REFS, restore)

    @traced("catalog.task_status")
    def status(self, repository_id: RepositoryID, task_id: TaskID, kind: str) -> TaskStatus:
        """Return the status of a task; raise `TaskNotFound` if missing or already removed."""
        repository = self._engine.repositories.get(repository_id)
        record = self._records(repository).find(task_id.encode())
        if record is None or record.message.kind != kind:
            raise TaskNotFound(task_id)
        task = record.message
        died = has_died(task, self._settings, self._runtime.now())
        failed = died or task.state == pb.TASK_STATE_FAILED
        error = (
            "the server that ran it died, or was stopped: start it again" if died else task.error
        )
        return TaskStatus(
            id=task_id,
            kind=task.kind,
            done=died or task.state != pb.TASK_STATE_RUNNING,
            updated=to_datetime(task.updated_us),
            progress=(task.result or None) if task.state == pb.TASK_STATE_RUNNING else None,
            result=task.result if task.state == pb.TASK_STATE_DONE else None,
            error=error if failed else None,
            error_kind=("task_died" if died else task.error_kind) if failed else None,
        )

    def start(self, repository: Repository, kind: str, work: Callable[[], str]) -> TaskID:
        """Start a task; `work` returns its result."""
        return self.start_with_progress(repository, kind, lambda _report_progress: work())

    def start_with_progress(
        self, repository: Repository, kind: str, work: Callable[[ReportProgress], str]
    ) -> TaskID:
        """Start a task that reports its progress; `work` returns its result."""
        task_id = TaskID(self._runtime.random_bytes(10).hex())
        begun = pb.Task(kind=kind, state=pb.TASK_STATE_RUNNING, started_us=now_us(self._runtime))
        begun.updated_us = begun.started_us
        self._records(repository).set_if(task_id.encode(), begun, ABSENT)
        actor = current_actor()

        def run() -> None:
            with acting_as(actor):
                self._run(repository, task_id, begun, work)

        self._run_in_background(run)
        return task_id

    def _run(
        self,
        repository: Repository,
        task_id: TaskID,
        begun: pb.Task,
        work: Callable[[ReportProgress], str],
    ) -> None:
        """Do the work while writing heartbeats; then write the result."""
        records = self._records(repository)
        ended = copy_of(begun)
        failures: list[Exception] = []

        def show(progress: str) -> None:
            begun.result = progress
            show_alive()

        def show_alive() -> bool:
            alive = copy_of(begun)
            alive.updated_us = now_us(self._runtime)
            # A lost heartbeat is made up for by the next.
            with suppress(OutcomeUnknown):
                records.set(task_id.encode(), alive)
            return True

        def do() -> None:
            try:
                ended.result = work(show)
                ended.state = pb.TASK_STATE_DONE
            except Exception as error:  # noqa: BLE001 - recorded below, and raised if unexpected
                failures.append(error)

        interval_seconds = self._settings.task_heartbeat_seconds / _HEARTBEATS_PER_TIMEOUT
        with_heartbeat(self._runtime, do, show_alive, every_seconds=interval_seconds)
        for error in failures:
            _note_error(ended, error)
        ended.updated_us = now_us(self._runtime)
        self._note_end(records, task_id, ended)
        for error in failures:
            _LOGGER.warning(
                "task %s (%s) of repository %s failed: %s: %s",
                task_id,
                ended.kind,
                repository.id,
                ended.error_kind,
                error,
            )
            if not isinstance(error, LakebedError):
                raise error

    def _note_end(self, records: Records[pb.Task], task_id: TaskID, ended: pb.Task) -> None:
        for left in reversed(range(_TRIES)):
            try:
                records.set(task_id.encode(), ended)
            except OutcomeUnknown:
                if not left:
                    raise
            else:
                return

    def _records(self, repository: Repository) -> Records[pb.Task]:
        return Records(self._store, TASKS, repository.partition)


def has_died(task: pb.Task, settings: CatalogSettings, now: float) -> bool:
    """Return whether a running task has not written a heartbeat for too long."""
    overdue_us = to_us(now - settings.task_heartbeat_seconds)
    return task.state == pb.TASK_STATE_RUNNING and task.updated_us < overdue_us


def _note_error(task: pb.Task, error: Exception) -> None:
    task.state = pb.TASK_STATE_FAILED
    task.error = shown(error, internal="task")
    task.error_kind = error.kind if isinstance(error, LakebedError) else LakebedError.kind
