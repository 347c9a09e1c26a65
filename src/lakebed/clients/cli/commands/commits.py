"""`lakebed commit`, `show` and `cherry-pick`: commits."""

import sys
from typing import Annotated

import typer

from lakebed.clients.cli.commands.history import commit_text
from lakebed.clients.cli.errors import CommandError, InvalidArguments
from lakebed.clients.cli.groups import new_app, new_group
from lakebed.clients.cli.options import AllowEmptyOption, MetaOption, SkipHooksOption, key_values
from lakebed.clients.cli.session import Session, client_command
from lakebed.clients.cli.uris import BranchArgument, RefArgument, same_repository
from lakebed.wire.base import SkipQuery
from lakebed.wire.refs import CherryPickCreation, CommitCreation, CommitQuery, LogCommitsQuery

commit_app = new_app()
show_app = new_group()
cherry_pick_app = new_app()


@client_command(commit_app, "commit")
def commit(
    session: Session,
    branch: BranchArgument,
    *,
    message: Annotated[str, typer.Option("--message", "-m", help="Commit message")],
    meta: MetaOption = None,
    allow_empty: AllowEmptyOption = False,
    allow_empty_message: Annotated[
        bool, typer.Option("--allow-empty-message", help="Commit even with an empty message")
    ] = False,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Commit the staged changes of a branch.

    lakebed commit lakefs://my-repo/main -m "New data"
    """
    if not message.strip() and not allow_empty_message:
        raise InvalidArguments(
            "the commit message is empty: describe the change, or pass --allow-empty-message"
        )
    body = CommitCreation(message=message, metadata=key_values(meta), allow_empty=allow_empty)
    query = CommitQuery(skip_hooks=skip_hooks)
    made = session.client.commits.create(branch.repository, branch.ref, body, query)
    session.output.done(f"Committed {made.id} to {branch}", made)


@client_command(show_app, "commit")
def show_commit(session: Session, ref: RefArgument) -> None:
    """Show the commit at a ref.

    lakebed show commit lakefs://my-repo/main~1
    """
    query = LogCommitsQuery(amount=1, limit_only=True)
    page = session.client.refs.log(ref.repository, ref.ref, query)
    if not page.results:
        raise CommandError(f"no commit at {ref}")
    found = page.results[0]
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
            "--parent-number",
            "-m",
            min=1,
            help="For a merge commit, the parent number to diff against",
        ),
    ] = None,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Apply the changes of one commit to a branch.

    lakebed cherry-pick lakefs://my-repo/dev lakefs://my-repo/main
    """
    repository = same_repository(commit, branch)
    body = CherryPickCreation(ref=commit.ref, parent_number=parent)
    query = SkipQuery(skip_hooks=skip_hooks)
    made = session.client.branches.cherry_pick(repository, branch.ref, body, query)
    session.output.done(f"Committed {made.id} to {branch}", made)
