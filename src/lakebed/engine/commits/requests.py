"""The requests of operations that make a commit, and the commits that a request has proposed."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from lakebed.base.actor import current_actor
from lakebed.engine.committed import Interval, Strategy
from lakebed.engine.hooks import Proposal
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.formats import MetaRangeID

HOOKS_SKIPPED: Final = ".lakebed.hooks_skipped_by"
"""Key in the metadata of a commit that skipped all hooks: the user who asked for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """Message and metadata of a new commit."""

    committer: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    created_us: int | None = None
    """The date to record, or None for now."""
    allow_empty: bool = False
    """Commit even if nothing changed."""


HELP: Final = CommitRequest(
    committer="lakebed", message="Changes that interrupted commits had left behind"
)
"""The commit of tokens that others left sealed."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Outcome of a request to commit."""

    commit: Commit
    taken_along: bool = False
    """Whether it is the commit of another request, which took the changes along. The message and
    the metadata of this request are then in no commit."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A metarange that replaces intervals of keys of a branch."""

    metarange_id: MetaRangeID
    intervals: Sequence[Interval]
    """In order, and not overlapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest(CommitRequest):
    """Message and metadata of a merge, and how to make it."""

    strategy: Strategy | None = None
    """Which side wins where both changed a key; None: that is a conflict."""
    squash: bool = False
    """Leave the source out of the parents."""
    keep_staged: bool = False
    """Leave staged changes alone, instead of refusing a branch that is not clean. Keys that are
    staged, and that the merge would change, are conflicts."""


@dataclass(frozen=True, slots=True)
class CommitProposals:
    """The commits that one request has stored and proposed to hooks."""

    repository: Repository
    operation: str
    """See `Proposal`."""
    request: CommitRequest
    merge_source: str = ""
    """The source of a merge, as it was asked for."""
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
        """Return the proposals of a new request: none yet."""
        actor = current_actor()
        if actor.skips_hooks:
            metadata = {**request.metadata, HOOKS_SKIPPED: actor.user}
            request = replace(request, metadata=metadata)
        return cls(repository, operation, request, merge_source)
