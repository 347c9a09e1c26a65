"""`lakebed commit`."""

from typing import Annotated

import typer

from lakebed.cli.groups import new_app
from lakebed.cli.options import MetaOption, key_values
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import BranchArgument

app = new_app()


@client_command(app, "commit")
def commit(
    session: Session,
    branch: BranchArgument,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What was done, and why.")],
    meta: MetaOption = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Commit even if nothing changed.")
    ] = False,
) -> None:
    """Commit what is staged on a branch.

    lakebed commit lakefs://my-repo/main -m "New data"
    """
    body = {"message": message, "metadata": key_values(meta), "allow_empty": allow_empty}
    made = session.client.call(
        "POST",
        "repositories",
        branch.repository,
        "branches",
        branch.ref,
        "commits",
        body=body,
    )
    session.output.done(f"Committed {made['id']} to {branch}", made)
