"""Requests of operations that make a commit, and the commits each has proposed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from lakebed.base.actor import current_actor
from lakebed.engine.committed import Interval, Strategy
from lakebed.engine.hooks import Proposal
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.formats import MetaRangeID

HOOKS_SKIPPED: Final = ".lakebed.hooks_skipped_by"
"""Commit metadata key: the user who asked to skip all hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Message and metadata of a new commit."""

    committer: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    created_us: int | None = None
    """The date to record, or None for now."""
    allow_empty: bool = False
    """Commit even without changes."""


LEFTOVERS: Final = CommitRequest(committer="lakebed", message="Changes left by interrupted commits")
"""The commit of tokens left sealed by other committers."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome of a request to commit."""

    commit: Commit
    taken_along: bool = False
    """Whether another request's commit took the changes along. Then no commit has this request's
    message and metadata."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A metarange to replace key ranges of a branch."""

    metarange_id: MetaRangeID
    intervals: Sequence[Interval]
    """Sorted and disjoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(CommitRequest):
    """Message, metadata and options of a merge."""

    strategy: Strategy | None = None
    """The side that wins where both changed a key, or None to raise a conflict."""
    squash: bool = False
    """Leave the source out of the parents."""
    keep_staged: bool = False
    """Keep staged changes instead of requiring a clean branch. Staged keys changed by the merge are
    conflicts."""


@dataclass(frozen=True, slots=True)
class CommitProposals:
    """The commits that a request has stored and proposed to hooks."""

    repository: Repository
    operation: str
    """See `Proposal`."""
    request: CommitRequest
    merge_source: str = ""
    """The source of a merge, as requested."""
    made: dict[tuple[MetaRangeID, tuple[CommitID, ...]], Proposal] = field(default_factory=dict)
    """By content and parents."""

    @classmethod
    def begin(
        cls,
        repository: Repository,
        operation: str,
        request: CommitRequest,
        *,
        merge_source: str = "",
    ) -> Self:
        actor = current_actor()
        if actor.skips_hooks:
            metadata = {**request.metadata, HOOKS_SKIPPED: actor.user}
            request = replace(request, metadata=metadata)
        return cls(repository, operation, request, merge_source)
