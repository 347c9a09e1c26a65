"""Tasks: what takes longer than a client waits for, done in the background.

A task is a record in its repository. Whoever runs it writes a sign of life into the record now and
then, and at the end what became of it. Nobody takes a task over: if its process dies, the signs of
life end, and from then on everyone tells that it failed. (Should it be alive after all, because it
was held up or a clock is wrong, it will say so itself.)
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NewType

from lakebed.catalog import records_pb2 as pb
from lakebed.catalog.errors import TaskNotFound
from lakebed.catalog.keys import TASKS
from lakebed.catalog.settings import CatalogSettings
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository, RepositoryID
from lakebed.errors import LakebedError
from lakebed.formats import DumpID
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store
from lakebed.kv.records import Records
from lakebed.runtime import Runtime
from lakebed.times import now_us

TaskID = NewType("TaskID", str)
"""Names a task within its repository."""

RunInBackground = Callable[[Callable[[], None]], object]
"""Begins to run a function, and does not wait for it."""

DUMP_REFS: Final = "dump_refs"
RESTORE_REFS: Final = "restore_refs"

_BEATS_A_TIMEOUT: Final = 4
_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """What is known of a task."""

    id: TaskID
    kind: str
    done: bool
    """Whether it ended, one way or the other."""
    updated: datetime
    result: str | None
    """What it made, if it succeeded; of dumps and restores, the id of the dump."""
    error: str | None
    """Why it failed, if it did."""
    error_kind: str | None


def run_inline(work: Callable[[], None]) -> None:
    """Run a task before its starter goes on: for tests, and for programs that can wait."""
    work()


class Tasks:
    """The tasks of all repositories."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        runtime: Runtime,
        settings: CatalogSettings,
        run_in_background: RunInBackground,
    ) -> None:
        self._engine = engine
        self._store = store
        self._runtime = runtime
        self._settings = settings
        self._run_in_background = run_in_background

    def start_dump(self, repository_id: RepositoryID) -> TaskID:
        """Begin a dump of all refs of a repository.

        Raises:
            RepositoryNotFound: There is none.
        """
        repository = self._engine.repositories.get(repository_id)
        return self.start(
            repository, DUMP_REFS, lambda: self._engine.dump_refs(repository_id).dump_id
        )

    def start_restore(self, repository_id: RepositoryID, dump_id: DumpID) -> TaskID:
        """Begin to restore a dump into a bare repository.

        Raises:
            RepositoryNotFound: There is none.
        """
        repository = self._engine.repositories.get(repository_id)

        def restore() -> str:
            return self._engine.restore_refs(repository_id, dump_id).dump_id

        return self.start(repository, RESTORE_REFS, restore)

    def status(self, repository_id: RepositoryID, task_id: TaskID, kind: str) -> TaskStatus:
        """Return what is known of a task of a kind.

        Raises:
            RepositoryNotFound: There is no such repository.
            TaskNotFound: There is no such task, or not any more.
        """
        repository = self._engine.repositories.get(repository_id)
        record = self._records(repository).find(task_id.encode())
        if record is None or record.message.kind != kind:
            raise TaskNotFound(task_id)
        task = record.message
        died = self._died(task)
        failed = died or task.state == pb.TASK_STATE_FAILED
        error = (
            "the server that ran it died, or was stopped: start it again" if died else task.error
        )
        return TaskStatus(
            id=task_id,
            kind=task.kind,
            done=died or task.state != pb.TASK_STATE_RUNNING,
            updated=datetime.fromtimestamp(task.updated_us / 1e6, UTC),
            result=task.result if task.state == pb.TASK_STATE_DONE else None,
            error=error if failed else None,
            error_kind=("task_died" if died else task.error_kind) if failed else None,
        )

    def clean(self, repository: Repository) -> int:
        """Remove the records of tasks that ended, or died, a while ago; return how many."""
        overdue_us = int((self._runtime.now() - self._settings.task_life_seconds) * 1e6)
        records = self._records(repository)
        removed = 0
        for record in records.scan():
            task = record.message
            ended = task.state != pb.TASK_STATE_RUNNING or self._died(task)
            if ended and task.updated_us < overdue_us:
                with suppress(PredicateFailed):
                    records.delete_if(record.name, record.predicate)
                    removed += 1
        return removed

    def start(self, repository: Repository, kind: str, work: Callable[[], str]) -> TaskID:
        """Begin a task; what the work returns is its result."""
        task_id = TaskID(self._runtime.random_bytes(10).hex())
        begun = pb.Task(kind=kind, state=pb.TASK_STATE_RUNNING, started_us=self._now_us())
        begun.updated_us = begun.started_us
        self._records(repository).set_if(task_id.encode(), begun, ABSENT)
        self._run_in_background(lambda: self._run(repository, task_id, begun, work))
        return task_id

    def _run(
        self, repository: Repository, task_id: TaskID, begun: pb.Task, work: Callable[[], str]
    ) -> None:
        """Work and give signs of life, until the work is over; then note what became of it."""
        records = self._records(repository)
        ended = _copy_of(begun)
        over = self._runtime.event()
        unexpected: list[Exception] = []

        def do() -> None:
            try:
                ended.result = work()
                ended.state = pb.TASK_STATE_DONE
            except LakebedError as error:
                _note_error(ended, str(error), error.kind)
            except Exception as error:  # noqa: BLE001 - raised below, when it was noted
                _note_error(ended, f"unexpected: {error!r}", LakebedError.kind)
                unexpected.append(error)
            over.set()

        def beat() -> None:
            while not over.wait(self._settings.task_heartbeat_seconds / _BEATS_A_TIMEOUT):
                alive = _copy_of(begun)
                alive.updated_us = self._now_us()
                # A beat that is missed is made up for by the next.
                with suppress(OutcomeUnknown):
                    records.set(task_id.encode(), alive)

        self._runtime.map_parallel(lambda each: each(), [do, beat], limit=2)
        ended.updated_us = self._now_us()
        self._note_end(records, task_id, ended)
        if unexpected:
            raise unexpected[0]

    def _note_end(self, records: Records[pb.Task], task_id: TaskID, ended: pb.Task) -> None:
        for left in reversed(range(_TRIES)):
            try:
                records.set(task_id.encode(), ended)
            except OutcomeUnknown:
                if not left:
                    raise
            else:
                return

    def _died(self, task: pb.Task) -> bool:
        silent_seconds = self._runtime.now() - task.updated_us / 1e6
        return (
            task.state == pb.TASK_STATE_RUNNING
            and silent_seconds > self._settings.task_heartbeat_seconds
        )

    def _now_us(self) -> int:
        return now_us(self._runtime)

    def _records(self, repository: Repository) -> Records[pb.Task]:
        return Records(self._store, TASKS, repository.partition)


def _copy_of(task: pb.Task) -> pb.Task:
    copy = pb.Task()
    copy.CopyFrom(task)
    return copy


def _note_error(task: pb.Task, message: str, kind: str) -> None:
    task.state, task.error, task.error_kind = pb.TASK_STATE_FAILED, message, kind
