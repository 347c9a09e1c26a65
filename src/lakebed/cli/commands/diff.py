"""`lakebed diff`."""

from typing import Annotated

import typer

from lakebed.cli.differences import compare, difference_line
from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument, RefUri, parse_ref, same_repository
from lakebed.client.errors import Misuse
from lakebed.client.paging import list_items

app = new_app()


@client_command(app, "diff")
def diff(
    session: Session,
    ref: RefArgument,
    other: Annotated[
        RefUri | None,
        typer.Argument(parser=parse_ref, metavar="[REF]", help="What to compare it with."),
    ] = None,
    *,
    two_way: Annotated[
        bool, typer.Option("--two-way", help="Compare the two refs as they are now.")
    ] = False,
) -> None:
    """Show what is not committed on a branch; of two refs, what merging the second would change.

    lakebed diff lakefs://my-repo/main lakefs://my-repo/dev
    """
    if other is not None:
        repository = same_repository(ref, other)
        found = compare(session.client, repository, ref.ref, other.ref, two_way=two_way)
    elif two_way:
        raise Misuse("--two-way compares two refs, and one was given")
    else:
        found = list_items(
            session.client, "repositories", ref.repository, "branches", ref.ref, "diff"
        )
    session.output.lines(found, difference_line())
