"""Records of hook runs, in the partition of their repository.

A run's record is written when it begins, updated by heartbeats, and completed by the process that
ran it. A pre run whose process died counts as failed, as its operation did. A post run is taken
over by another process (see `post`).

The output of hooks is stored next to the files of commits::

    _lakebed/actions/<run id>/<hook run id>.log
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, ObjectNotFound
from lakebed.engine.engine import Engine
from lakebed.engine.leases import LeasedRecord, new_lease_token
from lakebed.engine.model import Repository, RepositoryID
from lakebed.formats.layout import hook_log_folder
from lakebed.kv import ABSENT, PredicateFailed, Store
from lakebed.kv.records import Record, Records
from lakebed.lake.hooks import records_pb2 as pb
from lakebed.lake.hooks.errors import InvalidAction, RunNotFound
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.keys import (
    RUN_HOOKS,
    RUNS,
    RUNS_BY_BRANCH,
    RUNS_BY_COMMIT,
    WAITING,
    WAITING_PARTITION,
    RunID,
    branch_name,
    commit_name,
    hook_name,
    new_run_id,
)
from lakebed.lake.keys import copy_of

_TRIES: Final = 10
_INVALID_FILE: Final = "0000_0000"
"""Id of the hook that stands for an invalid action file."""

Edit = Callable[[pb.Run], None]
"""Changes a record; must be idempotent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunRecord:
    """A run of hooks."""

    id: RunID
    event_type: str
    branch: str
    commit_id: str
    started: datetime
    ended: datetime | None
    """End time, or None if the run is still running."""
    passed: bool
    skipped_by: str = ""
    """The user who skipped the hooks, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRunInfo:
    """A hook of a run."""

    id: str
    action: str
    hook_id: str
    started: datetime
    ended: datetime | None
    """End time, or None if the hook is running or its process died."""
    running: bool
    passed: bool
    skipped: bool


class LeasedRun(LeasedRecord[pb.Run]):
    """A run leased by this process."""

    @property
    def id(self) -> RunID:
        return RunID(self._record.name.decode())


class Runs:
    """Writes and reads the runs of all repositories.

    Reading methods raise `RepositoryNotFound` or `RunNotFound` for a missing repository or run.
    """

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        *,
        heartbeat_seconds: float,
    ) -> None:
        self._engine = engine
        self._store = store
        self._block = block
        self._runtime = runtime
        self._heartbeat_us = to_us(heartbeat_seconds)
        self.waiting = Records(store, WAITING, WAITING_PARTITION)

    # Writing

    def begin(self, repository: Repository, run: pb.Run) -> LeasedRun:
        token = new_lease_token(self._runtime)
        begun = copy_of(run)
        begun.state, begun.owner, begun.attempts = pb.RUN_STATE_RUNNING, token, 1
        begun.started_us = begun.updated_us = now_us(self._runtime)
        record = self._add(repository, begun)
        return LeasedRun(self.records(repository), record, self._runtime, token=token)

    def record_skipped(self, repository: Repository, run: pb.Run) -> RunID:
        """Record a run whose hooks were skipped."""
        run = copy_of(run)
        run.passed = run.is_skipped = True
        return self._add_ended(repository, run)

    def record_invalid(self, repository: Repository, run: pb.Run, error: InvalidAction) -> RunID:
        """Record a failed run with an invalid action file as its only hook."""
        run_id, at = self._add_ended(repository, copy_of(run)), now_us(self._runtime)
        hook = pb.HookRun(action=error.path, hook_id="(invalid)", started_us=at, ended_us=at)
        self.record_hook(repository, run_id, _INVALID_FILE, hook)
        self.write_log(repository, run_id, _INVALID_FILE, f"{error}\n".encode())
        return run_id

    def _add_ended(self, repository: Repository, run: pb.Run) -> RunID:
        run.state = pb.RUN_STATE_DONE
        run.started_us = run.ended_us = run.updated_us = now_us(self._runtime)
        return RunID(self._add(repository, run).name.decode())

    def prepare(self, repository: Repository, run: pb.Run) -> RunID:
        """Record a run to be started once the operation that follows has taken effect."""
        prepared = copy_of(run)
        prepared.state = pb.RUN_STATE_PREPARED
        prepared.updated_us = now_us(self._runtime)
        record = self._add(repository, prepared)
        # After the record: a waiting note without a record is deleted by the next pass.
        note = pb.WaitingRun(repository=repository.id, unique_id=repository.unique_id)
        self.waiting.set(record.name, note)
        return RunID(record.name.decode())

    def keep_prepared(self, repository: Repository, run_id: RunID) -> bool:
        """Whether a prepared run still exists; revokes its lease.

        A process that is determining the operation's outcome must then start over.
        """
        records = self.records(repository)
        for _ in range(_TRIES):
            found = records.find(run_id.encode())
            if found is None:
                return False
            if not found.message.owner:
                return True
            kept = copy_of(found.message)
            kept.owner = b""
            with suppress(PredicateFailed):
                records.set_if(found.name, kept, found.predicate)
        return False

    def prepared(self, repository: Repository) -> Iterator[tuple[RunID, pb.Run]]:
        """Yield the prepared runs of a repository: their operations may have taken effect."""
        records = self.records(repository)
        for note in self.waiting.scan_readable():
            if note.message.unique_id != repository.unique_id:
                continue
            found = records.find(note.name)
            if found is not None and found.message.state == pb.RUN_STATE_PREPARED:
                yield RunID(found.name.decode()), found.message

    def confirm(self, repository: Repository, run_id: RunID) -> None:
        """Record that the operation of a prepared run has taken effect."""
        records = self.records(repository)
        for _ in range(_TRIES):
            found = records.find(run_id.encode())
            if found is None or found.message.state != pb.RUN_STATE_PREPARED:
                return
            waiting = copy_of(found.message)
            waiting.state, waiting.owner = pb.RUN_STATE_WAITING, b""
            waiting.updated_us = now_us(self._runtime)
            with suppress(PredicateFailed):
                records.set_if(found.name, waiting, found.predicate)

    def drop(self, repository: Repository, run_id: RunID) -> None:
        """Remove a prepared run whose operation failed.

        A confirmed run is kept: for example, another deletion had the same effect.
        """
        records = self.records(repository)
        found = records.find(run_id.encode())
        if found is not None:
            if found.message.state != pb.RUN_STATE_PREPARED:
                return
            try:
                records.delete_if(found.name, found.predicate)
            except PredicateFailed:
                return  # left to the process that changed it
        self.waiting.delete(run_id.encode())

    def take(self, repository: Repository, record: Record[pb.Run], edit: Edit) -> LeasedRun | None:
        """Take the lease of a run; return None if another process was faster."""
        leased = LeasedRun(self.records(repository), record, self._runtime)
        return leased if leased.take(edit) else None

    def record_hook(
        self, repository: Repository, run_id: RunID, hook_run_id: str, hook: pb.HookRun
    ) -> None:
        hooks = Records(self._store, RUN_HOOKS, repository.partition)
        hooks.set(hook_name(run_id, hook_run_id), hook)

    def write_log(
        self, repository: Repository, run_id: RunID, hook_run_id: str, content: bytes
    ) -> None:
        self._block.put(_log(repository, run_id, hook_run_id), [content])

    def _add(self, repository: Repository, run: pb.Run) -> Record[pb.Run]:
        run_id = new_run_id(self._runtime)
        partition, index = repository.partition, pb.RunIndex()
        # Before the record: index entries without a record are ignored.
        if run.branch:
            name = branch_name(run.branch, run_id)
            Records(self._store, RUNS_BY_BRANCH, partition).set(name, index)
        if run.commit_id:
            name = commit_name(run.commit_id, run_id)
            Records(self._store, RUNS_BY_COMMIT, partition).set(name, index)
        run.created_us = run.created_us or now_us(self._runtime)
        version = self.records(repository).set_if(run_id.encode(), run, ABSENT)
        return Record(run_id.encode(), run, version)

    # Reading

    @traced("hooks.list_runs")
    def list(
        self,
        repository_id: RepositoryID,
        *,
        after: str = "",
        branch: str = "",
        commit_id: str = "",
        running: bool = False,
    ) -> Iterator[HookRunRecord]:
        """Yield ended runs after the id `after`, newest first, optionally of a branch or a commit.

        With `running`, includes runs that have not ended.
        """
        repository = self._engine.repositories.get(repository_id)
        found = self._records_of(repository, after, branch, commit_id)
        infos = (self._info(record, running=running) for record in found)
        return (info for info in infos if info is not None)

    def _records_of(
        self, repository: Repository, after: str, branch: str, commit_id: str
    ) -> Iterator[Record[pb.Run]]:
        partition = repository.partition
        records = self.records(repository)
        if branch or commit_id:
            kind = RUNS_BY_BRANCH if branch else RUNS_BY_COMMIT
            prefix = branch_name(branch) if branch else commit_name(commit_id)
            start = prefix + after.encode() + b"\x00" if after else prefix
            index = Records(self._store, kind, partition).scan(prefix=prefix, start=start)
            found = (records.find(each.name[len(prefix) :]) for each in index)
            return (each for each in found if each is not None)
        return records.scan(start=after.encode() + b"\x00" if after else b"")

    @traced("hooks.get_run")
    def get(
        self, repository_id: RepositoryID, run_id: str, *, running: bool = False
    ) -> HookRunRecord:
        """Return an ended run, or with `running`, also one that has not ended."""
        return self._get(self._engine.repositories.get(repository_id), run_id, running=running)

    @traced("hooks.list_hooks")
    def hooks(
        self, repository_id: RepositoryID, run_id: str, *, after: str = "", running: bool = False
    ) -> Iterator[HookRunInfo]:
        """Yield the started hooks of a run, after the id `after`."""
        repository = self._engine.repositories.get(repository_id)
        run = self._get(repository, run_id, running=running)
        hooks = Records(self._store, RUN_HOOKS, repository.partition)
        start = hook_name(run_id, after) + b"\x00" if after else b""
        return (_hook_info(each, run) for each in hooks.scan(prefix=hook_name(run_id), start=start))

    @traced("hooks.output")
    def output(self, repository_id: RepositoryID, run_id: str, hook_run_id: str) -> bytes:
        """Return the output of a hook; of a running hook, the output stored so far."""
        repository = self._engine.repositories.get(repository_id)
        hooks = Records(self._store, RUN_HOOKS, repository.partition)
        if hooks.find(hook_name(run_id, hook_run_id)) is None:
            raise RunNotFound(f"{run_id}/{hook_run_id}")
        try:
            return self._block.read(_log(repository, run_id, hook_run_id))
        except ObjectNotFound:
            return b""

    def records(self, repository: Repository) -> Records[pb.Run]:
        return Records(self._store, RUNS, repository.partition)

    def _get(self, repository: Repository, run_id: str, *, running: bool) -> HookRunRecord:
        record = self.records(repository).find(run_id.encode())
        info = None if record is None else self._info(record, running=running)
        if info is None:
            raise RunNotFound(run_id)
        return info

    def _info(self, record: Record[pb.Run], *, running: bool) -> HookRunRecord | None:
        """Return the run, or None if it is still running and `running` is False."""
        run = record.message
        died = (
            run.state == pb.RUN_STATE_RUNNING
            and (run.is_trial or not EventType(run.event_type).is_post)
            and now_us(self._runtime) - run.updated_us > self._heartbeat_us
        )
        is_over = died or run.state == pb.RUN_STATE_DONE
        if not is_over and not (running and run.state == pb.RUN_STATE_RUNNING):
            return None
        return HookRunRecord(
            id=RunID(record.name.decode()),
            event_type=run.event_type,
            branch=run.branch,
            commit_id=run.commit_id,
            started=to_datetime(run.started_us),
            ended=to_datetime(run.ended_us or run.updated_us) if is_over else None,
            passed=run.passed and not died,
            skipped_by=run.username if run.is_skipped else "",
        )

    # Removing

    def clean(self, repository: Repository, *, days: int) -> int:
        """Remove runs unchanged for `days`, with their logs and indexes; return their number."""
        overdue_us = to_us(self._runtime.now() - days * 24 * 3600)
        removed = 0
        for record in self.records(repository).scan_readable():
            if record.message.updated_us < overdue_us:
                self._remove(repository, record)
                removed += 1
        return removed

    def _remove(self, repository: Repository, record: Record[pb.Run]) -> None:
        """Remove a run, its record last: an interrupted removal is repeated."""
        run, run_id = record.message, record.name.decode()
        partition = repository.partition
        hooks = Records(self._store, RUN_HOOKS, partition)
        for name in hooks.names(hook_name(run_id)):
            hook_run_id = name.decode().rpartition("/")[2]
            self._block.delete(_log(repository, run_id, hook_run_id))
            hooks.delete(name)
        Records(self._store, RUNS_BY_BRANCH, partition).delete(branch_name(run.branch, run_id))
        Records(self._store, RUNS_BY_COMMIT, partition).delete(commit_name(run.commit_id, run_id))
        with suppress(PredicateFailed):
            self.records(repository).delete_if(record.name, record.predicate)


def _log(repository: Repository, run_id: str, hook_run_id: str) -> Address:
    return repository.namespace.address(f"{hook_log_folder(run_id)}/{hook_run_id}.log")


def _hook_info(record: Record[pb.HookRun], run: HookRunRecord) -> HookRunInfo:
    hook = record.message
    return HookRunInfo(
        id=record.name.decode().rpartition("/")[2],
        action=hook.action,
        hook_id=hook.hook_id,
        started=to_datetime(hook.started_us),
        ended=to_datetime(hook.ended_us) if hook.ended_us else None,
        running=run.ended is None and not hook.ended_us,
        passed=hook.passed,
        skipped=hook.skipped,
    )
