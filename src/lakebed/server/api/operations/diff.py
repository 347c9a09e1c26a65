"""What differs: between refs, and between a branch and what is staged on it."""

from typing import Final

from lakebed.catalog.diff import Difference
from lakebed.catalog.nouns import BranchID, ChangeType, CommonPrefix, RepositoryID
from lakebed.catalog.nouns import Page as Found
from lakebed.server.api.models import Diff, DiffObjectStat, KeysQuery, Page, page_of
from lakebed.server.api.request import ApiRequest, as_text, one_of
from lakebed.server.api.routes import Routes, fs

_branches = Routes("branches")
_refs = Routes("refs")

_TYPES: Final = {
    ChangeType.ADDED: "added",
    ChangeType.CHANGED: "changed",
    ChangeType.REMOVED: "removed",
}
_LIST: Final = fs("ListObjects", "repository/{repository}")


class DiffRefsQuery(KeysQuery):
    type: str = "three_dot"
    include_right_stats: bool = False


@_branches.add("diffBranch", "GET", "/repositories/{repository}/branches/{branch}/diff", _LIST)
def diff_branch(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: KeysQuery
) -> Page[Diff]:
    """List what is uncommitted on a branch."""
    diff = request.catalog.diff
    return _page(diff.list_uncommitted(repository, branch, query.listing()), with_stats=False)


@_refs.add("diffRefs", "GET", "/repositories/{repository}/refs/{ref}/diff/{right_ref}", _LIST)
def diff_refs(
    request: ApiRequest, repository: RepositoryID, ref: str, right_ref: str, query: DiffRefsQuery
) -> Page[Diff]:
    """List what is different on the right; by default, since the two parted."""
    three_dot = one_of(query.type, ("three_dot", "two_dot"), "type") == "three_dot"
    found = request.catalog.diff.list_between(
        repository, ref, right_ref, query.listing(), since_parting=three_dot
    )
    return _page(found, with_stats=query.include_right_stats)


routes = (*_branches, *_refs)


def _page(found: Found[Difference], *, with_stats: bool) -> Page[Diff]:
    results = [_wire(item, with_stats=with_stats) for item in found.items]
    return page_of(results, has_more=found.has_more, last=results[-1].path if results else "")


def _wire(item: Difference | CommonPrefix, *, with_stats: bool) -> Diff:
    if isinstance(item, CommonPrefix):
        return Diff(type="prefix_changed", path=as_text(item.key), path_type="common_prefix")
    is_there = item.change is not ChangeType.REMOVED
    return Diff(
        type="conflict" if item.conflict else _TYPES[item.change],
        path=as_text(item.path),
        path_type="object",
        size_bytes=item.size if is_there else 0,
        right=_stat(item) if with_stats and is_there else None,
    )


def _stat(item: Difference) -> DiffObjectStat:
    return DiffObjectStat(
        checksum=item.checksum,
        mtime=int(item.mtime.timestamp()),
        content_type=item.content_type,
        metadata=dict(item.metadata),
    )
