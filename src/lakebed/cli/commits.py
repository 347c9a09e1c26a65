"""Commits as people read them."""

from typing import Any

from lakebed.cli.output import Item, moment, printable
from lakebed.cli.uris import RefUri
from lakebed.client.errors import CommandError
from lakebed.client.http import Client


def commit_at(client: Client, uri: RefUri) -> dict[str, Any]:
    """The commit that a ref stands for.

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


def commit_text(commit: Item) -> str:
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
