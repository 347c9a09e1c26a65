"""Hook runs: their outcomes, their output, and trial runs."""

from typing import Final

from lakebed.engine.model import RepositoryID
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.runs import HookRunInfo, HookRunRecord
from lakebed.server.api.pages import first_page
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Need, Reply, Routes, fs
from lakebed.server.http.errors import BadRequest
from lakebed.wire import actions as wire
from lakebed.wire.base import Page

routes = Routes()

_REPOSITORY: Final = "repository/{repository}"
_READ: Final = Need("ci:ReadAction", f"arn:lakefs:fs:::{_REPOSITORY}")


def _status(*, passed: bool, running: bool) -> str:
    # Clients of lakeFS accept only the last two, and do not request runs in progress.
    if running:
        return "running"
    return "completed" if passed else "failed"


def _wire_run(run: HookRunRecord) -> wire.ActionRun:
    return wire.ActionRun(
        run_id=run.id,
        branch=run.branch,
        start_time=run.started,
        end_time=run.ended,
        event_type=run.event_type,
        status=_status(passed=run.passed, running=run.ended is None),
        commit_id=run.commit_id,
        skipped_by=run.skipped_by,
    )


def _wire_hook(hook: HookRunInfo) -> wire.HookRun:
    return wire.HookRun(
        hook_run_id=hook.id,
        action=hook.action,
        hook_id=hook.hook_id,
        start_time=hook.started,
        end_time=hook.ended,
        status=_status(passed=hook.passed, running=hook.running),
        skipped=hook.skipped,
    )


@routes.add(wire.ActionsAPI.runs, _READ)
def list_repository_runs(
    request: ApiRequest, repository: RepositoryID, query: wire.RunsQuery
) -> Page[wire.ActionRun]:
    """List the hook runs, newest first."""
    if query.branch and query.commit:
        raise BadRequest("branch and commit are mutually exclusive: give one of them")
    found = request.services.actions.runs.list(
        repository,
        after=query.after,
        branch=query.branch,
        commit_id=query.commit,
        running=query.running,
    )
    return first_page(found, query, wire=_wire_run, name=lambda run: run.id)


@routes.add(wire.ActionsAPI.run, _READ)
def get_run(
    request: ApiRequest, repository: RepositoryID, run_id: str, query: wire.RunQuery
) -> wire.ActionRun:
    """Return a hook run."""
    found = request.services.actions.runs.get(repository, run_id, running=query.running)
    return _wire_run(found)


@routes.add(wire.ActionsAPI.hooks, _READ)
def list_run_hooks(
    request: ApiRequest, repository: RepositoryID, run_id: str, query: wire.RunHooksQuery
) -> Page[wire.HookRun]:
    """List the hooks of a run."""
    found = request.services.actions.runs.hooks(
        repository, run_id, after=query.after, running=query.running
    )
    return first_page(found, query, wire=_wire_hook, name=lambda hook: hook.id)


@routes.add(wire.ActionsAPI.output, _READ)
def get_run_hook_output(
    request: ApiRequest, repository: RepositoryID, run_id: str, hook_run_id: str
) -> Reply:
    """Return the output of a hook so far; empty for a skipped hook."""
    output = request.services.actions.runs.output(repository, run_id, hook_run_id)
    return Reply(
        body=output,
        content_type="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="output.log"'},
    )


@routes.add(
    wire.ActionsAPI.try_out, (_READ, fs("CreateCommit", f"{_REPOSITORY}/branch/{{body.ref}}"))
)
def run_actions(
    request: ApiRequest, repository: RepositoryID, body: wire.TrialCreation
) -> wire.TrialBegun:
    """Start the hooks of an event on a ref as a trial, as the current user."""
    event = EventType(one_of(body.event, list(EventType), "event"))
    trial = request.services.actions.try_out(
        repository, body.ref, event, username=request.identity.user_id
    )
    hooks = [
        wire.TrialHook(hook_run_id=hook.hook_run_id, action=hook.action, hook_id=hook.hook_id)
        for hook in trial.hooks
    ]
    return wire.TrialBegun(run_id=trial.run_id or "", hooks=hooks)
