"""Pull requests: none can be made yet, so there are none."""

from lakebed.catalog.nouns import RepositoryID
from lakebed.server.api.models import Page, PageQuery, Wire, page_of
from lakebed.server.api.request import ApiRequest
from lakebed.server.api.routes import Need, Routes

routes = Routes("pulls")


class PullsQuery(PageQuery):
    status: str = "all"


class PullRequest(Wire):
    id: str


@routes.add(
    "listPullRequests",
    "GET",
    "/repositories/{repository}/pulls",
    Need("pr:ListPullRequests", "arn:lakefs:fs:::repository/{repository}"),
)
def list_pulls(
    request: ApiRequest,
    repository: RepositoryID,
    query: PullsQuery,  # noqa: ARG001 - whatever part of the list is asked for, it is empty
) -> Page[PullRequest]:
    """List the pull requests of a repository."""
    request.catalog.repositories.get(repository)
    return page_of([], has_more=False, last="")
