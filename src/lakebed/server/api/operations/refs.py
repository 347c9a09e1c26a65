"""Operations on refs: log, merge, merge base, diff."""

from datetime import UTC, datetime
from typing import Annotated, Final

from msgspec import Meta, field

from lakebed.engine.commits.merges import MergeRequest
from lakebed.engine.committed import Strategy
from lakebed.engine.errors import MergeConflict
from lakebed.engine.model import BranchID, CommitID, RepositoryID
from lakebed.engine.refs.log import LogQuery
from lakebed.server.api.call import Call, as_key, one_of
from lakebed.server.api.models import (
    Commit,
    Diff,
    FindMergeBaseResult,
    KeysQuery,
    Merge,
    MergeResult,
    Page,
    PageQuery,
    page_of,
)
from lakebed.server.api.operations.commits import wire as wire_commit
from lakebed.server.api.operations.differences import page_of_differences
from lakebed.server.api.routes import Reply, Routes, fs
from lakebed.server.http.errors import message_of

routes = Routes("refs")

_REPOSITORY: Final = "repository/{repository}"
_MERGE: Final = "/repositories/{repository}/refs/{ref}/merge/{destination_branch}"
_STRATEGIES: Final = {
    "": None,
    "dest-wins": Strategy.DEST_WINS,
    "source-wins": Strategy.SOURCE_WINS,
}
_PLAIN: Final = Merge()
STRATEGY_KEY: Final = ".lakefs.merge.strategy"
"""Where a merge says, in its commit's metadata, which side won."""


class LogCommitsQuery(PageQuery):
    objects: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    limit_only: Annotated[bool, Meta(description="do not look whether more follow")] = field(
        default=False, name="limit"
    )
    first_parent: bool = False
    since: datetime | None = None
    stop_at: str = ""


class DiffRefsQuery(KeysQuery):
    type: str = "three_dot"
    include_right_stats: bool = False


@routes.add(
    "logCommits",
    "GET",
    "/repositories/{repository}/refs/{ref}/commits",
    fs("ListCommits", _REPOSITORY),
)
def log_commits(call: Call, repository: str, ref: str, query: LogCommitsQuery) -> Page[Commit]:
    """List the commits that led to a ref."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    head = engine.resolver.commit(found, ref)
    wanted = LogQuery(
        first_parent=query.first_parent,
        since_us=None if query.since is None else _microseconds(query.since),
        stop_at=engine.resolver.commit(found, query.stop_at).id if query.stop_at else None,
        after=CommitID(query.after) if query.after else None,
        keys=tuple(as_key(path, "objects") for path in query.objects),
        prefixes=tuple(prefix.encode() for prefix in query.prefixes),
    )
    page = engine.log(found, head.id, wanted, amount=query.limit, look_ahead=not query.limit_only)
    results = [wire_commit(commit) for commit in page.commits]
    return page_of(results, has_more=page.has_more, last=results[-1].id if results else "")


def _microseconds(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1_000_000)


@routes.add(
    "mergeIntoBranch",
    "POST",
    _MERGE,
    fs("CreateCommit", f"{_REPOSITORY}/branch/{{destination_branch}}"),
    statuses=(403, 409, 412),
    answer=MergeResult,
)
def merge_into_branch(
    call: Call, repository: str, ref: str, destination_branch: str, body: Merge = _PLAIN
) -> Reply:
    """Merge a ref into a branch."""
    one_of(body.strategy, _STRATEGIES, "strategy")
    strategy = {STRATEGY_KEY: body.strategy} if body.strategy else {}
    request = MergeRequest(
        committer=call.identity.committer,
        message=body.message or f"Merge {ref!r} into {destination_branch!r}",
        metadata={**body.metadata, **strategy},
        strategy=_STRATEGIES[body.strategy],
        squash=body.squash_merge,
        allow_empty=body.allow_empty,
    )
    try:
        merged = call.services.engine.merge(
            RepositoryID(repository), ref, BranchID(destination_branch), request
        )
    except MergeConflict as error:
        return Reply(status=409, body=_conflict(error))
    return Reply(body=MergeResult(reference=merged.id))


_CONFLICTS_SHOWN: Final = 100


def _conflict(error: MergeConflict) -> dict[str, object]:
    """A conflict is answered by a merge without a result, for clients, and an error, for people."""
    keys = error.conflicts.column("key").slice(0, _CONFLICTS_SHOWN).to_pylist()
    return {
        "reference": "",
        "message": message_of(error, "mergeIntoBranch"),
        "kind": error.kind,
        "conflicts": [key.decode(errors="replace") for key in keys],
        "conflicts_total": error.conflicts.num_rows,
    }


@routes.add("findMergeBase", "GET", _MERGE, fs("ListCommits", _REPOSITORY))
def find_merge_base(
    call: Call, repository: str, ref: str, destination_branch: str
) -> FindMergeBaseResult:
    """Return the last commit that two refs have in common."""
    engine = call.services.engine
    found = engine.repositories.get(RepositoryID(repository))
    source = engine.resolver.commit(found, ref)
    destination = engine.resolver.commit(found, destination_branch)
    base = engine.merge_base(found, source.id, destination.id)
    return FindMergeBaseResult(
        source_commit_id=source.id,
        destination_commit_id=destination.id,
        base_commit_id=base.id,
    )


@routes.add(
    "diffRefs",
    "GET",
    "/repositories/{repository}/refs/{ref}/diff/{right_ref}",
    fs("ListObjects", _REPOSITORY),
)
def diff_refs(
    call: Call, repository: str, ref: str, right_ref: str, query: DiffRefsQuery
) -> Page[Diff]:
    """List what is different on the right; by default, since the two parted."""
    three_dot = one_of(query.type, ("three_dot", "two_dot"), "type") == "three_dot"
    engine = call.services.engine
    page = engine.diff(
        RepositoryID(repository),
        ref,
        right_ref,
        query.engine_query(),
        since_parting=three_dot,
    )
    return page_of_differences(page, right_stats=query.include_right_stats)
