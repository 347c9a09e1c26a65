"""Differences between refs, and uncommitted changes."""

from typing import Final

from lakebed.engine.model import BranchID, RepositoryID
from lakebed.server.api.page_json import differences_page
from lakebed.server.api.pages import listing
from lakebed.server.api.request import ApiRequest, one_of
from lakebed.server.api.routes import Routes, fs
from lakebed.wire.base import KeysQuery, Page
from lakebed.wire.refs import BranchesAPI, Diff, DiffRefsQuery, RefsAPI

routes = Routes()

_LIST: Final = fs("ListObjects", "repository/{repository}")


@routes.add(BranchesAPI.diff, _LIST)
def diff_branch(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: KeysQuery
) -> Page[Diff]:
    """List the uncommitted changes of a branch."""
    diff = request.services.catalog.diff
    return differences_page(
        diff.list_uncommitted(repository, branch, listing(query)), with_stats=False
    )


@routes.add(RefsAPI.diff, _LIST)
def diff_refs(
    request: ApiRequest, repository: RepositoryID, ref: str, right_ref: str, query: DiffRefsQuery
) -> Page[Diff]:
    """List the changes on the right ref; by default, since the merge base."""
    three_dot = one_of(query.type, ("three_dot", "two_dot"), "type") == "three_dot"
    found = request.services.catalog.diff.list_between(
        repository, ref, right_ref, listing(query), since_parting=three_dot
    )
    return differences_page(found, with_stats=query.include_right_stats)
