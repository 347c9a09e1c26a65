"""`lakebed pr`: pull requests."""

from typing import Annotated, Literal

import typer

from lakebed.clients.cli.groups import new_group
from lakebed.clients.cli.output import Whole, printable, warn
from lakebed.clients.cli.session import PageOptions, Session, client_command
from lakebed.clients.cli.uris import BranchArgument, RepositoryArgument, same_repository
from lakebed.clients.http.errors import Refused
from lakebed.wire.pulls import PullMergeQuery, PullRequestBasic, PullRequestCreation, PullsQuery

app = new_group()

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a pull request, see `pr list`")
]


@client_command(app, "create")
def create(
    session: Session,
    source: BranchArgument,
    destination: BranchArgument,
    *,
    title: Annotated[str, typer.Option("--title", "-t", help="Summary, in one line")],
    description: Annotated[
        str, typer.Option("--description", "-d", help="Description for reviewers")
    ] = "",
) -> None:
    """Create a pull request to merge a branch into another.

    lakebed pr create lakefs://my-repo/dev lakefs://my-repo/main --title "New lakes"
    """
    body = PullRequestCreation(
        title=title,
        description=description,
        source_branch=source.ref,
        destination_branch=destination.ref,
    )
    made = session.client.pulls.create(same_repository(source, destination), body)
    session.output.done(f"Created pull request {made.id}", made)


@client_command(app, "list")
def list_pulls(
    session: Session,
    repository: RepositoryArgument,
    *,
    status: Annotated[
        Literal["open", "closed", "all"], typer.Option(help="Status; merged counts as closed")
    ] = "open",
    page: PageOptions,
) -> None:
    """List the pull requests of a repository, newest first."""
    session.show_list(
        page,
        [
            ("Id", lambda item: Whole(item.id)),
            ("Status", lambda item: item.status),
            ("From", lambda item: item.source_branch),
            ("Into", lambda item: item.destination_branch),
            ("Author", lambda item: item.author),
            ("Title", lambda item: item.title),
        ],
        session.client.pulls.list,
        repository.repository,
        PullsQuery(status=status),
    )


@client_command(app, "show")
def show(session: Session, repository: RepositoryArgument, pull_request: IdArgument) -> None:
    """Show a pull request, and whether it can be merged."""
    session.output.record(session.client.pulls.get(repository.repository, pull_request))


@client_command(app, "merge")
def merge(
    session: Session,
    repository: RepositoryArgument,
    pull_request: IdArgument,
    *,
    delete_source: Annotated[
        bool, typer.Option("--delete-source", help="Delete the source branch if completely merged")
    ] = False,
) -> None:
    """Merge a pull request.

    lakebed pr merge lakefs://my-repo 4pi3sa85p80htbg1mll0 --delete-source
    """
    try:
        merged = session.client.pulls.merge(
            repository.repository, pull_request, PullMergeQuery(delete_source=delete_source)
        )
    except Refused as error:
        for path in error.body.conflicts:
            warn(f"conflict: {printable(path)}")
        raise
    if delete_source and not merged.source_deleted:
        warn(f"The source branch was kept: {merged.source_kept_because}")
    session.output.done(f"Merged pull request {pull_request}: {merged.reference}", merged)


@client_command(app, "close")
def close(session: Session, repository: RepositoryArgument, pull_request: IdArgument) -> None:
    """Close a pull request without merging it."""
    body = PullRequestBasic(status="closed")
    session.client.pulls.update(repository.repository, pull_request, body)
    session.output.done(f"Closed pull request {pull_request}")
