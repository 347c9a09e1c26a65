"""`lakebed merge`."""

from itertools import islice
from typing import Annotated, Any, Final, Literal

import typer

from lakebed.cli.differences import compare
from lakebed.cli.groups import new_app
from lakebed.cli.options import MetaOption, key_values
from lakebed.cli.output import warn
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import BranchArgument, RefArgument, RefUri, same_repository
from lakebed.client.errors import CommandError, Refused

app = new_app()

_CONFLICT: Final = 409
_CONFLICTS_SHOWN_MAX: Final = 1000


@client_command(app, "merge")
def merge(
    session: Session,
    source: RefArgument,
    destination: BranchArgument,
    *,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The message of the merge commit.")
    ] = None,
    meta: MetaOption = None,
    strategy: Annotated[
        Literal["source-wins", "dest-wins"] | None,
        typer.Option(help="Who is right where both sides changed an object."),
    ] = None,
    squash: Annotated[
        bool, typer.Option("--squash", help="Do not name the source as a parent.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Commit even if nothing changes.")
    ] = False,
) -> None:
    """Merge a ref into a branch.

    lakebed merge lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(source, destination)
    body = {
        "message": message,
        "metadata": key_values(meta),
        "strategy": strategy,
        "squash_merge": squash,
        "allow_empty": allow_empty,
    }
    try:
        merged = session.client.call(
            "POST",
            "repositories",
            repository,
            "refs",
            source.ref,
            "merge",
            destination.ref,
            body={name: value for name, value in body.items() if value is not None},
        )
    except Refused as error:
        if error.status == _CONFLICT:
            _explain_conflict(session, source, destination)
        raise
    session.output.done(f"Merged {source} into {destination}: {merged['reference']}", merged)


def _explain_conflict(session: Session, source: RefUri, destination: RefUri) -> None:
    """Name what stands in the way of a merge, if it is objects.

    Raises:
        CommandError: It is.
    """
    changes = compare(session.client, source.repository, destination.ref, source.ref)
    conflicts = (change for change in changes if change["type"] == "conflict")
    found: list[dict[str, Any]] = list(islice(conflicts, _CONFLICTS_SHOWN_MAX))
    if not found:
        return
    if session.output.as_json:
        session.output.record({"conflicts": [change["path"] for change in found]})
    for change in found:
        warn(f"conflict: {change['path']}")
    more = " or more" if len(found) == _CONFLICTS_SHOWN_MAX else ""
    raise CommandError(
        f"{source} and {destination} both changed {len(found)}{more} object(s), nothing was"
        " merged: pass --strategy source-wins or dest-wins, or make them equal first"
    )
