"""Branches, tags, and the history of refs."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta, field

from lakebed.catalog.nouns import Branch, BranchID, RepositoryID, Tag, TagID
from lakebed.server.api.models import (
    BranchCreation,
    Commit,
    FindMergeBaseResult,
    ForceSkipQuery,
    Page,
    PageQuery,
    Ref,
    SkipQuery,
    TagCreation,
    first_page,
    page_of,
)
from lakebed.server.api.operations.commits import MERGE_PATH, SKIP_HOOKS, wire_commit
from lakebed.server.api.request import ApiRequest, as_key
from lakebed.server.api.routes import Reply, Routes, fs

_branches = Routes("branches")
_tags = Routes("tags")
_refs = Routes("refs")

_REPOSITORY: Final = "repository/{repository}"
_BRANCHES: Final = "/repositories/{repository}/branches"
_BRANCH: Final = f"{_BRANCHES}/{{branch}}"
_BRANCH_ARN: Final = f"{_REPOSITORY}/branch/{{branch}}"
_TAGS: Final = "/repositories/{repository}/tags"
_TAG: Final = f"{_TAGS}/{{tag:path}}"
_TAG_ARN: Final = f"{_REPOSITORY}/tag/{{tag}}"


class BranchesQuery(PageQuery):
    show_hidden: bool = False


class LogCommitsQuery(PageQuery):
    objects: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    limit_only: Annotated[bool, Meta(description="do not look whether more follow")] = field(
        default=False, name="limit"
    )
    first_parent: bool = False
    since: datetime | None = None
    stop_at: str = ""


def _wire(ref: Branch | Tag) -> Ref:
    return Ref(id=ref.id, commit_id=ref.commit_id)


# Branches


@_branches.add("listBranches", "GET", _BRANCHES, fs("ListBranches", _REPOSITORY))
def list_branches(request: ApiRequest, repository: RepositoryID, query: BranchesQuery) -> Page[Ref]:
    """List the branches of a repository."""
    found = request.catalog.refs.list_branches(
        repository, prefix=query.prefix, after=query.after, show_hidden=query.show_hidden
    )
    return first_page(found, query, wire=_wire, name=lambda branch: branch.id)


@_branches.add(
    "createBranch",
    "POST",
    _BRANCHES,
    (fs("CreateBranch", f"{_REPOSITORY}/branch/{{body.name}}"), SKIP_HOOKS),
    status=201,
    statuses=(403, 409, 412),
    media="text/plain",
)
def create_branch(
    request: ApiRequest,
    repository: RepositoryID,
    query: SkipQuery,  # noqa: ARG001 - the dispatcher reads it
    body: BranchCreation,
) -> Reply:
    """Create a branch; the answer is the id of its commit, as text."""
    created = request.catalog.refs.create_branch(
        repository, body.name, body.source, hidden=body.hidden
    )
    return Reply(body=created.commit_id, content_type="text/plain")


@_branches.add("getBranch", "GET", _BRANCH, fs("ReadBranch", _BRANCH_ARN))
def get_branch(request: ApiRequest, repository: RepositoryID, branch: BranchID) -> Ref:
    """Return a branch."""
    return _wire(request.catalog.refs.get_branch(repository, branch))


@_branches.add(
    "deleteBranch",
    "DELETE",
    _BRANCH,
    (fs("DeleteBranch", _BRANCH_ARN), SKIP_HOOKS),
    status=204,
    statuses=(403,),
)
def delete_branch(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: ForceSkipQuery,  # noqa: ARG001 - the dispatcher reads it
) -> None:
    """Delete a branch and what is uncommitted on it."""
    request.catalog.refs.delete_branch(repository, branch)


# Tags


@_tags.add("listTags", "GET", _TAGS, fs("ListTags", _REPOSITORY))
def list_tags(request: ApiRequest, repository: RepositoryID, query: PageQuery) -> Page[Ref]:
    """List the tags of a repository."""
    found = request.catalog.refs.list_tags(repository, prefix=query.prefix, after=query.after)
    return first_page(found, query, wire=_wire, name=lambda tag: tag.id)


@_tags.add(
    "createTag",
    "POST",
    _TAGS,
    (fs("CreateTag", f"{_REPOSITORY}/tag/{{body.id}}"), SKIP_HOOKS),
    status=201,
    statuses=(403, 409, 412),
)
def create_tag(
    request: ApiRequest,
    repository: RepositoryID,
    query: SkipQuery,  # noqa: ARG001 - the dispatcher reads it
    body: TagCreation,
) -> Ref:
    """Create a tag."""
    return _wire(request.catalog.refs.create_tag(repository, body.id, body.ref))


@_tags.add("getTag", "GET", _TAG, fs("ReadTag", _TAG_ARN))
def get_tag(request: ApiRequest, repository: RepositoryID, tag: TagID) -> Ref:
    """Return a tag."""
    return _wire(request.catalog.refs.get_tag(repository, tag))


@_tags.add(
    "deleteTag",
    "DELETE",
    _TAG,
    (fs("DeleteTag", _TAG_ARN), SKIP_HOOKS),
    status=204,
    statuses=(403,),
)
def delete_tag(
    request: ApiRequest,
    repository: RepositoryID,
    tag: TagID,
    query: ForceSkipQuery,  # noqa: ARG001 - the dispatcher reads it
) -> None:
    """Delete a tag; the commit stays."""
    request.catalog.refs.delete_tag(repository, tag)


# History


@_refs.add(
    "logCommits",
    "GET",
    "/repositories/{repository}/refs/{ref}/commits",
    fs("ListCommits", _REPOSITORY),
)
def log_commits(
    request: ApiRequest, repository: RepositoryID, ref: str, query: LogCommitsQuery
) -> Page[Commit]:
    """List the commits that led to a ref."""
    page = request.catalog.refs.log(
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
    refused = request.catalog.refs.refused(repository, ref)
    results = [wire_commit(each, refused=refused.get(each.id)) for each in page.commits]
    return page_of(results, has_more=page.has_more, last=results[-1].id if results else "")


@_refs.add("findMergeBase", "GET", MERGE_PATH, fs("ListCommits", _REPOSITORY))
def find_merge_base(
    request: ApiRequest, repository: RepositoryID, ref: str, destination_branch: str
) -> FindMergeBaseResult:
    """Return the last commit that two refs have in common."""
    found = request.catalog.refs.find_merge_base(repository, ref, destination_branch)
    return FindMergeBaseResult(
        source_commit_id=found.source.id,
        destination_commit_id=found.destination.id,
        base_commit_id=found.base.id,
    )


routes = (*_branches, *_tags, *_refs)
