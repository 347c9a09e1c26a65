"""`lakebed tag`: tags."""

from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RefArgument, RepositoryArgument, TagArgument, same_repository
from lakebed.client.paging import list_items

app = new_group()


@client_command(app, "create")
def create(session: Session, tag: TagArgument, ref: RefArgument) -> None:
    """Name a commit for good.

    lakebed tag create lakefs://my-repo/v1 lakefs://my-repo/main
    """
    repository = same_repository(tag, ref)
    made = session.client.call(
        "POST", "repositories", repository, "tags", body={"id": tag.ref, "ref": ref.ref}
    )
    session.output.done(f"Created {tag} at {made['commit_id']}", made)


@client_command(app, "list")
def list_tags(session: Session, repository: RepositoryArgument) -> None:
    """List the tags of a repository."""
    session.output.table(
        list_items(session.client, "repositories", repository.repository, "tags"),
        [("Tag", lambda item: item["id"]), ("Commit", lambda item: item["commit_id"])],
    )


@client_command(app, "show")
def show(session: Session, tag: TagArgument) -> None:
    """Show the commit that a tag names."""
    session.output.record(session.client.get("repositories", tag.repository, "tags", tag.ref))


@client_command(app, "delete")
def delete(session: Session, tag: TagArgument, *, yes: YesOption = False) -> None:
    """Delete a tag; its commit stays."""
    session.confirm(f"Delete the tag {tag}?", yes=yes)
    session.client.call("DELETE", "repositories", tag.repository, "tags", tag.ref)
    session.output.done(f"Deleted {tag}")
