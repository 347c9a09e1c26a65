"""Running post hooks: any process can run them, until they have ended.

A run of a post event is recorded as *prepared* before its operation takes effect, and *confirmed*
after. If a process dies at any step, another recovers from the record:

- *Waiting*, or running without heartbeats: run the hooks. They may have run already and run again
  with the same run id, by which receivers can detect a repeat.
- *Prepared* for some time: determine the outcome of the operation.
  1. Take the lease of the run. A publisher that is about to retry revokes it
     (`Runs.keep_prepared`), after reading the branch and before swapping it.
  2. Rewrite the branch record, so that a swap based on a read before step 1 fails.
  3. Search the commit in the history of the branch. If found, set the run to waiting. Otherwise a
     publisher that read the branch before step 1 cannot succeed any more: drop the run, if the
     lease is still held.

  A deletion took effect if the branch or the tag is missing, a creation if it exists. Creators and
  deleters check their prepared runs in the same way (`Hooks.before_try`); step 2 rewrites the
  record of the ref, and deletes a pending one.
- *Prepared*, and its branch or tag is about to be deleted, or its branch moved to another history:
  that operation first confirms the runs that the ref proves (`Hooks.before_leaving`).
"""

import logging
from collections import Counter
from contextlib import suppress
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.leases import Observations
from lakebed.base.runtime import Runtime, UniqueID, now_us
from lakebed.block import StorageUnavailable
from lakebed.engine.engine import Engine
from lakebed.engine.errors import BranchNotFound, Deleting, RepositoryNotFound
from lakebed.engine.leases import LeaseLostError
from lakebed.engine.model import BranchID, CommitID, Repository, RepositoryID, TagID
from lakebed.formats import MetaRangeID
from lakebed.kv import OutcomeUnknown
from lakebed.kv.records import Record
from lakebed.lake.hooks import records_pb2 as pb
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import ActionReader, select
from lakebed.lake.hooks.runner import HOOK_RUNS, Runner
from lakebed.lake.hooks.runs import LeasedRun, Runs

ATTEMPTS_MAX: Final = 20
"""Maximum number of attempts of a run whose processes die."""

AT_ONCE_MAX: Final = 2
"""Concurrent runs per repository and process: some take hours and must not block others."""

_LOGGER: Final = logging.getLogger(__name__)


