"""`lakebed repo`: repositories."""

from typing import Annotated

import typer

from lakebed.cli.groups import new_group
from lakebed.cli.options import YesOption, key_values
from lakebed.cli.output import moment
from lakebed.cli.session import Session, client_command
from lakebed.cli.uris import RepositoryArgument, RepositoryUri
from lakebed.client.paging import list_items

app = new_group()
metadata = new_group("Notes on a repository.")
app.add_typer(metadata, name="metadata")

NamespaceArgument = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE", help="Where its data is: local://my-repo, s3://bucket/a"),
]
DefaultBranchOption = Annotated[
    str, typer.Option("--default-branch", "-d", help="The branch it begins with.")
]
ReadOnlyOption = Annotated[bool, typer.Option("--read-only", help="Nobody may change it.")]


@client_command(app, "create")
def create(
    session: Session,
    repository: RepositoryArgument,
    namespace: NamespaceArgument,
    *,
    default_branch: DefaultBranchOption = "main",
    sample_data: Annotated[
        bool, typer.Option("--sample-data", help="Put something in it to play with.")
    ] = False,
    read_only: ReadOnlyOption = False,
) -> None:
    """Create a repository.

    lakebed repo create lakefs://my-repo local://my-repo
    """
    _create(
        session,
        repository,
        bare=False,
        body={
            "storage_namespace": namespace,
            "default_branch": default_branch,
            "sample_data": sample_data,
            "read_only": read_only,
        },
    )


@client_command(app, "create-bare")
def create_bare(
    session: Session,
    repository: RepositoryArgument,
    namespace: NamespaceArgument,
    *,
    default_branch: DefaultBranchOption = "main",
    read_only: ReadOnlyOption = False,
) -> None:
    """Create a repository without a branch or a commit, to restore one into."""
    _create(
        session,
        repository,
        bare=True,
        body={
            "storage_namespace": namespace,
            "default_branch": default_branch,
            "read_only": read_only,
        },
    )


def _create(
    session: Session, repository: RepositoryUri, *, bare: bool, body: dict[str, object]
) -> None:
    created = session.client.call(
        "POST",
        "repositories",
        query={"bare": bare},
        body={"name": repository.repository, **body},
    )
    session.output.done(f"Created {repository} at {created['storage_namespace']}", created)


@client_command(app, "list")
def list_repositories(session: Session) -> None:
    """List the repositories."""
    session.output.table(
        list_items(session.client, "repositories"),
        [
            ("Repository", lambda item: item["id"]),
            ("Created", lambda item: moment(item["creation_date"])),
            ("Default branch", lambda item: item["default_branch"]),
            ("Storage namespace", lambda item: item["storage_namespace"]),
        ],
    )


@client_command(app, "delete")
def delete(
    session: Session,
    repository: RepositoryArgument,
    *,
    yes: YesOption = False,
    force: Annotated[bool, typer.Option("--force", help="Even if it is read-only.")] = False,
) -> None:
    """Delete a repository, with its branches, tags and commits."""
    session.confirm(f"Delete {repository} with all its branches and commits?", yes=yes)
    session.client.call(
        "DELETE", "repositories", repository.repository, query={"force": force or None}
    )
    session.output.done(f"Deleted {repository}")


@client_command(metadata, "get")
def get_metadata(session: Session, repository: RepositoryArgument) -> None:
    """Show the metadata of a repository."""
    session.output.record(
        session.client.get("repositories", repository.repository, "metadata") or {}
    )


@client_command(metadata, "set")
def set_metadata(
    session: Session,
    repository: RepositoryArgument,
    pairs: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", help="What to set.")],
) -> None:
    """Set metadata of a repository, other names stay.

    lakebed repo metadata set lakefs://my-repo owner=ada
    """
    values = key_values(pairs)
    session.client.call(
        "POST", "repositories", repository.repository, "metadata", body={"metadata": values}
    )
    session.output.done(f"Set {', '.join(values)} of {repository}", values)


@client_command(metadata, "delete")
def delete_metadata(
    session: Session,
    repository: RepositoryArgument,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="What to delete.")],
) -> None:
    """Delete metadata of a repository by name."""
    session.client.call(
        "DELETE", "repositories", repository.repository, "metadata", body={"keys": names}
    )
    session.output.done(f"Deleted {', '.join(names)} of {repository}")
