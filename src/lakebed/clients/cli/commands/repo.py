"""`lakebed repo`: repositories."""

from typing import Annotated

import typer

from lakebed.clients.cli.errors import CommandError, Incomplete
from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.options import YesOption, key_values
from lakebed.clients.cli.output import Whole, moment, stamp, warn
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.clients.cli.uris import RepositoryArgument, RepositoryUri
from lakebed.clients.http.errors import ClientError
from lakebed.wire.base import ForceQuery
from lakebed.wire.repositories import (
    CreationQuery,
    RepositoryCreation,
    RepositoryMetadataKeys,
    RepositoryMetadataSet,
)

app = new_group()
metadata = new_group("Manage metadata of a repository.")
app.add_typer(metadata, name="metadata")

NamespaceArgument = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE", help="Location of objects: local://my-repo, s3://bucket/a"),
]
DefaultBranchOption = Annotated[
    str, typer.Option("--default-branch", "-d", help="Name of the first branch")
]
ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="Refuse all changes")]


@client_command(app, "create")
def create(
    session: Session,
    repository: RepositoryArgument,
    namespace: NamespaceArgument,
    *,
    default_branch: DefaultBranchOption = "main",
    sample_data: Annotated[bool, typer.Option("--sample-data", help="Add sample objects")] = False,
    read_only: ReadOnlyOption = False,
) -> None:
    """Create a repository.

    lakebed repo create lakefs://my-repo local://my-repo
    """
    creation = RepositoryCreation(
        name=repository.repository,
        storage_namespace=namespace,
        default_branch=default_branch,
        sample_data=sample_data,
        read_only=read_only,
    )
    _create(session, repository, creation)


@client_command(app, "create-bare")
def create_bare(
    session: Session,
    repository: RepositoryArgument,
    namespace: NamespaceArgument,
    *,
    default_branch: DefaultBranchOption = "main",
    read_only: ReadOnlyOption = False,
) -> None:
    """Create a repository without branches and commits, to restore a dump into."""
    creation = RepositoryCreation(
        name=repository.repository,
        storage_namespace=namespace,
        default_branch=default_branch,
        read_only=read_only,
    )
    _create(session, repository, creation, bare=True)


def _create(
    session: Session, repository: RepositoryUri, body: RepositoryCreation, *, bare: bool = False
) -> None:
    created = session.client.repositories.create(body, CreationQuery(bare=bare))
    session.output.done(f"Created {repository} at {created.storage_namespace}", created)


@client_command(app, "list")
def list_repositories(session: Session, *, page: PageOptions) -> None:
    """List the repositories."""
    session.show_list(
        page,
        [
            ("Repository", lambda item: item.id),
            ("Created", lambda item: moment(item.creation_date)),
            ("Default branch", lambda item: item.default_branch),
            ("Storage namespace", lambda item: item.storage_namespace),
        ],
        session.client.repositories.list,
    )


@client_command(app, "delete")
def delete(
    session: Session,
    repository: RepositoryArgument,
    *,
    yes: YesOption = False,
    force: Annotated[bool, typer.Option("--force", help="Delete even if read-only")] = False,
    purge: Annotated[
        bool, typer.Option("--purge", help="Delete its data too, after a day")
    ] = False,
) -> None:
    """Delete a repository with its branches, tags and commits; objects are kept in the storage."""
    what = "all its branches, commits and data" if purge else "all its branches and commits"
    session.confirm(f"Delete {repository} with {what}?", yes=yes)
    session.client.repositories.delete(repository.repository, ForceQuery(force=force))
    if not purge:
        session.output.done(f"Deleted {repository}")
        return
    try:
        told = _purge(session, repository)
    except ClientError as error:
        raise Incomplete(f"{repository} was deleted, but its data was kept: {error}") from error
    session.output.done(f"Deleted {repository}. {told}")


@client_command(app, "purge")
def purge_left(
    session: Session,
    repository: RepositoryArgument,
    *,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Delete; without this, show the namespaces")
    ] = False,
) -> None:
    """Delete the data left by a deleted repository, a day after its deletion.

    lakebed repo purge lakefs://my-repo --confirm
    """
    if confirm:
        session.output.done(_purge(session, repository))
        return
    found = session.client.purges.left_by_repository(repository.repository).results
    if not found:
        raise CommandError(f"no deleted repository {repository.repository} has data left to purge")
    session.output.table(
        found,
        [
            ("Namespace", lambda item: item.storage_namespace),
            ("Unique id", lambda item: Whole(item.unique_id)),
            ("Requested", lambda item: stamp(item.requested)),
            ("Not before", lambda item: stamp(item.due)),
        ],
    )
    if not session.output.as_json:
        warn("Nothing was changed: to delete the data, add --confirm")


def _purge(session: Session, repository: RepositoryUri) -> str:
    """Request the deletion of a deleted repository's data; return a result sentence."""
    found = session.client.purges.purge_repository(repository.repository).results
    places = ", ".join(f"{item.storage_namespace} after {stamp(item.due)}" for item in found)
    return f"The server will delete its data: {places}. Nothing is lost before that."


@client_command(metadata, "get")
def get_metadata(session: Session, repository: RepositoryArgument) -> None:
    """Show the metadata of a repository."""
    session.output.pairs(_metadata(session, repository))


def _metadata(session: Session, repository: RepositoryUri) -> dict[str, str]:
    return session.client.repositories.metadata(repository.repository)


@client_command(metadata, "set")
def set_metadata(
    session: Session,
    repository: RepositoryArgument,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="Metadata to set")],
) -> None:
    """Set metadata of a repository; other names are unchanged.

    lakebed repo metadata set lakefs://my-repo owner=ada
    """
    values = key_values(pairs)
    body = RepositoryMetadataSet(metadata=values)
    session.client.repositories.set_metadata(repository.repository, body)
    session.output.done(f"Set {', '.join(values)} of {repository}", values)


@client_command(metadata, "delete")
def delete_metadata(
    session: Session,
    repository: RepositoryArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names to delete")],
) -> None:
    """Delete metadata of a repository by name."""
    missing = sorted(set(names) - set(_metadata(session, repository)))
    if missing:
        raise CommandError(
            f"{repository} has no metadata {', '.join(missing)}: nothing was changed"
        )
    body = RepositoryMetadataKeys(keys=names)
    session.client.repositories.delete_metadata(repository.repository, body)
    session.output.done(f"Deleted {', '.join(names)} of {repository}")
