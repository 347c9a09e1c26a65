"""`lakebed log`."""

from datetime import datetime
from typing import Annotated

import typer

from lakebed.cli.commits import commit_text
from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument
from lakebed.client.errors import Misuse
from lakebed.client.paging import list_items

app = new_app()


@client_command(app, "log")
def log(
    session: Session,
    ref: RefArgument,
    *,
    amount: Annotated[int | None, typer.Option(min=1, help="At most so many commits.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only later ones: 2026-01-31 or 2026-01-31T12:00:00Z"),
    ] = None,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Of merges, follow the first parent only.")
    ] = False,
    objects: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="Only commits that changed this.")
    ] = None,
    prefixes: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX", help="Only commits that changed something below this."),
    ] = None,
) -> None:
    """Show the commits behind a ref, newest first.

    lakebed log lakefs://my-repo/main
    """
    query = {
        "since": _moment(since),
        "first_parent": first_parent or None,
        "objects": objects or None,
        "prefixes": prefixes or None,
    }
    commits = list_items(
        session.client,
        "repositories",
        ref.repository,
        "refs",
        ref.ref,
        "commits",
        query=query,
        limit=amount,
    )
    session.output.lines(commits, commit_text)


def _moment(text: str | None) -> str | None:
    """A time as the API wants it; without a zone it is meant where the reader is.

    Raises:
        Misuse: It is no time.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise Misuse(f"{text!r} is not a time, expected for example 2026-01-31T12:00:00Z") from None
