"""Running what comes after operations: taken up by any process, until it has ended.

A run of a post event is written down, *prepared*, before its operation takes effect, and
*confirmed* after it. So a process that dies at any step leaves a note that this finds:

- *Waiting*, or running in a process that gives no signs of life: it is taken up. The hooks may have
  run already. They run again, with the same run id, by which whoever is called can tell.
- *Prepared* for a while: whoever finds it finds out what became of the operation.
  1. It marks the run as its own. A publisher that is about to try once more takes the mark away
     (`Runs.stays_prepared`), after it has read the branch and before it swaps it.
  2. It writes the branch record anew, so that a swap of what was read before the mark fails.
  3. It looks for the commit in the history of the branch. There: the run waits. Not there: it never
     will be by what was read before the mark, and the run is dropped, if the mark is still there.

  A deletion took effect if the branch or the tag is gone; a creation if it is there. Whoever makes
  or deletes one looks at what it prepared in the same way (`Hooks.before_try`); what step 2 writes
  anew is the record of the ref, and a pending one is deleted.
- *Prepared*, and its branch or tag is about to be deleted, or its branch to be moved to another
  history: whoever does that confirms first what the ref shows (`Hooks.before_leaving`).
"""

import logging
from collections import Counter
from contextlib import suppress
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.ids import UniqueID
from lakebed.base.leases import Observations
from lakebed.base.runtime import Runtime, now_us
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
from lakebed.lake.hooks.files import ActionReader
from lakebed.lake.hooks.matching import select
from lakebed.lake.hooks.metrics import HOOK_RUNS
from lakebed.lake.hooks.runner import Runner
from lakebed.lake.hooks.runs import LeasedRun, Runs

ATTEMPTS_MAX: Final = 20
"""A run that so many processes died of is not taken up again."""

AT_ONCE_MAX: Final = 2
"""How many runs of one repository a process runs at once: some take hours, and others wait too."""

_LOGGER: Final = logging.getLogger(__name__)


class PostRunner:
    """Runs what comes after operations; one for a process."""

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
        """Run what waits, one after the other; return how many runs were taken up.

        Raises:
            OutcomeUnknown: The store does not answer; the next call goes on.
        """
        taken = 0
        while now := self._run_once():  # what was left out, because of these, may be run now
            taken += now
        return taken

    def _run_once(self) -> int:
        taken = 0
        # What happened first comes first: ids go down with time.
        notes = list(self._runs.waiting.scan_readable())[::-1]
        self._observed.keep_only({note.name for note in notes})
        for note in notes:
            try:
                taken += self._go_on(note)
            except OutcomeUnknown:
                raise
            except Exception:
                _LOGGER.exception("run %s was cut off, and will be taken up", note.name.decode())
        return taken

    def _go_on(self, note: Record[pb.WaitingRun]) -> int:
        """Do what there is to do about a run; return how many were taken up."""
        repository = self._repository(note.message)
        record = None
        if repository is not None:
            record = self._runs.records(repository).find(note.name)
        if repository is None or record is None or record.message.state == pb.RUN_STATE_DONE:
            self._forget(note.name)
        elif record.message.state == pb.RUN_STATE_WAITING:
            return self._run(repository, record)
        elif self._is_left(record):
            if record.message.state != pb.RUN_STATE_PREPARED:
                return self._run(repository, record)
            self._settle(repository, record)
        return 0

    def _repository(self, waiting: pb.WaitingRun) -> Repository | None:
        try:
            repository = self._engine.repositories.get(RepositoryID(waiting.repository))
        except (RepositoryNotFound, Deleting):
            return None
        return repository if repository.unique_id == waiting.unique_id else None

    def _is_left(self, record: Record[pb.Run]) -> bool:
        """Whether nobody changed a record for so long that its process must have died."""
        seconds = self._heartbeat_seconds
        return self._observed.is_dead(record.name, record.predicate, seconds=seconds)

    def _forget(self, name: bytes) -> None:
        self._observed.forget(name)
        # If this is lost, the next look removes it.
        with suppress(OutcomeUnknown):
            self._runs.waiting.delete(name)

    # Finding out what became of an operation

    def _settle(self, repository: Repository, record: Record[pb.Run]) -> None:
        held = self._runs.take(repository, record, lambda _run: None)
        if held is None:
            return
        with suppress(LeaseLostError):
            took_effect = self._took_effect(repository, held.message)
            if took_effect:
                held.change(_wait)
            else:
                held.drop()
                self._forget(record.name)
            _LOGGER.info(
                "the operation of run %s %s", held.id, "took effect" if took_effect else "did not"
            )

    def _took_effect(self, repository: Repository, run: pb.Run) -> bool:
        """Whether an operation took effect, once it cannot by what was read before the mark."""
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
                return False  # another one of that name
            commit_ids = [CommitID(run.commit_id)]
            found = self._engine.publisher.find_published(repository, branch, commit_ids)
        except BranchNotFound:
            return False
        return found is not None

    # Running

    def _run(self, repository: Repository, record: Record[pb.Run]) -> int:
        """Run a run, unless too many of its repository run already; return how many were run."""
        with self._lock:
            if self._running[repository.unique_id] >= AT_ONCE_MAX:
                return 0
            self._running[repository.unique_id] += 1
        try:
            return self._take_and_run(repository, record)
        finally:
            with self._lock:
                self._running[repository.unique_id] -= 1
                self._running += Counter()  # without those that are zero

    def _take_and_run(self, repository: Repository, record: Record[pb.Run]) -> int:
        held = self._runs.take(repository, record, self._begin)
        if held is None:
            return 0
        try:
            self._run_held(repository, held)
        except LeaseLostError:
            _LOGGER.info("run %s is run by another process", held.id)
        except (OutcomeUnknown, StorageUnavailable) as error:
            _LOGGER.warning("run %s was cut off, and will be taken up: %s", held.id, error)
        else:
            self._forget(record.name)
        return 1

    def _run_held(self, repository: Repository, held: LeasedRun) -> None:
        run = held.message
        if run.attempts > ATTEMPTS_MAX:
            _LOGGER.warning("run %s is given up: %d processes died of it", held.id, ATTEMPTS_MAX)
            held.change(self._fail)
            return
        try:
            actions = self._reader.read(repository, MetaRangeID(run.metarange_id))
            selected = select(actions, EventType(run.event_type), run.branch)
            failures = self._runner.run(repository, held, selected)
        except (OutcomeUnknown, StorageUnavailable):
            raise  # whoever takes it up tries again
        except LakebedError as error:
            _LOGGER.warning("run %s failed: %s: %s", held.id, error.kind, error)
            held.change(self._fail)
            failed = True
        else:
            failed = bool(failures)
            for failure in failures:
                _LOGGER.warning("in run %s of %s, %s", held.id, run.event_type, failure)
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
