"""Operations that move a branch head or change its staging area: commit, merge, revert, reset."""

from typing import Final

from msgspec import UNSET

from lakebed.engine import model
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.commits import merge_request
from lakebed.lake.errors import MergeConflict, ParentNumberMissing
from lakebed.server.api.request import ApiRequest, as_key, as_text, one_of, seconds
from lakebed.server.api.routes import Need, Reply, Routes, fs
from lakebed.server.http.errors import body_of
from lakebed.wire import refs as wire

routes = Routes()

_REPOSITORY: Final = "repository/{repository}"
SKIP_HOOKS: Final = Need("ci:SkipHooks", f"arn:lakefs:fs:::{_REPOSITORY}", when="skip_hooks")
_ARN: Final = f"{_REPOSITORY}/branch/{{branch}}"

TAKEN_ALONG: Final = "X-Lakebed-Taken-Along"
"""Response header: a concurrent commit included the changes."""
_PLAIN: Final = wire.Merge()
_NO_OVERRIDES: Final = wire.CommitOverrides()
_CONFLICTS_SHOWN: Final = 100


def wire_commit(commit: model.Commit, *, refused: str | None = None) -> wire.Commit:
    """Return a commit as the API's struct, with the hook that refused it, if any.

    The first commit of a repository has no committer and no metarange there.
    """
    return wire.Commit(
        id=commit.id,
        parents=list(commit.parents),
        committer="" if commit.is_first else commit.committer,
        message=commit.message,
        creation_date=seconds(commit.created_us),
        meta_range_id="" if commit.is_first else commit.metarange_id,
        metadata=commit.metadata,
        generation=commit.generation,
        refused=UNSET if refused is None else refused,
    )


@routes.add(wire.CommitsAPI.create, (fs("CreateCommit", _ARN), SKIP_HOOKS))
def commit(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    query: wire.CommitQuery,
    body: wire.CommitCreation,
) -> Reply:
    """Commit the uncommitted changes of a branch."""
    wanted = CommitRequest(
        committer=request.identity.committer,
        message=body.message,
        metadata=body.metadata,
        created_us=None if body.date is None else body.date * 1_000_000,
        allow_empty=body.allow_empty,
    )
    result = request.services.catalog.commits.commit(
        repository, branch, wanted, source_metarange=query.source_metarange or None
    )
    headers = {TAKEN_ALONG: "true"} if result.taken_along else {}
    return Reply(body=wire_commit(result.commit), headers=headers)


@routes.add(wire.CommitsAPI.get, fs("ReadCommit", _REPOSITORY))
def get_commit(request: ApiRequest, repository: RepositoryID, commit_id: str) -> wire.Commit:
    """Return a commit, by its id or any ref."""
    found, refused = request.services.catalog.refs.get_commit_and_refusal(repository, commit_id)
    return wire_commit(found, refused=refused)


# Merging


@routes.add(
    wire.RefsAPI.merge,
    (fs("CreateCommit", f"{_REPOSITORY}/branch/{{destination_branch}}"), SKIP_HOOKS),
)
def merge_into_branch(
    request: ApiRequest,
    repository: RepositoryID,
    ref: str,
    destination_branch: BranchID,
    body: wire.Merge = _PLAIN,
) -> Reply:
    """Merge a ref into a branch."""
    wanted = merge_request(
        ref,
        destination_branch,
        committer=request.identity.committer,
        message=body.message,
        metadata=body.metadata,
        strategy=body.strategy,
        squash=body.squash_merge,
        allow_empty=body.allow_empty,
        keep_staged=body.keep_staged,
    )
    try:
        merged = request.services.catalog.commits.merge(repository, ref, destination_branch, wanted)
    except MergeConflict as error:
        return Reply(status=409, body=conflict_body(error, "mergeIntoBranch"))
    return Reply(body=wire.MergeResult(reference=merged.id))


def conflict_body(error: MergeConflict, operation: str) -> dict[str, object]:
    """Return the body for a conflict: a merge result without commit, and an error."""
    keys = error.conflicts.column("key").slice(0, _CONFLICTS_SHOWN).to_pylist()
    return {
        "reference": "",
        **body_of(error, operation),
        "conflicts": [as_text(key) for key in keys],
        "conflicts_total": error.conflicts.num_rows,
    }


# Reverting and cherry-picking


@routes.add(wire.BranchesAPI.revert, (fs("RevertBranch", _ARN), SKIP_HOOKS))
def revert(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    body: wire.RevertCreation,
) -> Reply:
    """Revert a commit on a branch."""
    overrides = body.commit_overrides or _NO_OVERRIDES
    wanted = CommitRequest(
        committer=request.identity.committer,
        message=overrides.message or f"Revert {body.ref}",
        metadata=overrides.metadata,
        allow_empty=body.allow_empty,
    )
    try:
        request.services.catalog.commits.revert(
            repository, branch, body.ref, wanted, parent_number=body.parent_number or None
        )
    except ParentNumberMissing as error:
        return Reply(status=409, body=body_of(error, "revertBranch"))
    return Reply()


@routes.add(
    wire.BranchesAPI.cherry_pick,
    (fs("CreateCommit", _ARN), fs("ReadCommit", _REPOSITORY), SKIP_HOOKS),
)
def cherry_pick(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    body: wire.CherryPickCreation,
) -> wire.Commit:
    """Apply the changes of a commit to a branch."""
    overrides = body.commit_overrides or _NO_OVERRIDES
    picked = request.services.catalog.commits.cherry_pick(
        repository,
        branch,
        body.ref,
        committer=request.identity.committer,
        message=overrides.message,
        metadata=overrides.metadata,
        parent_number=body.parent_number,
    )
    return wire_commit(picked)


# Resetting


@routes.add(wire.BranchesAPI.reset, fs("RevertBranch", _ARN))
def reset_branch(
    request: ApiRequest,
    repository: RepositoryID,
    branch: BranchID,
    body: wire.ResetCreation,
) -> None:
    """Discard uncommitted changes of a branch: all, below a prefix, or of one object."""
    commits = request.services.catalog.commits
    what = one_of(body.type, ("reset", "object", "common_prefix"), "type")
    if what == "reset":
        commits.reset(repository, branch)
    elif what == "object":
        commits.reset_object(repository, branch, as_key(body.path or ""))
    else:
        commits.reset_prefix(repository, branch, as_key(body.path or ""))


@routes.add(wire.BranchesAPI.hard_reset, fs("RevertBranch", _ARN))
def hard_reset(
    request: ApiRequest, repository: RepositoryID, branch: BranchID, query: wire.HardResetQuery
) -> None:
    """Point a branch without uncommitted changes to another commit."""
    request.services.catalog.commits.hard_reset(repository, branch, query.ref)
