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
) -> None:
    """Delete the bytes of objects from all history; commits and their ids stay.

    lakebed purge object lakefs://my-repo --path people/ada.json --reason "asked for on 2 May"
    """
    named = {"path": path, "prefix": prefix, "checksum": checksum}
    if sum(map(bool, named.values())) != 1:
        raise Misuse("name the objects by one of --path, --prefix and --checksum")
    if confirm and not reason:
        raise Misuse("say with --reason why: whoever reads the objects later is told")
    report = _run(session, repository, {**named, "reason": reason, "confirm": confirm})
    if session.output.as_json:
        session.output.record(report)
    else:
        _tell(session, repository, report)
    if report["failed"]["count"]:
        raise Incomplete(
            f"{report['failed']['count']} objects could not be deleted, see above: try again"
        )


def _run(session: Session, repository: RepositoryUri, body: dict[str, object]) -> dict[str, Any]:
    """Have the server do it, and wait for that."""
    place = ("repositories", repository.repository, "purges")
    if body["confirm"]:
        warn(
            "Deleting; then waiting for commits that are under way, to look once more. That takes"
            " a quarter of an hour. If this command is stopped, the server goes on."
        )
    task_id = session.client.call("POST", *place, body=body)["id"]
    while True:
        status: dict[str, Any] = session.client.get(*place, task_id)
        if status["completed"]:
            break
        time.sleep(_POLL_SECONDS)
    if status.get("error"):
        raise CommandError(status["error"]["message"])
    result: dict[str, Any] = status["result"]
    return result


def _tell(session: Session, repository: RepositoryUri, report: dict[str, Any]) -> None:
    what = f"{report['objects']} objects ({size(report['bytes'])})"
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
