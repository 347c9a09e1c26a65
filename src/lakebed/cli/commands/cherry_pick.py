"""`lakebed cherry-pick`."""

from typing import Annotated

import typer

from lakebed.cli.groups import new_app
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import BranchArgument, RefArgument, same_repository

app = new_app()


@client_command(app, "cherry-pick")
def cherry_pick(
    session: Session,
    commit: RefArgument,
    branch: BranchArgument,
    *,
    parent: Annotated[
        int | None,
        typer.Option(
            "--parent-number", "-m", min=1, help="Of a merge: the parent to compare it with."
        ),
    ] = None,
) -> None:
    """Apply one commit to a branch.

    lakebed cherry-pick lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(commit, branch)
    body: dict[str, str | int] = {"ref": commit.ref}
    if parent is not None:
        body["parent_number"] = parent
    made = session.client.call(
        "POST", "repositories", repository, "branches", branch.ref, "cherry-pick", body=body
    )
    session.output.done(f"Committed {made['id']} to {branch}", made)
