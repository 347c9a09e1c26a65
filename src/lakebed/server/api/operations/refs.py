"""Branches, tags, history and differences."""

from typing import Final

from lakebed.engine.model import Branch, BranchID, RepositoryID, Tag, TagID
from lakebed.server.api.operations.commits import SKIP_HOOKS, wire_commit
from lakebed.server.api.page_json import differences_page
from lakebed.server.api.pages import first_page, listing, page_of
from lakebed.server.api.request import ApiRequest, as_key, one_of
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.wire import refs as wire
from lakebed.wire.base import KeysQuery, Page, PageQuery

routes = Routes()

_REPOSITORY: Final = "repository/{repository}"
_BRANCH_ARN: Final = f"{_REPOSITORY}/branch/{{branch}}"
_TAG_ARN: Final = f"{_REPOSITORY}/tag/{{tag}}"


def _wire(ref: Branch | Tag) -> wire.Ref:
    return wire.Ref(id=ref.id, commit_id=ref.commit_id)


# Branches


@routes.add(wire.BranchesAPI.list, fs("ListBranches", _REPOSITORY))
def list_branches(
    request: ApiRequest, repository: RepositoryID, query: wire.BranchesQuery
) -> Page[wire.Ref]:
    """List the branches of a repository."""
    found = request.services.catalog.refs.list_branches(
        repository, prefix=query.prefix, after=query.after, show_hidden=query.show_hidden
    )
    return first_page(found, query, wire=_wire, name=lambda branch: branch.id)


@routes.add(
    wire.BranchesAPI.create, (fs("CreateBranch", f"{_REPOSITORY}/branch/{{body.name}}"), SKIP_HOOKS)
)
def create_branch(
    request: ApiRequest,
    repository: RepositoryID,
    body: wire.BranchCreation,
) -> Reply:
    """Create a branch; the answer is the id of its commit, as text."""
    created = request.services.catalog.ref_changes.create_branch(
        repository, body.name, body.source, hidden=body.hidden
    )
    return Reply(body=created.commit_id, content_type="text/plain")


@routes.add(wire.BranchesAPI.get, fs("ReadBranch", _BRANCH_ARN))
def get_branch(request: ApiRequest, repository: RepositoryID, branch: BranchID) -> wire.Ref:
    """Return a branch."""
    return _wire(request.services.catalog.refs.get_branch(repository, branch))


@routes.add(wire.BranchesAPI.delete, (fs("DeleteBranch", _BRANCH_ARN), SKIP_HOOKS))
def delete_branch(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
) -> None:
    """Delete a branch and its uncommitted changes."""
    request.services.catalog.ref_changes.delete_branch(repository, branch)


# Tags


@routes.add(wire.TagsAPI.list, fs("ListTags", _REPOSITORY))
def list_tags(request: ApiRequest, repository: RepositoryID, query: PageQuery) -> Page[wire.Ref]:
    """List the tags of a repository."""
    found = request.services.catalog.refs.list_tags(
        repository, prefix=query.prefix, after=query.after
    )
    return first_page(found, query, wire=_wire, name=lambda tag: tag.id)


@routes.add(wire.TagsAPI.create, (fs("CreateTag", f"{_REPOSITORY}/tag/{{body.id}}"), SKIP_HOOKS))
def create_tag(
    request: ApiRequest,
    repository: RepositoryID,
    body: wire.TagCreation,
) -> wire.Ref:
    """Create a tag."""
    return _wire(request.services.catalog.ref_changes.create_tag(repository, body.id, body.ref))


@routes.add(wire.TagsAPI.get, fs("ReadTag", _TAG_ARN))
def get_tag(request: ApiRequest, repository: RepositoryID, tag: TagID) -> wire.Ref:
    """Return a tag."""
    return _wire(request.services.catalog.refs.get_tag(repository, tag))


@routes.add(wire.TagsAPI.delete, (fs("DeleteTag", _TAG_ARN), SKIP_HOOKS))
def delete_tag(
    request: ApiRequest,
    repository: RepositoryID,
    tag: TagID,
) -> None:
    """Delete a tag, but not its commit."""
    request.services.catalog.ref_changes.delete_tag(repository, tag)


# History


@routes.add(wire.RefsAPI.log, fs("ListCommits", _REPOSITORY))
def log_commits(
    request: ApiRequest, repository: RepositoryID, ref: str, query: wire.LogCommitsQuery
) -> Page[wire.Commit]:
    """List the history of a ref."""
    page = request.services.catalog.refs.log(
        repository,
        ref,
        amount=query.limit,
        after=query.after or None,
        first_parent=query.first_parent,
        since=query.since,
        stop_at=query.stop_at or None,
        paths=[as_key(path, "objects") for path in query.objects],
        prefixes=[prefix.encode() for prefix in query.prefixes],
        look_ahead=not query.limit_only,
    )
    results = [wire_commit(each, refused=page.refused.get(each.id)) for each in page.commits]
    return page_of(results, has_more=page.has_more, last=results[-1].id if results else "")


@routes.add(wire.RefsAPI.merge_base, fs("ListCommits", _REPOSITORY))
def find_merge_base(
    request: ApiRequest, repository: RepositoryID, ref: str, destination_branch: str
) -> wire.FindMergeBaseResult:
    """Return the merge base of two refs."""
    found = request.services.catalog.refs.find_merge_base(repository, ref, destination_branch)
    return wire.FindMergeBaseResult(
        source_commit_id=found.source.id,
        destination_commit_id=found.destination.id,
        base_commit_id=found.base.id,
    )


# Differences between refs, and uncommitted changes


@routes.add(wire.BranchesAPI.diff, fs("ListObjects", _REPOSITORY))
def diff_branch(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: KeysQuery
) -> Page[wire.Diff]:
    """List the uncommitted changes of a branch."""
    diff = request.services.catalog.diff
    return differences_page(
        diff.list_uncommitted(repository, branch, listing(query)), uncommitted=True
    )


@routes.add(wire.RefsAPI.diff, fs("ListObjects", _REPOSITORY))
def diff_refs(
    request: ApiRequest,
    repository: RepositoryID,
    ref: str,
    right_ref: str,
    query: wire.DiffRefsQuery,
) -> Page[wire.Diff]:
    """List the changes on the right ref; by default, since the merge base."""
    three_dot = one_of(query.type, ("three_dot", "two_dot"), "type") == "three_dot"
    found = request.services.catalog.diff.list_between(
        repository, ref, right_ref, listing(query), since_merge_base=three_dot
    )
    return differences_page(found, with_stats=query.include_right_stats)
