"""`lakebed actions`: action files and the runs of hooks."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import to_builtins
from msgspec.structs import asdict

from lakebed.clients.cli.errors import CommandError, Incomplete, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import CommitId, Whole, printable, stamp
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.clients.cli.uris import RefArgument, RepositoryArgument
from lakebed.clients.http.errors import or_none
from lakebed.clients.http.paging import list_items
from lakebed.lake.hooks.errors import InvalidAction
from lakebed.lake.hooks.files import FILE_BYTES_MAX, ActionFile, check_names, parse_action
from lakebed.wire.actions import ActionRun, HookRun, RunsQuery, TrialBegun, TrialCreation
from lakebed.wire.repositories import HooksSettings

app = new_group("Validate action files, and show the runs of hooks.")
runs_app = new_group("Show the runs of hooks.")
app.add_typer(runs_app, name="runs")

_POLL_SECONDS: Final = 0.5


@client_command(app, "validate")
def validate(
    session: Session,
    *,
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="An action file, or a directory of action files")
    ],
) -> None:
    """Validate action files before the upload, without a server.

    lakebed actions validate _lakefs_actions/
    """
    findings = _check(_files(path))
    session.output.table(
        findings,
        [
            ("File", lambda item: item.file),
            ("", lambda item: "ok" if item.problem is None else "WRONG"),
            ("Found", lambda item: Whole(item.problem or item.action)),
        ],
    )
    wrong = sum(finding.problem is not None for finding in findings)
    if wrong:
        raise Incomplete(f"{wrong} of {len(findings)} action files are invalid, see above")


def _files(path: Path) -> list[Path]:
    """Return the file, or the files directly in a directory: the server ignores deeper ones."""
    try:
        files = (
            sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        )
    except OSError as error:
        raise InvalidArguments(f"cannot read {path}: {error.strerror}") from error
    if not files:
        raise InvalidArguments(
            f"{path} has no files: pass an action file, or a directory of action files"
        )
    return files


@dataclass(frozen=True, slots=True)
class _Finding:
    """Result for an action file: the name of the action, or the problem."""

    file: str
    action: str | None = None
    problem: str | None = None


def _check(files: list[Path]) -> list[_Finding]:
    findings: list[_Finding] = []
    actions: list[ActionFile] = []
    for file in files:
        try:
            action = parse_action(str(file), _read(file))
            check_names([*actions, action])
        except InvalidAction as error:
            findings.append(_Finding(str(file), problem=error.reason))
        else:
            findings.append(_Finding(str(file), action.name))
            actions.append(action)
    return findings


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArguments(f"cannot read {file}: {error.strerror}") from error


@client_command(app, "run")
def run_actions(
    session: Session,
    ref: RefArgument,
    *,
    event: Annotated[
        str, typer.Option(metavar="EVENT", help="Event to simulate: pre-commit, post-merge, …")
    ] = "pre-commit",
) -> None:
    """Run the hooks for a simulated event on a ref, and show their output.

    Only the hooks run: no commit or merge happens, and failures refuse nothing.

    lakebed actions run lakefs://my-repo/main --event pre-commit
    """
    body = TrialCreation(ref=ref.ref, event=event)
    trial = session.client.actions.try_out(ref.repository, body)
    if not trial.run_id:
        session.output.done(f"No action file of {ref} has hooks for {event}", trial)
        return
    run = _watch(session, ref.repository, trial)
    if session.output.as_json:
        session.output.record(_described(session, ref.repository, trial.run_id))
    else:
        print(f"run {run.run_id}: {run.status}")
    if run.status != "completed":
        raise CommandError(f"the hooks of {event} failed, see above")


def _watch(session: Session, repository: str, trial: TrialBegun) -> ActionRun:
    """Print the output of hooks until the run has ended; return the run."""
    actions, shown = session.client.actions, {hook.hook_run_id: 0 for hook in trial.hooks}
    while True:
        run = or_none(lambda: actions.run(repository, trial.run_id))
        for hook in [] if session.output.as_json else trial.hooks:
            place = hook.hook_run_id
            read_output = partial(actions.output, repository, trial.run_id, place)
            output = or_none(read_output) or ""  # not started
            # Only whole lines of a running hook.
            end = len(output) if run is not None else output.rfind("\n") + 1
            for line in output[shown[place] : end].splitlines():
                print(printable(f"{hook.action}/{hook.hook_id}: {line}"), flush=True)
            shown[place] = max(end, shown[place])
        if run is not None:
            return run
        time.sleep(_POLL_SECONDS)


@client_command(app, "settings")
def settings(
    session: Session,
    repository: RepositoryArgument,
    *,
    strict: Annotated[
        bool | None,
        typer.Option(
            "--strict/--no-strict",
            help="Whether hooks of the branch's head also run for its changes",
        ),
    ] = None,
) -> None:
    """Show or set which hooks run for changes.

    lakebed actions settings lakefs://my-repo --strict
    """
    repositories = session.client.repositories
    if strict is None:
        session.output.record(repositories.hooks_settings(repository.repository))
        return
    repositories.set_hooks_settings(repository.repository, HooksSettings(strict=strict))
    state = "on" if strict else "off"
    session.output.done(f"Strict hooks of {repository} are {state}", {"strict": strict})


@client_command(runs_app, "list")
def list_runs(
    session: Session,
    repository: RepositoryArgument,
    *,
    branch: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="Only runs for this branch")
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="COMMIT", help="Only runs for this commit")
    ] = None,
    page: PageOptions,
) -> None:
    """List the completed runs of hooks, newest first."""
    if branch and commit:
        raise InvalidArguments("--branch and --commit cannot be combined: pass one of them")
    query = RunsQuery(branch=branch or "", commit=commit or "")
    session.show_list(
        page,
        [
            ("Run", lambda item: Whole(item.run_id)),
            ("Event", lambda item: item.event_type),
            ("Branch", lambda item: item.branch),
            ("Began", lambda item: stamp(item.start_time)),
            ("Status", lambda item: "skipped" if item.skipped_by else item.status),
            ("Commit", lambda item: CommitId(item.commit_id)),
        ],
        session.client.actions.runs,
        repository.repository,
        query,
    )


@client_command(runs_app, "describe")
def describe_run(
    session: Session,
    repository: RepositoryArgument,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run")],
) -> None:
    """Show a run of hooks, with their output."""
    run = _described(session, repository.repository, run_id)
    if session.output.as_json:
        session.output.record(run)
        return
    fields: dict[str, object] = to_builtins(run)
    del fields["hooks"]
    session.output.record(fields)
    for hook in run.hooks:
        state = "skipped" if hook.skipped else hook.status
        print(printable(f"\n{hook.action}/{hook.hook_id}: {state}".lstrip()))
        for line in hook.output.splitlines():
            print("    " + printable(line))


class _ShownHook(HookRun, kw_only=True):
    """A hook run with its output."""

    output: str


class _ShownRun(ActionRun, kw_only=True):
    """A run with its hooks."""

    hooks: list[_ShownHook]


def _described(session: Session, repository: str, run_id: str) -> _ShownRun:
    actions = session.client.actions
    run = actions.run(repository, run_id)
    hooks = [
        _ShownHook(**asdict(hook), output=actions.output(repository, run_id, hook.hook_run_id))
        for hook in list_items(actions.hooks, repository, run_id)
    ]
    return _ShownRun(**asdict(run), hooks=hooks)
