"""Pull requests: proposals to merge one branch into another."""

from typing import Final

from lakebed.engine.commits.requests import MergeRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.commits import DEFAULT_STRATEGY, STRATEGY_KEY, default_message
from lakebed.lake.errors import MergeConflict
from lakebed.lake.pulls.model import PullRequest as Pull
from lakebed.lake.pulls.model import PullStatus, check_pull_id
from lakebed.server.api.operations.commits import conflict_body
from lakebed.server.api.pages import first_page
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Need, Reply, Routes
from lakebed.wire import pulls as wire
from lakebed.wire.base import Page

routes = Routes()

_IS_OPEN: Final = {"all": None, "open": True, "closed": False}


def _pr(action: str) -> Need:
    return Need(f"pr:{action}", "arn:lakefs:fs:::repository/{repository}")


def _listed(pull: Pull) -> wire.PullRequest:
    """Return a pull request for lists, with an empty description, which clients require."""
    return wire.PullRequest(
        status=pull.status,
        title=pull.title,
        description="",
        id=pull.id,
        creation_date=pull.created,
        author=pull.author,
        source_branch=pull.source_branch,
        destination_branch=pull.destination_branch,
        closed_date=pull.closed,
    )


@routes.add(wire.PullsAPI.list, _pr("ListPullRequests"))
def list_pulls(
    request: ApiRequest, repository: RepositoryID, query: wire.PullsQuery
) -> Page[wire.PullRequest]:
    """List the pull requests of a repository, newest first."""
    status = one_of(query.status, _IS_OPEN, "status")
    found = request.services.catalog.pulls.list(
        repository, prefix=query.prefix, after=query.after, is_open=_IS_OPEN[status]
    )
    return first_page(found, query, wire=_listed, name=lambda pull: pull.id)


@routes.add(wire.PullsAPI.create, _pr("WritePullRequest"))
def create_pull(
    request: ApiRequest, repository: RepositoryID, body: wire.PullRequestCreation
) -> wire.PullRequestCreationResponse:
    """Create a pull request to merge one branch into another."""
    pull_id = request.services.catalog.pulls.create(
        repository,
        source=BranchID(body.source_branch),
        destination=BranchID(body.destination_branch),
        title=body.title,
        description=body.description,
        author=request.identity.committer,
    )
    return wire.PullRequestCreationResponse(id=pull_id)


@routes.add(wire.PullsAPI.get, _pr("ReadPullRequest"))
def get_pull(request: ApiRequest, repository: RepositoryID, pull_request: str) -> wire.PullRequest:
    """Return a pull request, with the expected result of a merge."""
    pulls = request.services.catalog.pulls
    pull = pulls.get(repository, check_pull_id(pull_request))
    mergeability = pulls.mergeability(repository, pull)
    found = _listed(pull)
    found.description = pull.description
    found.merged_commit_id = pull.merged_commit_id
    found.merging = pull.is_merging
    found.source_commit_id = mergeability.source_commit_id
    found.destination_commit_id = mergeability.destination_commit_id
    found.mergeable = mergeability.mergeable
    found.conflicts = mergeability.conflicts
    found.not_mergeable_because = mergeability.reason
    return found


@routes.add(wire.PullsAPI.update, _pr("WritePullRequest"))
def update_pull(
    request: ApiRequest, repository: RepositoryID, pull_request: str, body: wire.PullRequestBasic
) -> None:
    """Change the title or description of a pull request, close it, or reopen it."""
    status = None if body.status is None else one_of(body.status, PullStatus, "status")
    request.services.catalog.pulls.update(
        repository,
        check_pull_id(pull_request),
        title=body.title,
        description=body.description,
        status=None if status is None else PullStatus(status),
    )


@routes.add(wire.PullsAPI.merge, _pr("WritePullRequest"))
def merge_pull(
    request: ApiRequest, repository: RepositoryID, pull_request: str, query: wire.PullMergeQuery
) -> Reply:
    """Merge a pull request; requires permission to commit to the destination."""
    pulls = request.services.catalog.pulls
    pull = pulls.get(repository, check_pull_id(pull_request))
    branches = f"arn:lakefs:fs:::repository/{repository}/branch"
    request.authorize("fs:CreateCommit", f"{branches}/{pull.destination_branch}")
    if query.delete_source:
        request.authorize("fs:DeleteBranch", f"{branches}/{pull.source_branch}")
    wanted = MergeRequest(
        committer=request.identity.committer,
        message=default_message(pull.source_branch, pull.destination_branch),
        metadata={STRATEGY_KEY: DEFAULT_STRATEGY},
    )
    try:
        merged = pulls.merge(repository, pull.id, wanted)
    except MergeConflict as error:
        return Reply(status=409, body=conflict_body(error, "mergePullRequest"))
    answer = wire.PullMergeResult(reference=merged)
    if query.delete_source:
        kept = pulls.delete_source(repository, pull.id)
        answer.source_deleted, answer.source_kept_because = kept is None, kept or ""
    return Reply(body=answer)
