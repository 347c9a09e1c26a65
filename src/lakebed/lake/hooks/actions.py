"""Composition of hooks: one object per server process, used by the APIs."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block import BlockStore
from lakebed.engine.engine import Engine
from lakebed.engine.leases import LeaseLostError
from lakebed.engine.model import Repository, RepositoryID
from lakebed.kv import Store
from lakebed.lake.catalog import Catalog
from lakebed.lake.hooks import records_pb2 as pb
from lakebed.lake.hooks.errors import TooManyTrials
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.files import ActionFile, ActionReader, select
from lakebed.lake.hooks.guard import GuardParts, HookGuard
from lakebed.lake.hooks.keys import RunID
from lakebed.lake.hooks.kinds import run_hook as run_any_hook
from lakebed.lake.hooks.post import PostRunner
from lakebed.lake.hooks.processes import ProcessPool
from lakebed.lake.hooks.runner import NewCaller, RunHook, Runner, hook_run_id_of
from lakebed.lake.hooks.runs import LeasedRun, Runs
from lakebed.lake.hooks.settings import HookLimits
from lakebed.lake.tasks import RunInBackground, run_inline

TRIALS_MAX: Final = 8
"""Maximum number of concurrent trials per process."""

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HookTrial:
    """A hook of a trial."""

    hook_run_id: str
    action: str
    hook_id: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A started trial: a run of hooks by hand."""

    run_id: RunID | None
    """Id of the run, or None if no action matches the event."""
    hooks: tuple[HookTrial, ...]


class Actions:
    """Runs hooks and records their results. One instance per process, used by all threads."""

    def __init__(
        self,
        guard: HookGuard,
        engine: Engine,
        catalog: Catalog,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: HookLimits,
        *,
        heartbeat_seconds: float,
        new_caller: NewCaller,
        while_waiting: Callable[[], AbstractContextManager[None]],
        run_in_background: RunInBackground = run_inline,
        runs_post_hooks: bool = False,
        run_hook: RunHook | None = None,
        stores_early: bool = True,
    ) -> None:
        """Build the hooks of an engine and attach its guard to them.

        - `heartbeat_seconds`: a run without a heartbeat for this long has died.
        - `new_caller`: creates the server API available to hooks.
        - `while_waiting`: entered while a request waits for hooks.
        - `run_in_background`: runs trials.
        - `runs_post_hooks`: whether post hooks run in the background of this process. If not,
          another process calls `post.run_waiting` regularly.
        - `run_hook`: runs one hook; defaults to the implementation of servers.
        - `stores_early`: whether output is stored while hooks run, so that it can be followed.
        """
        self._engine = engine
        self._settings = settings
        self._reader = ActionReader(engine, catalog, runtime)
        self.runs = Runs(engine, store, block, runtime, heartbeat_seconds=heartbeat_seconds)
        self._runner = Runner(
            engine,
            runtime,
            settings,
            self.runs,
            new_caller=new_caller,
            run_hook=run_hook or partial(run_any_hook, pool=ProcessPool(runtime)),
            heartbeat_seconds=heartbeat_seconds,
            stores_early=stores_early,
        )
        self.post = PostRunner(
            engine,
            runtime,
            self._reader,
            self.runs,
            self._runner,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._lock = runtime.lock()
        self._trials = 0
        self._run_in_background = run_in_background
        self._runs_post_hooks = runs_post_hooks
        guard.attach(
            GuardParts(
                engine=engine,
                reader=self._reader,
                runs=self.runs,
                runner=self._runner,
                while_waiting=while_waiting,
                on_waiting=self._on_waiting,
            )
        )

    @traced("hooks.try_out")
    def try_out(
        self, repository_id: RepositoryID, ref: str, event_type: EventType, *, username: str
    ) -> Trial:
        """Start the hooks that an event on a ref would run, without the event's operation.

        Their output can be read while they run (`Runs.output`).

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: The ref does not exist.
            InvalidAction: An action file is invalid.
            TooManyTrials: Too many trials are running.
        """
        repository = self._engine.repositories.get(repository_id)
        commit = self._engine.resolver.commit(repository, ref)
        run = pb.Run(
            event_type=event_type,
            metarange_id=commit.metarange_id,
            source_ref=ref,
            branch="" if event_type.is_about_tag else ref,
            commit_id=commit.id,
            committer=commit.committer,
            message=commit.message,
            metadata=commit.metadata,
            username=username,
            is_trial=True,
        )
        actions = select(self._reader.read(repository, commit.metarange_id), event_type, run.branch)
        if not actions:
            return Trial(None, ())
        self._count_trial()
        try:
            leased = self.runs.begin(repository, run)
        except LakebedError:
            self._end_trial()
            raise
        self._run_in_background(lambda: self._try(repository, leased, actions))
        hooks = [
            HookTrial(hook_run_id_of(number, place), action.name, hook.id)
            for number, action in enumerate(actions)
            for place, hook in enumerate(action.hooks)
        ]
        return Trial(leased.id, tuple(hooks))

    def _try(
        self, repository: Repository, leased: LeasedRun, actions: Sequence[ActionFile]
    ) -> None:
        try:
            self._runner.run(repository, leased, actions)
        except (LakebedError, LeaseLostError) as error:
            _LOGGER.warning("trial %s was interrupted: %s", leased.id, error)
        finally:
            self._end_trial()

    def _count_trial(self) -> None:
        with self._lock:
            if self._trials >= TRIALS_MAX:
                raise TooManyTrials(TRIALS_MAX)
            self._trials += 1

    def _end_trial(self) -> None:
        with self._lock:
            self._trials -= 1

    def clean(self, repository: Repository) -> int:
        """Remove runs older than `run_days`; return their number."""
        return self.runs.clean(repository, days=self._settings.run_days)

    def _on_waiting(self) -> None:
        if self._runs_post_hooks:
            self._run_in_background(self._run_waiting)

    def _run_waiting(self) -> None:
        self.post.run_waiting()
