"""`lakebed tag`, `refs-dump` and `refs-restore`: tags, and dumps of all refs."""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from lakebed.cli.groups import new_app, new_group
from lakebed.cli.options import SkipHooksOption, YesOption, read_json, skip_query
from lakebed.cli.output import CommitId
from lakebed.cli.session import Page, Session, client_command
from lakebed.cli.uris import RefArgument, RepositoryArgument, TagArgument, same_repository
from lakebed.client.errors import Refused

tag_app = new_group()
dump_app = new_app()
restore_app = new_app()


@client_command(tag_app, "create")
def create_tag(
    session: Session,
    tag: TagArgument,
    ref: RefArgument,
    *,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the tag, if there is one.")
    ] = False,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Name a commit for good.

    lakebed tag create lakefs://my-repo/v1 lakefs://my-repo/main
    """
    tags = ("repositories", same_repository(tag, ref), "tags")
    body = {"id": tag.ref, "ref": ref.ref}
    query = skip_query(skip_hooks=skip_hooks)
    try:
        made = session.client.call("POST", *tags, body=body, query=query)
    except Refused as error:
        if not force or error.status != HTTPStatus.CONFLICT:
            raise
        # Before the tag goes: whether there is a commit for the new one.
        commit = session.client.get(*tags[:2], "commits", ref.ref)["id"]
        session.client.call("DELETE", *tags, tag.ref, query=query)
        made = session.client.call("POST", *tags, body={**body, "ref": commit}, query=query)
    session.output.done(f"Created {tag} at {made['commit_id']}", made)


@client_command(tag_app, "list")
def list_tags(session: Session, repository: RepositoryArgument, *, page: Page) -> None:
    """List the tags of a repository."""
    session.output.table(
        session.items(page, "repositories", repository.repository, "tags"),
        [("Tag", lambda item: item["id"]), ("Commit", lambda item: CommitId(item["commit_id"]))],
    )


@client_command(tag_app, "show")
def show_tag(session: Session, tag: TagArgument) -> None:
    """Show the commit that a tag names."""
    session.output.record(session.client.get("repositories", tag.repository, "tags", tag.ref))


@client_command(tag_app, "delete")
def delete_tag(
    session: Session,
    tag: TagArgument,
    *,
    skip_hooks: SkipHooksOption = False,
    yes: YesOption = False,
) -> None:
    """Delete a tag; its commit stays."""
    session.confirm(f"Delete the tag {tag}?", yes=yes)
    session.client.call(
        "DELETE",
        "repositories",
        tag.repository,
        "tags",
        tag.ref,
        query=skip_query(skip_hooks=skip_hooks),
    )
    session.output.done(f"Deleted {tag}")


@client_command(dump_app, "refs-dump")
def refs_dump(session: Session, repository: RepositoryArgument) -> None:
    """Write down branches, tags and commits beside the data, and print where.

    lakebed refs-dump lakefs://my-repo > refs.json
    """
    session.output.as_json = True
    session.output.record(
        session.client.call("PUT", "repositories", repository.repository, "refs", "dump")
    )


@client_command(restore_app, "refs-restore")
def refs_restore(
    session: Session,
    repository: RepositoryArgument,
    *,
    manifest: Annotated[
        Path, typer.Option(metavar="FILE", help="What refs-dump printed; - is the input.")
    ],
) -> None:
    """Restore branches, tags and commits into a bare repository over the same data."""
    session.client.call(
        "PUT",
        "repositories",
        repository.repository,
        "refs",
        "restore",
        body=read_json(manifest, "what refs-dump prints"),
    )
    session.output.done(f"Restored the refs of {repository}")
