"""Hooks put together: one object for a server process, which the doors ask for runs."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from lakebed.block import BlockStore
from lakebed.catalog.catalog import Catalog
from lakebed.catalog.tasks import RunInBackground
from lakebed.engine.engine import Engine
from lakebed.engine.model import Repository, RepositoryID
from lakebed.hooks import records_pb2 as pb
from lakebed.hooks.events import EventType
from lakebed.hooks.guard import Guard, GuardParts, refusal
from lakebed.hooks.keys import RunID
from lakebed.hooks.kinds import run_hook as run_any_hook
from lakebed.hooks.matching import select
from lakebed.hooks.post import PostRunner
from lakebed.hooks.reading import ActionReader
from lakebed.hooks.runner import Listener, NewCaller, RunHook, Runner
from lakebed.hooks.runs import Runs
from lakebed.hooks.settings import HooksSettings
from lakebed.kv import Store
from lakebed.runtime import Runtime
from lakebed.tracing import traced


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of trying hooks by hand."""

    run_id: RunID | None
    """None: no action is for the event."""
    error: str
    """What clients would be told; empty if all passed."""


class Actions:
    """Runs hooks, and keeps what became of them. One for each process, used by its threads."""

    def __init__(
        self,
        guard: Guard,
        engine: Engine,
        catalog: Catalog,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: HooksSettings,
        *,
        heartbeat_seconds: float,
        new_caller: NewCaller,
        while_waiting: Callable[[], AbstractContextManager[None]],
        run_in_background: RunInBackground | None = None,
        run_hook: RunHook = run_any_hook,
    ) -> None:
        """Put hooks on an engine, and attach its guard to them.

        Args:
            guard: What the engine asks.
            engine: The engine.
            catalog: Reads the action files.
            store: Runs go there.
            block: Logs go there.
            runtime: Clock, chance and concurrency.
            settings: What hooks may do.
            heartbeat_seconds: A run that gave no sign of life for so long has died.
            new_caller: What hooks may ask of the server.
            while_waiting: Entered while a request waits for hooks.
            run_in_background: Runs what comes after operations in this process. None: another
                process calls `post.run_waiting` now and then.
            run_hook: Runs one hook.
        """
        self._engine = engine
        self._settings = settings
        self._while_waiting = while_waiting
        self._reader = ActionReader(engine, catalog, runtime)
        self.runs = Runs(engine, store, block, runtime, heartbeat_seconds=heartbeat_seconds)
        self._runner = Runner(
            engine,
            runtime,
            settings,
            self.runs,
            new_caller=new_caller,
            run_hook=run_hook,
            heartbeat_seconds=heartbeat_seconds,
        )
        self.post = PostRunner(
            engine,
            runtime,
            self._reader,
            self.runs,
            self._runner,
            heartbeat_seconds=heartbeat_seconds,
        )
        self._run_in_background = run_in_background
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
        self,
        repository_id: RepositoryID,
        ref: str,
        event_type: EventType,
        *,
        username: str,
        listener: Listener | None = None,
    ) -> Trial:
        """Run the hooks that an event on a ref would run; nothing else happens.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: There is no such ref.
            InvalidAction: An action file cannot be used.
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
        )
        actions = select(self._reader.read(repository, commit.metarange_id), event_type, run.branch)
        if not actions:
            return Trial(None, "")
        held = self.runs.begin(repository, run)
        with self._while_waiting():
            failures = self._runner.run(repository, held, actions, listener)
        return Trial(held.id, refusal(event_type, held.id, failures) if failures else "")

    def clean(self, repository: Repository) -> int:
        """Remove the runs that were kept for long enough; return how many."""
        return self.runs.clean(repository, days=self._settings.run_days)

    def _on_waiting(self) -> None:
        if self._run_in_background is not None:
            self._run_in_background(self._run_waiting)

    def _run_waiting(self) -> None:
        self.post.run_waiting()
