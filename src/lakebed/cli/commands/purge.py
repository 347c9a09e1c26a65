"""`lakebed purge`: delete objects from all history."""

import time
from typing import Annotated, Any, Final

import typer

from lakebed.cli.errors import CommandError, Incomplete, Misuse
from lakebed.cli.groups import new_group
from lakebed.cli.output import size, warn
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RepositoryArgument, RepositoryUri

app = new_group("Delete objects from all history, for good.")

_POLL_SECONDS: Final = 0.5


@client_command(app, "object")
def purge_object(
    session: Session,
    repository: RepositoryArgument,
    *,
    path: Annotated[str, typer.Option(help="What was ever at this path.")] = "",
    prefix: Annotated[str, typer.Option(help="What was ever at paths that begin so.")] = "",
    checksum: Annotated[str, typer.Option(help="What has this checksum, wherever it is.")] = "",
    reason: Annotated[str, typer.Option(help="Why; whoever reads it later is told.")] = "",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Do it. Without this, show what would be deleted.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of the purge, and show its report.")
    ] = False,
) -> None:
    """Delete the bytes of objects from all history; commits and their ids stay.

    lakebed purge object lakefs://my-repo --path people/ada.json --reason "asked for on 2 May"
    """
    named = {"path": path, "prefix": prefix, "checksum": checksum}
    if sum(map(bool, named.values())) != 1:
        raise Misuse("name the objects by one of --path, --prefix and --checksum")
    if confirm and not reason:
        raise Misuse("say with --reason why: whoever reads the objects later is told")
    body = {**named, "reason": reason, "confirm": confirm}
    task_id = session.client.call("POST", *_purges(repository), body=body)["id"]
    if confirm and not wait:
        follow = f"lakebed purge status {repository} {task_id}"
        session.output.done(
            f"The server purges objects of {repository}. See `{follow}`.", {"id": task_id}
        )
        return
    if confirm:
        warn(
            "Deleting; then waiting for commits that are under way, to search once more. That takes"
            " a quarter of an hour. If this command is stopped, the server goes on: see"
            f" `lakebed purge status {repository} {task_id}`."
        )
    _show(session, repository, _end_of(session, repository, task_id))


@client_command(app, "status")
def purge_status(
    session: Session,
    repository: RepositoryArgument,
    task_id: Annotated[
        str, typer.Argument(metavar="TASK", help="As `lakebed purge object` printed it.")
    ],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the purge.")] = False,
) -> None:
    """Show how far a purge has come, or its report; a purge is known for a day after its end.

    lakebed purge status lakefs://my-repo 4f1c8a02b7d9e6f35a11
    """
    if wait:
        _show(session, repository, _end_of(session, repository, task_id))
        return
    status = session.client.get(*_purges(repository), task_id)
    if status["completed"]:
        _show(session, repository, status)
        return
    progress = status.get("progress") or {"step": "searching"}
    if session.output.as_json:
        session.output.record(status)
    elif report := progress.get("report"):
        then = progress["searches_again"]
        session.output.done(
            f"{_deleted(report)} from all history. "
            + (f"A second search begins at {then}." if then else "The second search goes on.")
        )
    else:
        session.output.done(f"The first search of {repository} goes on.")


def _purges(repository: RepositoryUri) -> tuple[str, ...]:
    return "repositories", repository.repository, "purges"


def _end_of(session: Session, repository: RepositoryUri, task_id: str) -> dict[str, Any]:
    """Wait for the end of a purge; return its status."""
    told = ""
    while True:
        status: dict[str, Any] = session.client.get(*_purges(repository), task_id)
        if status["completed"]:
            return status
        progress = status.get("progress") or {}
        if progress.get("step") == "waiting" and progress["step"] != told:
            then = progress["searches_again"]
            warn(f"{_deleted(progress['report'])}; the second search begins at {then}.")
        told = progress.get("step", told)
        time.sleep(_POLL_SECONDS)


def _show(session: Session, repository: RepositoryUri, status: dict[str, Any]) -> None:
    """Show the report of a purge that has ended."""
    if status.get("error"):
        raise CommandError(status["error"]["message"])
    report: dict[str, Any] = status["result"]
    if session.output.as_json:
        session.output.record(report)
    else:
        _tell(session, repository, report)
    if report["failed"]["count"]:
        raise Incomplete(
            f"{report['failed']['count']} objects could not be deleted, see above: try again"
        )


def _objects(report: dict[str, Any]) -> str:
    return f"{report['objects']} objects ({size(report['bytes'])})"


def _deleted(report: dict[str, Any]) -> str:
    return f"{report['deleted']} of {_objects(report)} were deleted"


def _tell(session: Session, repository: RepositoryUri, report: dict[str, Any]) -> None:
    what = _objects(report)
    if report["dry_run"] and not report["objects"]:
        session.output.done(f"No object of {repository} was found, in all its history.")
    elif report["dry_run"]:
        session.output.done(
            f"{what} of {repository} would be deleted from all history. Nothing was changed: add"
            " --confirm and --reason to do it."
        )
    else:
        session.output.done(
            f"{report['deleted']} of {what} of {repository} were deleted from all history"
            f" ({report['versions']} versions). The record is {report['purge_id']}."
        )
    for heading, key in (
        ("Found at", "paths"),
        ("These paths share the bytes, and lose them too", "also_at"),
        ("These paths have the same checksum, and stay (see --checksum)", "same_content"),
        ("Not in the repository's storage, left alone", "elsewhere"),
        ("Not deleted", "failed"),
    ):
        named = report[key]
        if named["count"]:
            warn(f"{heading} ({named['count']}):")
            for each in named["first"]:
                warn(f"  {each}")
    if report.get("adoptable"):
        warn(f"{report['adoptable']}.")
    warn("Not reached:")
    for each in report["not_reached"]:
        warn(f"  {each}")
