"""`lakebed tag`, `refs-dump` and `refs-restore`: tags, and dumps of all refs."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from lakebed.cli.errors import CommandError
from lakebed.cli.groups import new_app, new_group
from lakebed.cli.options import YesOption
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument, RepositoryArgument, TagArgument, same_repository
from lakebed.client.paging import list_items

tag_app = new_group()
dump_app = new_app()
restore_app = new_app()


@client_command(tag_app, "create")
def create_tag(session: Session, tag: TagArgument, ref: RefArgument) -> None:
    """Name a commit for good.

    lakebed tag create lakefs://my-repo/v1 lakefs://my-repo/main
    """
    repository = same_repository(tag, ref)
    made = session.client.call(
        "POST", "repositories", repository, "tags", body={"id": tag.ref, "ref": ref.ref}
    )
    session.output.done(f"Created {tag} at {made['commit_id']}", made)


@client_command(tag_app, "list")
def list_tags(session: Session, repository: RepositoryArgument) -> None:
    """List the tags of a repository."""
    session.output.table(
        list_items(session.client, "repositories", repository.repository, "tags"),
        [("Tag", lambda item: item["id"]), ("Commit", lambda item: item["commit_id"])],
    )


@client_command(tag_app, "show")
def show_tag(session: Session, tag: TagArgument) -> None:
    """Show the commit that a tag names."""
    session.output.record(session.client.get("repositories", tag.repository, "tags", tag.ref))


@client_command(tag_app, "delete")
def delete_tag(session: Session, tag: TagArgument, *, yes: YesOption = False) -> None:
    """Delete a tag; its commit stays."""
    session.confirm(f"Delete the tag {tag}?", yes=yes)
    session.client.call("DELETE", "repositories", tag.repository, "tags", tag.ref)
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
        body=_read_manifest(manifest),
    )
    session.output.done(f"Restored the refs of {repository}")


def _read_manifest(file: Path) -> Any:
    text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise CommandError(f"{file} is not JSON, expected what refs-dump prints") from None
