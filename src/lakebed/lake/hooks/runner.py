"""Running the hooks of an event: actions in parallel, the hooks of an action in sequence.

- ``lakebed_hook_seconds``: duration of hooks, by type and outcome (``success``, ``failure``).
- ``lakebed_hook_runs_total``: ended runs, by event and outcome.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from prometheus_client import Counter, Histogram

from lakebed.base.errors import LakebedError
from lakebed.base.leases import with_heartbeat
from lakebed.base.runtime import Lock, Runtime, now_us, to_datetime
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitNotFound
from lakebed.engine.model import CommitID, Repository
from lakebed.lake.hooks import records_pb2 as pb
from lakebed.lake.hooks.conditions import evaluate
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.events import CommitDetails, EventType, HookEvent
from lakebed.lake.hooks.files import POST_SECONDS_MAX, PRE_SECONDS_MAX, ActionFile, HookSpec
from lakebed.lake.hooks.kinds import Caller
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.runs import LeasedRun, Runs
from lakebed.lake.hooks.settings import HookLimits

HOOK_SECONDS: Final = Histogram(
    "lakebed_hook_seconds",
    "Duration of hooks, by type and outcome",
    ["type", "outcome"],
    buckets=(0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600),
)
HOOK_RUNS: Final = Counter(
    "lakebed_hook_runs", "Ended runs of hooks, by event and outcome", ["event", "outcome"]
)

ACTIONS_AT_ONCE: Final = 16
HEARTBEATS_PER_TIMEOUT: Final = 4
STREAM_SECONDS: Final = 1.0
"""Interval for storing the output of running hooks, so that it can be followed."""
OUTPUT_SHOWN_BYTES: Final = 2000
"""Length of the output of a failed hook shown in an error."""

_COMMIT_VERSION: Final = 1
_LOGGER: Final = logging.getLogger(__name__)


class RunHook(Protocol):
    """Signature of `lakebed.lake.hooks.kinds.run_hook`, without its pool."""

    def __call__(
        self,
        spec: HookSpec,
        event: HookEvent,
        *,
        caller: Caller,
        output: HookOutput,
        settings: HookLimits,
        runtime: Runtime,
        until: float,
        is_cancelled: Callable[[], bool],
    ) -> None: ...


NewCaller = Callable[[HookEvent], Caller]
"""Creates the server API available to the hooks of an event."""


@dataclass(frozen=True, slots=True)
class FailedHook:
    """A hook that failed."""

    hook_run_id: str
    action: str
    hook_id: str
    error: str
    output: str
    """The end of its output."""

    def __str__(self) -> str:
        return (
            f"hook run id '{self.hook_run_id}' failed on action '{self.action}' hook"
            f" '{self.hook_id}': {self.error}"
        )


class Runner:
    """Runs the hooks of events. One instance per process."""

    def __init__(
        self,
        engine: Engine,
        runtime: Runtime,
        settings: HookLimits,
        runs: Runs,
        *,
        new_caller: NewCaller,
        run_hook: RunHook,
        heartbeat_seconds: float,
        stores_early: bool,
    ) -> None:
        self._stores_early = stores_early
        self._engine = engine
        self._runtime = runtime
        self._settings = settings
        self._runs = runs
        self._new_caller = new_caller
        self._run_hook = run_hook
        self._heartbeat_seconds = heartbeat_seconds / HEARTBEATS_PER_TIMEOUT

    def run(
        self, repository: Repository, leased: LeasedRun, actions: Sequence[ActionFile]
    ) -> list[FailedHook]:
        """Run all hooks with heartbeats, and record the result; return the failures.

        Raises `LeaseLostError` if another process took over the run.
        """
        event = self._event(repository, leased)
        seconds_max = POST_SECONDS_MAX if event.event_type.is_post else PRE_SECONDS_MAX
        context = _RunContext(
            repository=repository,
            leased=leased,
            event=event,
            caller=self._new_caller(event),
            until=self._runtime.monotonic() + seconds_max,
            lock=self._runtime.lock(),
        )
        lost = self._runtime.event()
        failures: list[FailedHook] = []

        def work() -> None:
            found = self._runtime.map_parallel(
                lambda item: self._run_action(context, item[0], item[1], lost.is_set),
                list(enumerate(actions)),
                limit=ACTIONS_AT_ONCE,
            )
            failures.extend(failure for each in found for failure in each)

        def send_heartbeat() -> bool:
            is_ours = leased.heartbeat()
            if not is_ours:
                lost.set()
            return is_ours

        def stream(wait: Callable[[float], bool]) -> None:
            stored: dict[str, int] = {}
            while not wait(STREAM_SECONDS):
                for hook_run_id, output in list(context.printing.items()):
                    length = len(output.content())
                    with context.lock:
                        if hook_run_id in context.printing and stored.get(hook_run_id, 0) < length:
                            self._write_log(context, hook_run_id, output)
                    stored[hook_run_id] = length

        with_heartbeat(
            self._runtime,
            work,
            send_heartbeat,
            every_seconds=self._heartbeat_seconds,
            beside=[stream] if self._stores_early else [],
        )

        def end(run: pb.Run) -> None:
            run.state = pb.RUN_STATE_DONE
            run.passed = not failures
            run.ended_us = now_us(self._runtime)

        leased.change(end)
        return failures

    def _run_action(
        self,
        context: "_RunContext",
        number: int,
        action: ActionFile,
        is_cancelled: Callable[[], bool],
    ) -> list[FailedHook]:
        failures: list[FailedHook] = []
        for place, hook in enumerate(action.hooks):
            hook_run_id = hook_run_id_of(number, place)
            if evaluate(hook.condition, has_failed=bool(failures)):
                failure = self._run_hook_once(context, hook, hook_run_id, is_cancelled)
                if failure is not None:
                    failures.append(failure)
            else:
                skipped = self._begun(hook)
                skipped.skipped = skipped.passed = True
                skipped.ended_us = skipped.started_us
                self._runs.record_hook(context.repository, context.leased.id, hook_run_id, skipped)
        return failures

    def _run_hook_once(
        self,
        context: "_RunContext",
        hook: HookSpec,
        hook_run_id: str,
        is_cancelled: Callable[[], bool],
    ) -> FailedHook | None:
        record = self._begun(hook)
        self._runs.record_hook(context.repository, context.leased.id, hook_run_id, record)
        output = HookOutput(self._runtime)
        context.printing[hook_run_id] = output
        begun = self._runtime.monotonic()
        error = ""
        try:
            self._run_hook(
                hook,
                context.event,
                caller=context.caller,
                output=output,
                settings=self._settings,
                runtime=self._runtime,
                until=context.until,
                is_cancelled=is_cancelled,
            )
        except HookFailed as failed:
            error = str(failed)
        except LakebedError:
            raise
        except Exception:
            _LOGGER.exception("hook %s of run %s failed", hook.id, context.leased.id)
            error = "the hook could not be run: see the server's log"
        outcome = "failure" if error else "success"
        seconds = self._runtime.monotonic() - begun
        HOOK_SECONDS.labels(hook.type, outcome).observe(seconds)
        record.passed = not error
        record.ended_us = now_us(self._runtime)
        with context.lock:  # an earlier state of the log must not overwrite the final one
            del context.printing[hook_run_id]
        self._write_log(context, hook_run_id, output)
        self._runs.record_hook(context.repository, context.leased.id, hook_run_id, record)
        if not error:
            return None
        shown = output.content()[-OUTPUT_SHOWN_BYTES:].decode(errors="replace")
        return FailedHook(hook_run_id, hook.action_name, hook.id, error, shown)

    def _write_log(self, context: "_RunContext", hook_run_id: str, output: HookOutput) -> None:
        content = output.content()
        if not content:
            return
        try:
            self._runs.write_log(context.repository, context.leased.id, hook_run_id, content)
        except LakebedError as error:
            # The hook's result counts even if its log is lost.
            _LOGGER.warning(
                "the log of hook %s of run %s was not stored: %s",
                hook_run_id,
                context.leased.id,
                error,
            )

    def _begun(self, hook: HookSpec) -> pb.HookRun:
        started_us = now_us(self._runtime)
        return pb.HookRun(action=hook.action_name, hook_id=hook.id, started_us=started_us)

    def _event(self, repository: Repository, leased: LeasedRun) -> HookEvent:
        run = leased.message
        return HookEvent(
            event_type=EventType(run.event_type),
            run_id=leased.id,
            event_time=to_datetime(run.created_us),
            repository_id=repository.id,
            repository_uid=repository.unique_id,
            storage_namespace=str(repository.namespace).removesuffix("/"),
            source_ref=run.source_ref,
            script_ref=run.script_ref,
            username=run.username,
            branch_id=run.branch,
            tag_id=run.tag,
            commit_id=run.commit_id,
            commit_message=run.message,
            committer=run.committer,
            commit_metadata=dict(run.metadata),
            merge_source=run.merge_source,
            pre_run_id=run.pre_run_id,
            commit=self._details(repository, run),
        )

    def _details(self, repository: Repository, run: pb.Run) -> CommitDetails:
        if not run.commit_id:
            return CommitDetails(message=run.message, metadata=dict(run.metadata))
        try:
            commit = self._engine.commits.get(repository, CommitID(run.commit_id))
        except CommitNotFound:
            return CommitDetails()
        return CommitDetails(
            message=commit.message,
            meta_range_id=commit.metarange_id,
            creation_date=to_datetime(commit.created_us),
            version=_COMMIT_VERSION,
            metadata=commit.metadata,
            parents=commit.parents,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunContext:
    """State shared by all hooks of one run."""

    repository: Repository
    leased: LeasedRun
    event: HookEvent
    caller: Caller
    until: float
    lock: Lock
    """Held while storing the log of a running hook."""
    printing: dict[str, HookOutput] = field(default_factory=dict)
    """Outputs of the running hooks."""


def hook_run_id_of(action: int, hook: int) -> str:
    """Return the id of a hook in its run, from the indexes of action and hook."""
    return f"{action:04d}_{hook:04d}"
