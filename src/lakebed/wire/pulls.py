"""Pull requests."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from lakebed.wire.base import ForceQuery, Page, PageQuery, Wire
from lakebed.wire.calls import Resource, call
from lakebed.wire.refs import MergeResult


class PullsQuery(PageQuery):
    status: Annotated[str, Meta(description="open, closed (or merged), all")] = "all"


class PullMergeQuery(ForceQuery):
    delete_source: Annotated[bool, Meta(description="delete the source branch if fully merged")] = (
        False
    )


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
    # Extensions of Lakebed; omitted in lists.
    source_commit_id: str | None = None
    destination_commit_id: str | None = None
    mergeable: bool | None = None
    conflicts: int | None = None
    not_mergeable_because: str = ""
    merging: bool = False


class PullMergeResult(MergeResult):
    source_deleted: bool | None = None
    source_kept_because: str = ""


class PullsAPI(Resource, tag="pulls", path="/repositories/{repository}/pulls"):
    """Pull requests."""

    @call("listPullRequests", "GET", "")
    def list(self, repository: str, query: PullsQuery | None = None) -> Page[PullRequest]: ...

    @call("createPullRequest", "POST", "", status=201)
    def create(self, repository: str, body: PullRequestCreation) -> PullRequestCreationResponse: ...

    @call("getPullRequest", "GET", "/{pull_request}")
    def get(self, repository: str, pull_request: str) -> PullRequest: ...

    @call("updatePullRequest", "PATCH", "/{pull_request}", status=204, statuses=(409,))
    def update(self, repository: str, pull_request: str, body: PullRequestBasic) -> None: ...

    @call("mergePullRequest", "PUT", "/{pull_request}/merge", statuses=(403, 409, 412))
    def merge(
        self, repository: str, pull_request: str, query: PullMergeQuery | None = None
    ) -> PullMergeResult: ...
