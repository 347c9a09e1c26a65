"""Runs of hooks."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from lakebed.wire.base import Page, PageQuery, Wire
from lakebed.wire.calls import Resource, call

Running = Annotated[bool, Meta(description="include running runs, unknown to lakeFS's clients")]


class RunsQuery(PageQuery):
    branch: str = ""
    commit: str = ""
    running: Running = False


class RunQuery(Wire):
    running: Running = False


class RunHooksQuery(PageQuery):
    running: Running = False


class ActionRun(Wire, kw_only=True, omit_defaults=True):
    """A run of hooks."""

    run_id: str
    branch: str
    start_time: datetime
    end_time: datetime | None = None
    """None while running."""
    event_type: str
    status: str
    commit_id: str
    skipped_by: str = ""
    """User who skipped the hooks; none ran."""


class HookRun(Wire, kw_only=True, omit_defaults=True):
    """A hook of a run."""

    hook_run_id: str
    action: str
    hook_id: str
    start_time: datetime
    end_time: datetime | None = None
    status: str
    skipped: bool = False


class TrialCreation(Wire, kw_only=True):
    """Hooks to try."""

    ref: str
    event: str


class TrialHook(Wire, kw_only=True):
    """A hook in a trial run."""

    hook_run_id: str
    action: str
    hook_id: str


class TrialBegun(Wire, kw_only=True):
    """A trial run of hooks. The run can be read after its end; logs earlier."""

    run_id: str
    """Empty if no action matches the event."""
    hooks: list[TrialHook]


class ActionsAPI(Resource, tag="actions", path="/repositories/{repository}/actions/runs"):
    """Runs of hooks."""

    @call("listRepositoryRuns", "GET", "")
    def runs(self, repository: str, query: RunsQuery | None = None) -> Page[ActionRun]: ...

    @call("getRun", "GET", "/{run_id}")
    def run(self, repository: str, run_id: str, query: RunQuery | None = None) -> ActionRun: ...

    @call("listRunHooks", "GET", "/{run_id}/hooks")
    def hooks(
        self, repository: str, run_id: str, query: RunHooksQuery | None = None
    ) -> Page[HookRun]: ...

    @call(
        "getRunHookOutput",
        "GET",
        "/{run_id}/hooks/{hook_run_id}/output",
        media="application/octet-stream",
    )
    def output(self, repository: str, run_id: str, hook_run_id: str) -> str: ...

    @call("runActions", "POST", "", status=202, statuses=(412, 429))
    def try_out(self, repository: str, body: TrialCreation) -> TrialBegun: ...
