"""`lakebed purge`: delete objects permanently, from all commits."""

import time
from typing import Annotated, Final

import typer

from lakebed.clients.cli.errors import CommandError, Incomplete, InvalidArguments
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import size, warn
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import RepositoryArgument, RepositoryUri
from lakebed.wire.purges import PurgeOutcome, PurgeRequest, PurgeTaskStatus

app = new_group("Delete objects permanently, from all commits.")

_POLL_SECONDS: Final = 0.5


@client_command(app, "object")
def purge_object(
    session: Session,
    repository: RepositoryArgument,
    *,
    path: Annotated[str, typer.Option(help="Objects that were ever at this path")] = "",
    prefix: Annotated[str, typer.Option(help="Objects that were ever below this prefix")] = "",
    checksum: Annotated[str, typer.Option(help="Objects with this checksum, at any path")] = "",
    reason: Annotated[str, typer.Option(help="Reason, shown to later readers")] = "",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Delete; without this, show the objects")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end of the purge, and show its report")
    ] = False,
) -> None:
    """Delete the bytes of objects from all commits; commits and their ids are unchanged.

    lakebed purge object lakefs://my-repo --path people/ada.json --reason "asked for on 2 May"
    """
    if sum(map(bool, (path, prefix, checksum))) != 1:
        raise InvalidArguments(
            "select the objects by exactly one of --path, --prefix and --checksum"
        )
    if confirm and not reason:
        raise InvalidArguments("pass --reason: it is shown to later readers of the objects")
    body = PurgeRequest(path=path, prefix=prefix, checksum=checksum, reason=reason, confirm=confirm)
    task_id = session.client.purges.start(repository.repository, body).id
    if confirm and not wait:
        follow = f"lakebed purge status {repository} {task_id}"
        session.output.done(
            f"Server: purging objects of {repository}. See `{follow}`.", {"id": task_id}
        )
        return
    if confirm:
        warn(
            "Deleting, then waiting for running commits to search again, for about 15 minutes. The"
            " server continues if this command is stopped: see"
            f" `lakebed purge status {repository} {task_id}`."
        )
    _show(session, repository, _end_of(session, repository, task_id))


@client_command(app, "status")
def purge_status(
    session: Session,
    repository: RepositoryArgument,
    task_id: Annotated[
        str, typer.Argument(metavar="TASK", help="Id printed by `lakebed purge object`")
    ],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the purge")] = False,
) -> None:
    """Show the progress of a purge, or its report for a day after its end.

    lakebed purge status lakefs://my-repo 4f1c8a02b7d9e6f35a11
    """
    if wait:
        _show(session, repository, _end_of(session, repository, task_id))
        return
    status = session.client.purges.status(repository.repository, task_id)
    if status.completed:
        _show(session, repository, status)
        return
    progress = status.progress
    if session.output.as_json:
        session.output.record(status)
    elif progress and progress.report:
        then = progress.searches_again
        session.output.done(
            f"{_deleted(progress.report)} from all commits. "
            + (f"The second search starts at {then}." if then else "The second search is running.")
        )
    else:
        session.output.done(f"The first search of {repository} is running")


def _end_of(session: Session, repository: RepositoryUri, task_id: str) -> PurgeTaskStatus:
    """Wait for the end of a purge; return its status."""
    told = ""
    while True:
        status = session.client.purges.status(repository.repository, task_id)
        if status.completed:
            return status
        progress = status.progress
        if progress and progress.report and progress.step == "waiting" and told != "waiting":
            then = progress.searches_again
            warn(f"{_deleted(progress.report)}; the second search starts at {then}")
        told = progress.step if progress else told
        time.sleep(_POLL_SECONDS)


def _show(session: Session, repository: RepositoryUri, status: PurgeTaskStatus) -> None:
    if status.error:
        raise CommandError(status.error.message)
    report = status.result
    assert report is not None, "completed"
    if session.output.as_json:
        session.output.record(report)
    else:
        _print_report(session, repository, report)
    if report.failed.count:
        raise Incomplete(
            f"{report.failed.count} objects could not be deleted, see above: try again"
        )


def _objects(report: PurgeOutcome) -> str:
    return f"{report.objects} objects ({size(report.bytes)})"


def _deleted(report: PurgeOutcome) -> str:
    return f"{report.deleted} of {_objects(report)} were deleted"


def _print_report(session: Session, repository: RepositoryUri, report: PurgeOutcome) -> None:
    what = _objects(report)
    if report.dry_run and not report.objects:
        session.output.done(f"No objects of {repository} found in any commit")
    elif report.dry_run:
        session.output.done(
            f"{what} of {repository} would be deleted from all commits. Nothing was changed: to"
            " delete, add --confirm and --reason."
        )
    else:
        session.output.done(
            f"{report.deleted} of {what} of {repository} were deleted from all commits"
            f" ({report.versions} versions). The record is {report.purge_id}."
        )
    for heading, named in (
        ("Found at", report.paths),
        ("These paths share the bytes, which are deleted", report.also_at),
        ("These paths have the same checksum, but are kept (see --checksum)", report.same_content),
        ("Outside of the repository's storage, kept", report.elsewhere),
        ("Not deleted", report.failed),
    ):
        if named.count:
            warn(f"{heading} ({named.count}):")
            for each in named.first:
                warn(f"  {each}")
    if report.adoptable:
        warn(report.adoptable)
    warn("Not covered:")
    for each in report.not_reached:
        warn(f"  {each}")
