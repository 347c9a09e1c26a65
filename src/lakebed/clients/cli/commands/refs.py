"""`lakebed tag`, `refs-dump` and `refs-restore`: tags, and dumps of all refs."""

from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import typer

from lakebed.clients.cli.groups import new_app, new_group
from lakebed.clients.cli.options import SkipHooksOption, YesOption, read_json
from lakebed.clients.cli.output import CommitId
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.clients.cli.uris import RefArgument, RepositoryArgument, TagArgument, same_repository
from lakebed.clients.http.errors import Refused
from lakebed.wire.base import ForceSkipQuery, SkipQuery
from lakebed.wire.refs import TagCreation
from lakebed.wire.repositories import RefsDump

tag_app = new_group()
dump_app = new_app()
restore_app = new_app()


@client_command(tag_app, "create")
def create_tag(
    session: Session,
    tag: TagArgument,
    ref: RefArgument,
    *,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace an existing tag")] = False,
    skip_hooks: SkipHooksOption = False,
) -> None:
    """Create a tag for a commit.

    lakebed tag create lakefs://my-repo/v1 lakefs://my-repo/main
    """
    client, repository = session.client, same_repository(tag, ref)
    body, query = TagCreation(id=tag.ref, ref=ref.ref), SkipQuery(skip_hooks=skip_hooks)
    try:
        made = client.tags.create(repository, body, query)
    except Refused as error:
        if not force or error.status != HTTPStatus.CONFLICT:
            raise
        # Resolved before the old tag is deleted.
        body.ref = client.commits.get(repository, ref.ref).id
        client.tags.delete(repository, tag.ref, ForceSkipQuery(skip_hooks=skip_hooks))
        made = client.tags.create(repository, body, query)
    session.output.done(f"Created {tag} at {made.commit_id}", made)


@client_command(tag_app, "list")
def list_tags(session: Session, repository: RepositoryArgument, *, page: PageOptions) -> None:
    """List the tags of a repository."""
    session.show_list(
        page,
        [("Tag", lambda item: item.id), ("Commit", lambda item: CommitId(item.commit_id))],
        session.client.tags.list,
        repository.repository,
    )


@client_command(tag_app, "show")
def show_tag(session: Session, tag: TagArgument) -> None:
    """Show the commit of a tag."""
    session.output.record(session.client.tags.get(tag.repository, tag.ref))


@client_command(tag_app, "delete")
def delete_tag(
    session: Session,
    tag: TagArgument,
    *,
    skip_hooks: SkipHooksOption = False,
    yes: YesOption = False,
) -> None:
    """Delete a tag; its commit is kept."""
    session.confirm(f"Delete the tag {tag}?", yes=yes)
    query = ForceSkipQuery(skip_hooks=skip_hooks)
    session.client.tags.delete(tag.repository, tag.ref, query)
    session.output.done(f"Deleted {tag}")


@client_command(dump_app, "refs-dump")
def refs_dump(session: Session, repository: RepositoryArgument) -> None:
    """Dump branches, tags and commits into the storage, and print the location.

    lakebed refs-dump lakefs://my-repo > refs.json
    """
    session.output.as_json = True
    session.output.record(session.client.repositories.dump(repository.repository))


@client_command(restore_app, "refs-restore")
def refs_restore(
    session: Session,
    repository: RepositoryArgument,
    *,
    manifest: Annotated[Path, typer.Option(metavar="FILE", help="Output of refs-dump; - is stdin")],
) -> None:
    """Restore branches, tags and commits into a bare repository with the same data."""
    dump = read_json(manifest, RefsDump, "the output of refs-dump")
    session.client.repositories.restore(repository.repository, dump)
    session.output.done(f"Restored the refs of {repository}")
