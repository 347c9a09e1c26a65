"""`lakebed commit`, `show` and `cherry-pick`: commits."""

import sys
from typing import Annotated, Any

import typer

from lakebed.cli.commands.history import commit_text
from lakebed.cli.errors import CommandError, Misuse
from lakebed.cli.groups import new_app, new_group
from lakebed.cli.options import MetaOption, SkipHooksOption, key_values, skip_query
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import BranchArgument, RefArgument, RefUri, same_repository
from lakebed.client.http import Client

commit_app = new_app()
show_app = new_group()
cherry_pick_app = new_app()


@client_command(commit_app, "commit")
def commit(
    session: Session,
    branch: BranchArgument,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="What was done, and why.")],
    meta: MetaOption = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Commit even if nothing changed.")
    ] = False,
    allow_empty_message: Annotated[
        bool, typer.Option("--allow-empty-message", help="Commit even if the message says nothing.")
    ] = False,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Commit what is staged on a branch.

    lakebed commit lakefs://my-repo/main -m "New data"
    """
    if not message.strip() and not allow_empty_message:
        raise Misuse("the message is empty: say what was done, or give --allow-empty-message")
    body = {"message": message, "metadata": key_values(meta), "allow_empty": allow_empty}
    made = session.client.call(
        "POST",
        "repositories",
        branch.repository,
        "branches",
        branch.ref,
        "commits",
        body=body,
        query=skip_query(skip_hooks=skip_hooks),
    )
    session.output.done(f"Committed {made['id']} to {branch}", made)


@client_command(show_app, "commit")
def show_commit(session: Session, ref: RefArgument) -> None:
    """Show the commit at a ref.

    lakebed show commit lakefs://my-repo/main~1
    """
    found = _commit_at(session.client, ref)
    if session.output.as_json or not sys.stdout.isatty():
        session.output.record(found)
    else:
        print(commit_text(found))


@client_command(cherry_pick_app, "cherry-pick")
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
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Apply one commit to a branch.

    lakebed cherry-pick lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(commit, branch)
    body: dict[str, str | int] = {"ref": commit.ref}
    if parent is not None:
        body["parent_number"] = parent
    made = session.client.call(
        "POST",
        "repositories",
        repository,
        "branches",
        branch.ref,
        "cherry-pick",
        body=body,
        query=skip_query(skip_hooks=skip_hooks),
    )
    session.output.done(f"Committed {made['id']} to {branch}", made)


def _commit_at(client: Client, uri: RefUri) -> dict[str, Any]:
    """Return the commit at a ref.

    Raises:
        CommandError: There is none, as on a branch of a bare repository.
    """
    page = client.get(
        "repositories",
        uri.repository,
        "refs",
        uri.ref,
        "commits",
        query={"amount": 1, "limit": True},
    )
    if not page["results"]:
        raise CommandError(f"there is no commit at {uri}")
    commit: dict[str, Any] = page["results"][0]
    return commit
