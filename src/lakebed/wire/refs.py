"""Branches, tags, commits, merges, and differences between refs."""

from datetime import datetime
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType, field

from lakebed.wire.base import (
    Force,
    ForceQuery,
    ForceSkipQuery,
    KeysQuery,
    Page,
    PageQuery,
    Seconds,
    SkipQuery,
    Wire,
)
from lakebed.wire.calls import Resource, call


class Ref(Wire):
    id: str
    commit_id: str


class BranchesQuery(PageQuery):
    show_hidden: bool = False


class BranchCreation(Wire):
    name: str
    source: str
    hidden: bool = False
    force: Force = False


class TagCreation(Wire):
    id: str
    ref: str
    force: Force = False


class ResetCreation(Wire):
    type: str
    path: str | None = None


class HardResetQuery(ForceQuery, kw_only=True):
    ref: str


class CommitOverrides(Wire):
    message: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class RevertCreation(Wire):
    ref: str
    parent_number: int
    """Counts from 1; 0 where there is only one parent."""
    commit_overrides: CommitOverrides | None = None
    allow_empty: bool = False
    force: Force = False


class CherryPickCreation(Wire):
    ref: str
    parent_number: int | None = None
    commit_overrides: CommitOverrides | None = None
    force: Force = False


class CommitQuery(SkipQuery, kw_only=True):
    source_metarange: str = ""


class CommitCreation(Wire):
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    date: Seconds | None = None
    allow_empty: bool = False
    force: Force = False


class Commit(Struct, kw_only=True):
    id: str
    parents: list[str]
    committer: str
    message: str
    creation_date: int
    meta_range_id: str
    metadata: dict[str, str] = field(default_factory=dict)
    generation: int = 0
    version: int = 1
    refused: str | UnsetType = UNSET
    """Hook that refused the commit, which is on no branch; only in a commit read by id."""


class LogCommitsQuery(PageQuery):
    objects: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    limit_only: Annotated[bool, Meta(description="do not check for more commits")] = field(
        default=False, name="limit"
    )
    first_parent: bool = False
    since: datetime | None = None
    stop_at: str = ""


class Merge(Wire):
    message: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    strategy: str = ""
    allow_empty: bool = False
    squash_merge: bool = False
    force: Force = False
    keep_staged: Annotated[
        bool,
        Meta(description="keep staged changes to other objects"),
    ] = False


class MergeResult(Wire):
    reference: str


class FindMergeBaseResult(Wire):
    source_commit_id: str
    destination_commit_id: str
    base_commit_id: str


class DiffRefsQuery(KeysQuery):
    type: str = "three_dot"
    include_right_stats: bool = False


class DiffObjectStat(Wire):
    checksum: str
    mtime: int
    content_type: str
    metadata: dict[str, str] = field(default_factory=dict)


class Diff(Wire):
    type: str
    path: str
    path_type: str
    size_bytes: int | None = None
    right: DiffObjectStat | None = None


class BranchesAPI(Resource, tag="branches", path="/repositories/{repository}/branches"):
    """Branches."""

    @call("listBranches", "GET", "")
    def list(self, repository: str, query: BranchesQuery | None = None) -> Page[Ref]: ...

    @call("createBranch", "POST", "", status=201, statuses=(403, 409, 412), media="text/plain")
    def create(
        self, repository: str, body: BranchCreation, query: SkipQuery | None = None
    ) -> str: ...

    @call("getBranch", "GET", "/{branch}")
    def get(self, repository: str, branch: str) -> Ref: ...

    @call("deleteBranch", "DELETE", "/{branch}", status=204, statuses=(403,))
    def delete(self, repository: str, branch: str, query: ForceSkipQuery | None = None) -> None: ...

    @call("revertBranch", "POST", "/{branch}/revert", status=204, statuses=(403, 409))
    def revert(
        self, repository: str, branch: str, body: RevertCreation, query: SkipQuery | None = None
    ) -> None: ...

    @call("cherryPick", "POST", "/{branch}/cherry-pick", status=201, statuses=(403, 409))
    def cherry_pick(
        self, repository: str, branch: str, body: CherryPickCreation, query: SkipQuery | None = None
    ) -> Commit: ...

    @call("resetBranch", "PUT", "/{branch}", status=204, statuses=(403,))
    def reset(
        self, repository: str, branch: str, body: ResetCreation, query: ForceQuery | None = None
    ) -> None: ...

    @call("hardResetBranch", "PUT", "/{branch}/hard_reset", status=204, statuses=(403,))
    def hard_reset(self, repository: str, branch: str, query: HardResetQuery) -> None: ...

    @call("diffBranch", "GET", "/{branch}/diff")
    def diff(self, repository: str, branch: str, query: KeysQuery | None = None) -> Page[Diff]: ...


class TagsAPI(Resource, tag="tags", path="/repositories/{repository}/tags"):
    """Tags."""

    @call("listTags", "GET", "")
    def list(self, repository: str, query: PageQuery | None = None) -> Page[Ref]: ...

    @call("createTag", "POST", "", status=201, statuses=(403, 409, 412))
    def create(self, repository: str, body: TagCreation, query: SkipQuery | None = None) -> Ref: ...

    @call("getTag", "GET", "/{tag:path}")
    def get(self, repository: str, tag: str) -> Ref: ...

    @call("deleteTag", "DELETE", "/{tag:path}", status=204, statuses=(403,))
    def delete(self, repository: str, tag: str, query: ForceSkipQuery | None = None) -> None: ...


class CommitsAPI(Resource, tag="commits", path="/repositories/{repository}"):
    """Commits."""

    @call("commit", "POST", "/branches/{branch}/commits", status=201, statuses=(403, 409, 412))
    def create(
        self, repository: str, branch: str, body: CommitCreation, query: CommitQuery | None = None
    ) -> Commit: ...

    @call("getCommit", "GET", "/commits/{commit_id}")
    def get(self, repository: str, commit_id: str) -> Commit: ...


class RefsAPI(Resource, tag="refs", path="/repositories/{repository}/refs/{ref}"):
    """Histories and differences of refs."""

    @call("logCommits", "GET", "/commits")
    def log(
        self, repository: str, ref: str, query: LogCommitsQuery | None = None
    ) -> Page[Commit]: ...

    @call("findMergeBase", "GET", "/merge/{destination_branch}")
    def merge_base(
        self, repository: str, ref: str, destination_branch: str
    ) -> FindMergeBaseResult: ...

    @call("mergeIntoBranch", "POST", "/merge/{destination_branch}", statuses=(403, 409, 412))
    def merge(
        self,
        repository: str,
        ref: str,
        destination_branch: str,
        query: SkipQuery | None = None,
        body: Merge | None = None,
    ) -> MergeResult: ...

    @call("diffRefs", "GET", "/diff/{right_ref}")
    def diff(
        self, repository: str, ref: str, right_ref: str, query: DiffRefsQuery | None = None
    ) -> Page[Diff]: ...