class PostRunner:
    """Runs post hooks. One instance per process."""

    def __init__(
        self,
        engine: Engine,
        runtime: Runtime,
        reader: ActionReader,
        runs: Runs,
        runner: Runner,
        *,
        heartbeat_seconds: float,
    ) -> None:
        self._engine = engine
        self._runtime = runtime
        self._reader = reader
        self._runs = runs
        self._runner = runner
        self._heartbeat_seconds = heartbeat_seconds
        self._lock = runtime.lock()
        self._running: Counter[UniqueID] = Counter()
        self._observed = Observations(runtime)

    def run_waiting(self) -> int:
        """Run the waiting runs one after the other; return their number.

        Raises `OutcomeUnknown` if the store is unavailable; the next call continues.
        """
        taken = 0
        while now := self._run_once():  # runs skipped because of the limit may be possible now
            taken += now
        return taken

    def _run_once(self) -> int:
        taken = 0
        # Oldest first: ids sort newest first.
        notes = list(self._runs.waiting.scan_readable())[::-1]
        self._observed.keep_only({note.name for note in notes})
        for note in notes:
            try:
                taken += self._handle(note)
            except OutcomeUnknown:
                raise
            except Exception:
                _LOGGER.exception("run %s was interrupted, and will be retried", note.name.decode())
        return taken

    def _handle(self, note: Record[pb.WaitingRun]) -> int:
        """Handle one record of a waiting run; return the number of runs executed."""
        repository = self._repository(note.message)
        record = None
        if repository is not None:
            record = self._runs.records(repository).find(note.name)
        if repository is None or record is None or record.message.state == pb.RUN_STATE_DONE:
            self._forget(note.name)
        elif record.message.state == pb.RUN_STATE_WAITING:
            return self._run(repository, record)
        elif self._is_dead(record):
            if record.message.state != pb.RUN_STATE_PREPARED:
                return self._run(repository, record)
            self._resolve(repository, record)
        return 0

    def _repository(self, waiting: pb.WaitingRun) -> Repository | None:
        try:
            repository = self._engine.repositories.get(RepositoryID(waiting.repository))
        except (RepositoryNotFound, Deleting):
            return None
        return repository if repository.unique_id == waiting.unique_id else None

    def _is_dead(self, record: Record[pb.Run]) -> bool:
        """Whether the record was unchanged for so long that its process must have died."""
        seconds = self._heartbeat_seconds
        return self._observed.is_dead(record.name, record.predicate, seconds=seconds)

    def _forget(self, name: bytes) -> None:
        self._observed.forget(name)
        # If the deletion is lost, the next pass repeats it.
        with suppress(OutcomeUnknown):
            self._runs.waiting.delete(name)

    # Outcomes of operations

    def _resolve(self, repository: Repository, record: Record[pb.Run]) -> None:
        leased = self._runs.take(repository, record, lambda _run: None)
        if leased is None:
            return
        with suppress(LeaseLostError):
            took_effect = self._took_effect(repository, leased.message)
            if took_effect:
                leased.change(_wait)
            else:
                leased.drop()
                self._forget(record.name)
            _LOGGER.info(
                "the operation of run %s %s",
                leased.id,
                "took effect" if took_effect else "did not take effect",
            )

    def _took_effect(self, repository: Repository, run: pb.Run) -> bool:
        """Whether an operation took effect; afterwards it cannot on reads before the lease."""
        engine, event_type = self._engine, EventType(run.event_type)
        unique_id = UniqueID(run.ref_unique_id)
        match event_type:
            case EventType.POST_CREATE_TAG:
                return engine.tags.was_created(repository, TagID(run.tag), unique_id)
            case EventType.POST_DELETE_TAG:
                return engine.tags.was_deleted(repository, TagID(run.tag), unique_id)
            case EventType.POST_CREATE_BRANCH:
                return engine.branches.was_created(repository, BranchID(run.branch), unique_id)
            case EventType.POST_DELETE_BRANCH:
                return engine.branches.was_deleted(repository, BranchID(run.branch), unique_id)
            case _:
                return self._was_published(repository, run)

    def _was_published(self, repository: Repository, run: pb.Run) -> bool:
        try:
            branch = self._engine.branches.get(repository, BranchID(run.branch))
            if branch.unique_id != run.ref_unique_id:
                return False  # a later branch of the same name
            commit_ids = [CommitID(run.commit_id)]
            found = self._engine.publisher.find_published(repository, branch, commit_ids)
        except BranchNotFound:
            return False
        return found is not None

    # Running

    def _run(self, repository: Repository, record: Record[pb.Run]) -> int:
        """Execute a run unless its repository has reached the limit; return the number executed."""
        with self._lock:
            if self._running[repository.unique_id] >= AT_ONCE_MAX:
                return 0
            self._running[repository.unique_id] += 1
        try:
            return self._take_and_run(repository, record)
        finally:
            with self._lock:
                self._running[repository.unique_id] -= 1
                self._running += Counter()  # remove zero counts

    def _take_and_run(self, repository: Repository, record: Record[pb.Run]) -> int:
        leased = self._runs.take(repository, record, self._begin)
        if leased is None:
            return 0
        try:
            self._run_leased(repository, leased)
        except LeaseLostError:
            _LOGGER.info("run %s was taken over by another process", leased.id)
        except (OutcomeUnknown, StorageUnavailable) as error:
            _LOGGER.warning("run %s was interrupted, and will be retried: %s", leased.id, error)
        else:
            self._forget(record.name)
        return 1

    def _run_leased(self, repository: Repository, leased: LeasedRun) -> None:
        run = leased.message
        if run.attempts > ATTEMPTS_MAX:
            _LOGGER.warning(
                "run %s is abandoned: %d processes died running it", leased.id, ATTEMPTS_MAX
            )
            leased.change(self._fail)
            return
        try:
            actions = self._reader.read(repository, MetaRangeID(run.metarange_id))
            selected = select(actions, EventType(run.event_type), run.branch)
            failures = self._runner.run(repository, leased, selected)
        except (OutcomeUnknown, StorageUnavailable):
            raise  # to be retried by another attempt
        except LakebedError as error:
            _LOGGER.warning("run %s failed: %s: %s", leased.id, error.kind, error)
            leased.change(self._fail)
            failed = True
        else:
            failed = bool(failures)
            for failure in failures:
                _LOGGER.warning("in run %s of %s, %s", leased.id, run.event_type, failure)
        HOOK_RUNS.labels(run.event_type, "failure" if failed else "success").inc()

    def _begin(self, run: pb.Run) -> None:
        run.state = pb.RUN_STATE_RUNNING
        run.attempts += 1
        run.started_us = now_us(self._runtime)

    def _fail(self, run: pb.Run) -> None:
        run.state = pb.RUN_STATE_DONE
        run.passed = False
        run.ended_us = now_us(self._runtime)


def _wait(run: pb.Run) -> None:
    run.state = pb.RUN_STATE_WAITING
