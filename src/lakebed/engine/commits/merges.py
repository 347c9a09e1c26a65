"""Operations that give a clean branch a new head: merge, revert, cherry-pick, import.

Each makes sure that the branch is clean (`DirtyCheck`; a merge may leave alone what is staged),
makes the new content from the head of the branch record that was checked, and publishes by a swap
of that very record. If someone else changed the branch first, all of it is done again. The source
of a merge is one commit, chosen at the start.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakebed.engine.commits.build import MergeBuild, MergeBuildRequest
from lakebed.engine.commits.commit import CommitRequest
from lakebed.engine.commits.dirty import DirtyCheck
from lakebed.engine.commits.offers import Draft, OfferDesk, Wish
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.committed import CommittedFor, Interval, Strategy
from lakebed.engine.errors import (
    BranchNotFound,
    CommitExpired,
    Invalid,
    MetaRangeNotFound,
    NoChanges,
    ParentNumberMissing,
    TooManyTries,
)
from lakebed.engine.hooks import Hooks
from lakebed.engine.metrics import MERGE_SECONDS, measure_outcome
from lakebed.engine.model import Branch, BranchID, Commit, Repository
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.retention.marks import EXPIRED, Marks
from lakebed.engine.settings import EngineSettings
from lakebed.formats import MetaRangeID
from lakebed.ids import UniqueID
from lakebed.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)

_DOUBT_US: Final = 3600 * 1_000_000
"""Times of two servers that are closer than this do not say which was earlier."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What takes the place of some keys of a branch."""

    metarange_id: MetaRangeID
    intervals: Sequence[Interval]
    """In order, and not overlapping."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """What a merge asks for."""

    committer: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    strategy: Strategy | None = None
    """Which side wins where both changed a key; None: that is a conflict."""
    squash: bool = False
    """Leave the source out of the parents."""
    allow_empty: bool = False
    """Merge even if the source changed nothing."""
    keep_staged: bool = False
    """Leave alone what is staged on the branch, instead of refusing a branch that is not clean.
    Keys that are staged, and that the merge would change, are conflicts."""


class Merger:
    """Merges, reverts and cherry-picks onto clean branches."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        merge_bases: MergeBases,
        publisher: Publisher,
        dirty: DirtyCheck,
        committed_in: CommittedFor,
        build: MergeBuild,
        runtime: Runtime,
        *,
        hooks: Hooks,
        marks: Marks,
        refusals: Refusals,
        settings: EngineSettings,
    ) -> None:
        self._desk = OfferDesk(branches, commits, publisher, hooks, marks, refusals)
        self._marks = marks
        self._publisher = publisher
        self._branches = branches
        self._commits = commits
        self._merge_bases = merge_bases
        self._dirty = dirty
        self._committed_in = committed_in
        self._build = build
        self._runtime = runtime
        self._tries = settings.tries_max

    def merge(
        self,
        repository: Repository,
        branch: BranchID,
        source: Commit,
        request: MergeRequest,
        *,
        source_ref: str = "",
        known: Branch | None = None,
        note: Callable[[Commit], None] | None = None,
    ) -> Commit:
        """Merge a commit into a branch, which the caller may have read already.

        If it has, another branch of that name, made meanwhile, is not meant. `source_ref` is what
        the caller asked to merge, for hooks. `note` is called as in `replace`.

        Raises:
            BranchNotFound: There is no such branch, or it was deleted meanwhile.
            CommitExpired: The data of the commit is not kept any more.
            DirtyBranch: Something is staged on it, and `keep_staged` was not asked for.
            MergeConflict: Both sides changed the same keys; the error holds all of them.
            NoChanges: The source has nothing new.
            Invalid: The two have no commit in common.
            Refused: A hook refused it.
            TooManyTries: Others always changed the branch first.
        """

        def plan(head: Commit) -> Draft:
            base = self._merge_bases.find(repository, source.id, head.id)
            if base is None:
                raise Invalid(f"commit {source.id} and branch {branch} have no commit in common")
            # The first commit stands for no tree at all: emptying one is a change all the same.
            same = base.metarange_id == source.metarange_id and not base.is_first
            if (same or base.id == source.id) and not request.allow_empty:
                raise NoChanges(f"branch {branch} has all changes of commit {source.id} already")
            merged = self._merge(repository, base, source, head, request.strategy)
            return Draft(
                metarange_id=merged,
                parents=[head] if request.squash else [head, source],
                judge=source,
                sources=(source.id,),
            )

        wish = Wish(
            operation="merge",
            committer=request.committer,
            message=request.message,
            metadata=request.metadata,
            merge_source=source_ref or source.id,
        )
        with measure_outcome(MERGE_SECONDS, self._runtime, wish.operation):
            first = known or self._branches.get(repository, branch)
            keep = request.keep_staged
            return self._try_to_move(repository, first, wish, plan, note, keep_staged=keep)

    def revert(
        self,
        repository: Repository,
        branch: BranchID,
        commit: Commit,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Undo what a commit changed against one of its parents; raises as `merge` does.

        `parent_number` counts from 1, and must be given if the commit is a merge.

        Raises:
            ParentNumberMissing, Invalid: It is not given, or there is no such parent.
        """
        parent = self._parent(repository, commit, parent_number)

        def plan(head: Commit) -> Draft:
            return self._replay(repository, commit, parent, head, request)

        return self._move(repository, branch, request.wish("revert"), plan)

    def cherry_pick(
        self,
        repository: Repository,
        branch: BranchID,
        commit: Commit,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Repeat what a commit changed against one of its parents; raises as `revert` does."""
        parent = self._parent(repository, commit, parent_number)

        def plan(head: Commit) -> Draft:
            return self._replay(repository, parent, commit, head, request)

        return self._move(repository, branch, request.wish("cherry-pick"), plan)

    def commit_metarange(
        self,
        repository: Repository,
        branch: BranchID,
        metarange_id: MetaRangeID,
        request: CommitRequest,
    ) -> Commit:
        """Commit a metarange that a commit of this repository holds; raises as `merge` does.

        Ids are not secret, and files are not proof: a file may lie in the namespace of a repository
        that never made it. The repository's own commit records say what it made.

        Raises:
            MetaRangeNotFound: No commit of this repository has it.
            CommitExpired: All that have it have expired.
            MissingFile: Its file, or one of its ranges, is not in the storage.
        """
        source = self._find_holder(repository, metarange_id)
        self._committed_in(repository.home).check_stored(metarange_id)

        def plan(head: Commit) -> Draft:
            if head.metarange_id == metarange_id and not request.allow_empty:
                raise NoChanges(f"branch {branch} holds exactly that already")
            return Draft(
                metarange_id=metarange_id, parents=[head], judge=head, sources=(source.id,)
            )

        return self._move(repository, branch, request.wish("commit"), plan)

    def _find_holder(self, repository: Repository, metarange_id: MetaRangeID) -> Commit:
        """Return a commit that holds a metarange and whose data is there.

        The record of a commit that was refused, because a source of it had expired, is there too,
        and names objects that may be gone. Such a record was stored after the source had expired;
        any other was stored before, and has protected its objects since.
        """
        expired: CommitExpired | None = None
        for each in self._commits.list(repository):
            if each.metarange_id != metarange_id:
                continue
            marks = self._marks.find_all(repository, [each.id, *each.parents, *each.sources])
            ended = {
                commit_id: mark.message.expired_us
                for commit_id, mark in marks.items()
                if mark.message.state == EXPIRED
                and (commit_id == each.id or each.stored_us > mark.message.expired_us - _DOUBT_US)
            }
            if not ended:
                return each
            expired = CommitExpired(*ended.popitem())
        raise expired or MetaRangeNotFound(repository.id, metarange_id)

    def replace(
        self,
        repository: Repository,
        branch: BranchID,
        replacement: Replacement,
        request: CommitRequest,
        *,
        branch_unique_id: UniqueID,
        note: Callable[[Commit], None],
    ) -> Commit:
        """Replace intervals of keys of a branch by what a metarange holds there.

        Return the new commit, or the head if that changes nothing: then no commit is made.
        `note` is called with every commit that is about to be published, of which at most one will
        be; if it raises, that one will not be.
        Otherwise raises as `merge` does. Another branch of that name, made meanwhile, is not meant.
        """
        current = self._branches.get(repository, branch)
        if current.unique_id != branch_unique_id:
            raise BranchNotFound(branch)
        committed = self._committed_in(repository.home)

        def plan(head: Commit) -> Draft | None:
            replaced = committed.replace(
                head.metarange_id, replacement.metarange_id, replacement.intervals
            )
            if not committed.differ(head.metarange_id, replaced, start=b"", end=None):
                return None
            return Draft(metarange_id=replaced, parents=[head], judge=head)

        with measure_outcome(MERGE_SECONDS, self._runtime, "import"):
            return self._try_to_move(repository, current, request.wish("import"), plan, note)

    def _move(
        self,
        repository: Repository,
        branch: BranchID,
        wish: Wish,
        make_draft: Callable[[Commit], Draft],
    ) -> Commit:
        with measure_outcome(MERGE_SECONDS, self._runtime, wish.operation):
            first = self._branches.get(repository, branch)
            return self._try_to_move(repository, first, wish, make_draft)

    def _try_to_move(
        self,
        repository: Repository,
        first: Branch,
        wish: Wish,
        make_draft: Callable[[Commit], Draft | None],
        note: Callable[[Commit], None] | None = None,
        *,
        keep_staged: bool = False,
    ) -> Commit:
        """Return the commit made of a draft, or the head if there is no draft for it."""
        offers = self._desk.begin(repository, wish)
        prepare = self._dirty.seal if keep_staged else self._dirty.require_clean
        current: Branch | None = first
        for _ in range(self._tries):
            assert current is not None
            judged = prepare(repository, current)
            head = self._commits.get(repository, judged.commit_id)
            draft = make_draft(head)
            if draft is None:
                return head
            if keep_staged:
                before, after = head.metarange_id, draft.metarange_id
                self._dirty.require_apart(repository, judged, before, after)
            tokens = () if keep_staged else judged.sealed_tokens
            offer = offers.make(judged, draft, tokens)
            if offer is None:
                current = self._publisher.look_again(repository, judged)
                continue
            current = offers.publish(offer, judged, tokens, note)
            if current is None:
                return offer.commit
            _LOGGER.info(
                "the %s on %s is done again: the branch was changed", wish.operation, first.id
            )
        raise TooManyTries(f"the {wish.operation} on {first.id}", self._tries)

    def _replay(
        self,
        repository: Repository,
        base: Commit,
        source: Commit,
        head: Commit,
        request: CommitRequest,
    ) -> Draft:
        """Apply the difference between two commits to a head."""
        merged = self._merge(repository, base, source, head, None)
        if merged == head.metarange_id and not request.allow_empty:
            raise NoChanges(f"commit {head.id} has all of these changes already")
        return Draft(metarange_id=merged, parents=[head], judge=head, sources=(source.id,))

    def _merge(
        self,
        repository: Repository,
        base: Commit,
        source: Commit,
        head: Commit,
        strategy: Strategy | None,
    ) -> MetaRangeID:
        before, theirs, ours = base.metarange_id, source.metarange_id, head.metarange_id
        if ours == before:
            return theirs  # only the source has changed: nothing is read, and nothing is built
        if theirs in {before, ours}:
            return ours
        return self._build(MergeBuildRequest(repository.home, before, theirs, ours, strategy))

    def _parent(self, repository: Repository, commit: Commit, number: int | None) -> Commit:
        if number is None and len(commit.parents) == 1:
            number = 1
        if number is None:
            raise ParentNumberMissing(commit.id, len(commit.parents))
        if not 1 <= number <= len(commit.parents):
            raise Invalid(
                f"commit {commit.id} has no parent number {number}: it has {len(commit.parents)},"
                " counted from 1"
            )
        return self._commits.get(repository, commit.parents[number - 1])
