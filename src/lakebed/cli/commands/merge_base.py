"""`lakebed merge-base`."""

from typing import Annotated

import typer

from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument, RefUri, parse_ref, same_repository

app = new_app()


@client_command(app, "merge-base")
def merge_base(
    session: Session,
    ref: RefArgument,
    other: Annotated[
        RefUri, typer.Argument(parser=parse_ref, metavar="REF", help="The other side.")
    ],
) -> None:
    """Find the last common commit.

    lakebed merge-base lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(ref, other)
    session.output.record(
        session.client.get("repositories", repository, "refs", ref.ref, "merge", other.ref)
    )
