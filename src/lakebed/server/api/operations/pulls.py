"""Pull requests: proposals to merge one branch into another."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from lakebed.catalog.commits import DEFAULT_STRATEGY, STRATEGY_KEY, default_message
from lakebed.catalog.errors import MergeConflict
from lakebed.catalog.nouns import BranchID, MergeRequest, RepositoryID
from lakebed.catalog.pulls.model import PullRequest as Pull
from lakebed.catalog.pulls.model import PullStatus, check_pull_id
from lakebed.server.api.models import ForceQuery, MergeResult, Page, PageQuery, Wire, first_page
from lakebed.server.api.operations.commits import conflict_body
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Need, Reply, Routes

routes = Routes("pulls")

_PULLS: Final = "/repositories/{repository}/pulls"
_ONE: Final = f"{_PULLS}/{{pull_request}}"
_IS_OPEN: Final = {"all": None, "open": True, "closed": False}


def _pr(action: str) -> Need:
    return Need(f"pr:{action}", "arn:lakefs:fs:::repository/{repository}")


class PullsQuery(PageQuery):
    status: Annotated[str, Meta(description="open, closed (or merged), all")] = "all"


class PullMergeQuery(ForceQuery):
    delete_source: Annotated[
        bool, Meta(description="delete the source branch, if all that is on it was merged")
    ] = False


class PullRequestCreation(Wire):
    title: str
    source_branch: str
    destination_branch: str
    description: str = ""


class PullRequestCreationResponse(Wire):
    id: str


class PullRequestBasic(Wire):
    status: str | None = None
    title: str | None = None
    description: str | None = None


class PullRequest(Wire):
    status: str
    title: str
    description: str
    id: str
    creation_date: datetime
    author: str
    source_branch: str
    destination_branch: str
    merged_commit_id: str | None = None
    closed_date: datetime | None = None
    # What follows is our own; a list does not have it.
    source_commit_id: str | None = None
    destination_commit_id: str | None = None
    mergeable: bool | None = None
    conflicts: int | None = None
    not_mergeable_because: str = ""
    merging: bool = False


class PullMergeResult(MergeResult):
    source_deleted: bool | None = None
    source_kept_because: str = ""


def _listed(pull: Pull) -> PullRequest:
    """Return a pull request as lists show it. Clients insist on a description: it is empty."""
    return PullRequest(
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


@routes.add("listPullRequests", "GET", _PULLS, _pr("ListPullRequests"))
def list_pulls(
    request: ApiRequest, repository: RepositoryID, query: PullsQuery
) -> Page[PullRequest]:
    """List the pull requests of a repository, the newest first."""
    status = one_of(query.status, _IS_OPEN, "status")
    found = request.catalog.pulls.list(
        repository, prefix=query.prefix, after=query.after, is_open=_IS_OPEN[status]
    )
    return first_page(found, query, wire=_listed, name=lambda pull: pull.id)


@routes.add("createPullRequest", "POST", _PULLS, _pr("WritePullRequest"), status=201)
def create_pull(
    request: ApiRequest, repository: RepositoryID, body: PullRequestCreation
) -> PullRequestCreationResponse:
    """Propose to merge one branch into another."""
    pull_id = request.catalog.pulls.create(
        repository,
        source=BranchID(body.source_branch),
        destination=BranchID(body.destination_branch),
        title=body.title,
        description=body.description,
        author=request.identity.committer,
    )
    return PullRequestCreationResponse(id=pull_id)


@routes.add("getPullRequest", "GET", _ONE, _pr("ReadPullRequest"))
def get_pull(request: ApiRequest, repository: RepositoryID, pull_request: str) -> PullRequest:
    """Return a pull request, with what a merge would find now."""
    pulls = request.catalog.pulls
    pull = pulls.get(repository, check_pull_id(pull_request))
    outlook = pulls.outlook(repository, pull)
    found = _listed(pull)
    found.description = pull.description
    found.merged_commit_id = pull.merged_commit_id
    found.merging = pull.is_merging
    found.source_commit_id = outlook.source_commit_id
    found.destination_commit_id = outlook.destination_commit_id
    found.mergeable = outlook.mergeable
    found.conflicts = outlook.conflicts
    found.not_mergeable_because = outlook.hindrance
    return found


@routes.add(
    "updatePullRequest", "PATCH", _ONE, _pr("WritePullRequest"), status=204, statuses=(409,)
)
def update_pull(
    request: ApiRequest, repository: RepositoryID, pull_request: str, body: PullRequestBasic
) -> None:
    """Change the title or the description of a pull request, close it, or open it again."""
    status = None if body.status is None else one_of(body.status, PullStatus, "status")
    request.catalog.pulls.update(
        repository,
        check_pull_id(pull_request),
        title=body.title,
        description=body.description,
        status=None if status is None else PullStatus(status),
    )


@routes.add(
    "mergePullRequest",
    "PUT",
    f"{_ONE}/merge",
    _pr("WritePullRequest"),
    statuses=(403, 409, 412),
    answer=PullMergeResult,
)
def merge_pull(
    request: ApiRequest, repository: RepositoryID, pull_request: str, query: PullMergeQuery
) -> Reply:
    """Merge a pull request; whoever does it may commit to the destination."""
    pulls = request.catalog.pulls
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
    answer = PullMergeResult(reference=merged)
    if query.delete_source:
        kept = pulls.delete_source(repository, pull.id)
        answer.source_deleted, answer.source_kept_because = kept is None, kept or ""
    return Reply(body=answer)
