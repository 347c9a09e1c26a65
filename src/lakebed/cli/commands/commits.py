"""`lakebed commit`, `log`, `show` and `cherry-pick`: commits."""

from datetime import datetime
from typing import Annotated, Any

import typer

from lakebed.cli.errors import CommandError, Misuse
from lakebed.cli.groups import new_app, new_group
from lakebed.cli.options import MetaOption, key_values
from lakebed.cli.output import Item, moment, printable
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import BranchArgument, RefArgument, RefUri, same_repository
from lakebed.client.http import Client
from lakebed.client.paging import list_items

commit_app = new_app()
log_app = new_app()
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
    )
    session.output.done(f"Committed {made['id']} to {branch}", made)


@client_command(log_app, "log")
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
        "since": _parse_time(since),
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
    session.output.lines(commits, _commit_text)


def _parse_time(text: str | None) -> str | None:
    """Return a time as the API wants it; without a zone it is local time.

    Raises:
        Misuse: It is not a time.
    """
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise Misuse(f"{text!r} is not a time, expected for example 2026-01-31T12:00:00Z") from None


@client_command(show_app, "commit")
def show_commit(session: Session, ref: RefArgument) -> None:
    """Show the commit at a ref.

    lakebed show commit lakefs://my-repo/main~1
    """
    found = _commit_at(session.client, ref)
    if session.output.as_json:
        session.output.record(found)
    else:
        session.output.lines([found], _commit_text)


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


def _commit_text(commit: Item) -> str:
    """A commit as a few lines, with an empty one at the end."""
    lines = [
        f"ID:        {printable(commit['id'])}",
        f"Author:    {printable(commit['committer'])}",
        f"Date:      {moment(commit['creation_date'])}",
    ]
    if len(commit["parents"]) > 1:
        lines.append(f"Merge:     {' '.join(printable(parent) for parent in commit['parents'])}")
    lines += ["", *(f"    {printable(line)}" for line in commit["message"].splitlines())]
    metadata = commit.get("metadata") or {}
    lines += [f"        {printable(name)} = {printable(metadata[name])}" for name in metadata]
    return "\n".join([*lines, ""])
