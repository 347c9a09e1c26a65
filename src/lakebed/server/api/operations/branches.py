"""Branches: create, list, delete, reset, revert, cherry-pick, what is uncommitted on them."""

from typing import Final

from lakebed.engine import model
from lakebed.engine.commits.commit import CommitRequest
from lakebed.engine.errors import ParentNumberMissing
from lakebed.engine.model import BranchID, CommitID, RepositoryID
from lakebed.server.api.call import Call, as_key, one_of
from lakebed.server.api.models import (
    BranchCreation,
    CherryPickCreation,
    Commit,
    Diff,
    Error,
    KeysQuery,
    Page,
    PageQuery,
    Ref,
    ResetCreation,
    RevertCreation,
    Wire,
    first_page,
)
from lakebed.server.api.operations.commits import wire as wire_commit
from lakebed.server.api.operations.differences import page_of_differences
from lakebed.server.api.routes import Reply, Routes, fs

routes = Routes("branches")

_ALL: Final = "/repositories/{repository}/branches"
_ONE: Final = f"{_ALL}/{{branch}}"
_ARN: Final = "repository/{repository}/branch/{branch}"


class BranchesQuery(PageQuery):
    show_hidden: bool = False


class HardResetQuery(Wire):
    ref: str


def wire(branch: model.Branch) -> Ref:
    """Return a branch in the words of the API."""
    return Ref(id=branch.id, commit_id=branch.commit_id)


@routes.add("listBranches", "GET", _ALL, fs("ListBranches", "repository/{repository}"))
def list_branches(call: Call, repository: str, query: BranchesQuery) -> Page[Ref]:
    """List the branches of a repository."""
    engine = call.services.engine
    found = engine.branches.list(
        engine.repositories.get(RepositoryID(repository)),
        prefix=query.prefix,
        after=query.after,
    )
    shown = (branch for branch in found if query.show_hidden or not branch.hidden)
    return first_page(shown, query, wire=wire, name=lambda branch: branch.id)


@routes.add(
    "createBranch",
    "POST",
    _ALL,
    fs("CreateBranch", "repository/{repository}/branch/{body.name}"),
    status=201,
    statuses=(403, 409),
    media="text/html",
)
def create_branch(call: Call, repository: str, body: BranchCreation) -> Reply:
    """Make a branch; the answer is the id of its commit, as text."""
    created = call.services.engine.create_branch(
        RepositoryID(repository), body.name, body.source, hidden=body.hidden
    )
    return Reply(body=created.commit_id, content_type="text/html")


@routes.add("getBranch", "GET", _ONE, fs("ReadBranch", _ARN))
def get_branch(call: Call, repository: str, branch: str) -> Ref:
    """Return a branch."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    return wire(engine.branches.get(found, BranchID(branch)))


@routes.add("deleteBranch", "DELETE", _ONE, fs("DeleteBranch", _ARN), status=204, statuses=(403,))
def delete_branch(call: Call, repository: str, branch: str) -> None:
    """Delete a branch and what is uncommitted on it."""
    call.services.engine.delete_branch(RepositoryID(repository), BranchID(branch))


@routes.add("diffBranch", "GET", f"{_ONE}/diff", fs("ListObjects", "repository/{repository}"))
def diff_branch(call: Call, repository: str, branch: str, query: KeysQuery) -> Page[Diff]:
    """List what is uncommitted on a branch."""
    found = call.services.engine.list_changes(
        RepositoryID(repository), BranchID(branch), query.engine_query()
    )
    return page_of_differences(found)


@routes.add("resetBranch", "PUT", _ONE, fs("RevertBranch", _ARN), status=204, statuses=(403,))
def reset_branch(call: Call, repository: str, branch: str, body: ResetCreation) -> None:
    """Discard what is uncommitted on a branch: all, below a prefix, or one object."""
    engine = call.services.engine
    what = one_of(body.type, ("reset", "object", "common_prefix"), "type")
    where = RepositoryID(repository), BranchID(branch)
    if what == "reset":
        engine.reset(*where)
    elif what == "object":
        engine.reset_key(*where, as_key(body.path or ""))
    else:
        engine.reset_prefix(*where, as_key(body.path or ""))


@routes.add(
    "hardResetBranch",
    "PUT",
    f"{_ONE}/hard_reset",
    fs("RevertBranch", _ARN),
    status=204,
    statuses=(403,),
)
def hard_reset(call: Call, repository: str, branch: str, query: HardResetQuery) -> None:
    """Make a branch without uncommitted changes point to another commit."""
    call.services.engine.hard_reset(RepositoryID(repository), BranchID(branch), query.ref)


@routes.add(
    "revertBranch",
    "POST",
    f"{_ONE}/revert",
    fs("RevertBranch", _ARN),
    status=204,
    statuses=(403, 409),
)
def revert(call: Call, repository: str, branch: str, body: RevertCreation) -> Reply:
    """Undo on a branch what a commit changed."""
    request = _request(call, body, f"Revert {body.ref}", allow_empty=body.allow_empty)
    try:
        call.services.engine.revert(
            RepositoryID(repository),
            BranchID(branch),
            body.ref,
            request,
            parent_number=body.parent_number or None,
        )
    except ParentNumberMissing as error:
        return Reply(status=409, body=Error(message=str(error), kind=error.kind))
    return Reply()


@routes.add(
    "cherryPick",
    "POST",
    f"{_ONE}/cherry-pick",
    (fs("CreateCommit", _ARN), fs("ReadCommit", "repository/{repository}")),
    status=201,
    statuses=(403, 409),
)
def cherry_pick(call: Call, repository: str, branch: str, body: CherryPickCreation) -> Commit:
    """Do again on a branch what a commit changed."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    origin = engine.resolver.commit(found, body.ref)
    request = _request(call, body, origin.message, origin=origin)
    return wire_commit(
        engine.cherry_pick(
            found.id,
            BranchID(branch),
            CommitID(origin.id),
            request,
            parent_number=body.parent_number,
        )
    )


def _request(
    call: Call,
    body: RevertCreation | CherryPickCreation,
    message: str,
    *,
    allow_empty: bool = False,
    origin: model.Commit | None = None,
) -> CommitRequest:
    metadata: dict[str, str] = {}
    if origin is not None:
        metadata = {
            **origin.metadata,
            "cherry-pick-origin": origin.id,
            "cherry-pick-committer": origin.committer,
        }
    overrides = body.commit_overrides
    if overrides is not None:
        message = overrides.message or message
        metadata |= overrides.metadata
    return CommitRequest(
        committer=call.identity.committer,
        message=message,
        metadata=metadata,
        allow_empty=allow_empty,
    )
