"""Operations that replace the head of a clean branch: merge, revert, cherry-pick, import.

Each ensures a clean branch (`UncommittedChanges`; a merge may keep staged changes), builds the new
content from the head of the checked branch record, and publishes by a swap of this exact record
(`Committer`). After a concurrent change of the branch, all steps are repeated. The source of a
merge is a commit chosen at the start.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime, UniqueID
from lakebed.engine.commits.build import Builds, MergeBuildRequest
from lakebed.engine.commits.commit import Committer
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.requests import (
    CommitProposals,
    CommitRequest,
    MergeRequest,
    Replacement,
)
from lakebed.engine.commits.uncommitted import UncommittedChanges
from lakebed.engine.committed import CommittedFor, Strategy
from lakebed.engine.errors import (
    BranchNotFound,
    CommitExpired,
    Invalid,
    MetaRangeNotFound,
    NoChanges,
    ParentNumberMissing,
    TooManyTries,
)
from lakebed.engine.expiry_marks import EXPIRED, ExpiryMarks
from lakebed.engine.metrics import MERGE_SECONDS, measure_outcome
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.formats import MetaRangeID

_LOGGER: Final = logging.getLogger(__name__)

_DOUBT_US: Final = 3600 * 1_000_000
"""Times of two servers closer than this do not tell which was earlier."""


@dataclass(slots=True)
class _Attempt:
    """A request to replace the head of a clean branch, and the state of its latest try."""

    proposals: CommitProposals
    branch: Branch
    """The branch as last read."""
    note: Callable[[Commit], None] | None = None
    keep_staged: bool = False
    tries: int = 0


class Merger:
    """Merges, reverts and cherry-picks onto clean branches."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        merge_bases: MergeBases,
        publisher: Publisher,
        committer: Committer,
        uncommitted: UncommittedChanges,
        committed_in: CommittedFor,
        builds: Builds,
        runtime: Runtime,
        *,
        marks: ExpiryMarks,
        settings: EngineSettings,
    ) -> None:
        self._marks = marks
        self._publisher = publisher
        self._committer = committer
        self._branches = branches
        self._commits = commits
        self._merge_bases = merge_bases
        self._uncommitted = uncommitted
        self._committed_in = committed_in
        self._builds = builds
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
        """Merge a commit into a branch; `known` is the branch if already read.

        With `known`, a new branch of the same name counts as missing. `source_ref` is the requested
        ref, for hooks. `note` is called as in `replace`.

        Raises:
            BranchNotFound: The branch does not exist, or was deleted concurrently.
            CommitExpired: The source has expired.
            DirtyBranch: The branch has staged changes, without `keep_staged`.
            MergeConflict: Both sides changed the same keys; the error lists all of them.
            NoChanges: The source has nothing new.
            Invalid: The two have no common ancestor.
            Refused: A hook refused it.
            TooManyTries: Concurrent changes won every time.
        """
        with measure_outcome(MERGE_SECONDS, self._runtime, "merge"):
            proposals = CommitProposals.begin(
                repository, "merge", request, merge_source=source_ref or source.id
            )
            current = known or self._branches.get(repository, branch)
            attempt = _Attempt(proposals, current, note, keep_staged=request.keep_staged)
            while True:
                head = self._read_head(attempt)
                base = self._merge_bases.find(repository, source.id, head.id)
                if base is None:
                    raise Invalid(f"commit {source.id} and branch {branch} have no common ancestor")
                # The initial commit stands for no tree at all: emptying a tree is still a change.
                same = base.metarange_id == source.metarange_id and not base.is_first
                if (same or base.id == source.id) and not request.allow_empty:
                    raise NoChanges(
                        f"already up to date: branch {branch} has all changes of commit {source.id}"
                    )
                merged = self._merge(repository, base, source, head, request.strategy)
                parents = [head] if request.squash else [head, source]
                commit = self._publish(attempt, merged, parents, judge=source, sources=[source.id])
                if commit is not None:
                    return commit

    def revert(
        self,
        repository: Repository,
        branch: BranchID,
        commit: Commit,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Undo the changes of a commit against one of its parents; raises as `merge`.

        `parent_number` counts from 1; raises `ParentNumberMissing` if None for a merge, `Invalid`
        if out of range.
        """
        parent = self._parent(repository, commit, parent_number)
        return self._replay(repository, branch, "revert", request, base=commit, source=parent)

    def cherry_pick(
        self,
        repository: Repository,
        branch: BranchID,
        commit: Commit,
        request: CommitRequest,
        *,
        parent_number: int | None = None,
    ) -> Commit:
        """Repeat the changes of a commit against one of its parents; raises as `revert`."""
        parent = self._parent(repository, commit, parent_number)
        return self._replay(repository, branch, "cherry-pick", request, base=parent, source=commit)

    def _replay(
        self,
        repository: Repository,
        branch: BranchID,
        operation: str,
        request: CommitRequest,
        *,
        base: Commit,
        source: Commit,
    ) -> Commit:
        with measure_outcome(MERGE_SECONDS, self._runtime, operation):
            proposals = CommitProposals.begin(repository, operation, request)
            attempt = _Attempt(proposals, self._branches.get(repository, branch))
            while True:
                head = self._read_head(attempt)
                merged = self._merge(repository, base, source, head, None)
                if merged == head.metarange_id and not request.allow_empty:
                    raise NoChanges(
                        f"already up to date: commit {head.id} has all of these changes"
                    )
                commit = self._publish(attempt, merged, [head], judge=head, sources=[source.id])
                if commit is not None:
                    return commit

    def commit_metarange(
        self,
        repository: Repository,
        branch: BranchID,
        metarange_id: MetaRangeID,
        request: CommitRequest,
    ) -> Commit:
        """Commit a metarange of an existing commit of this repository; raises as `merge`.

        Ids are not secret, and files are not proof: a namespace may contain files never written by
        its repository. The repository's own commit records are the proof.

        Raises:
            MetaRangeNotFound: No commit of this repository has the metarange.
            CommitExpired: All commits with the metarange have expired.
            MissingFile: Its file, or the file of a range, is not in the storage.
        """
        source = self._find_holder(repository, metarange_id)
        self._committed_in(repository.files_root).check_stored(metarange_id)
        with measure_outcome(MERGE_SECONDS, self._runtime, "commit"):
            proposals = CommitProposals.begin(repository, "commit", request)
            attempt = _Attempt(proposals, self._branches.get(repository, branch))
            while True:
                head = self._read_head(attempt)
                if head.metarange_id == metarange_id and not request.allow_empty:
                    raise NoChanges(f"already up to date: branch {branch} has this metarange")
                commit = self._publish(
                    attempt, metarange_id, [head], judge=head, sources=[source.id]
                )
                if commit is not None:
                    return commit

    def _find_holder(self, repository: Repository, metarange_id: MetaRangeID) -> Commit:
        """Return a commit with a metarange and with data that is kept.

        A commit refused because a source had expired also has a record, which may reference deleted
        objects. Such a record was stored after the source had expired; any other was stored before,
        and has protected its objects since.
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
        """Replace key ranges of a branch by those of a metarange; raises as `merge`.

        Returns the new commit, or the head if no entry changes and `request` does not allow an
        empty commit. `note` is called with every commit about to be published, of which at most one
        will be; if `note` raises, its commit is not published. A new branch of the same name counts
        as missing.
        """
        current = self._branches.get(repository, branch)
        if current.unique_id != branch_unique_id:
            raise BranchNotFound(branch)
        committed = self._committed_in(repository.files_root)
        with measure_outcome(MERGE_SECONDS, self._runtime, "import"):
            proposals = CommitProposals.begin(repository, "import", request)
            attempt = _Attempt(proposals, current, note)
            while True:
                head = self._read_head(attempt)
                replaced = committed.replace(
                    head.metarange_id, replacement.metarange_id, replacement.intervals
                )
                differs = committed.differ(head.metarange_id, replaced, start=b"", end=None)
                if not (differs or request.allow_empty):
                    return head
                commit = self._publish(attempt, replaced, [head], judge=head)
                if commit is not None:
                    return commit

    def _read_head(self, attempt: _Attempt) -> Commit:
        """Return the head of the branch once it may be replaced; raises as `UncommittedChanges`."""
        if attempt.tries == self._tries:
            operation = f"the {attempt.proposals.operation} on {attempt.branch.id}"
            raise TooManyTries(operation, self._tries)
        attempt.tries += 1
        prepare = self._uncommitted.seal if attempt.keep_staged else self._uncommitted.require_clean
        attempt.branch = prepare(attempt.proposals.repository, attempt.branch)
        return self._commits.get(attempt.proposals.repository, attempt.branch.commit_id)

    def _publish(
        self,
        attempt: _Attempt,
        metarange_id: MetaRangeID,
        parents: Sequence[Commit],
        *,
        judge: Commit,
        sources: Sequence[CommitID] = (),
    ) -> Commit | None:
        """Return the new commit, or None if the branch changed: repeat with its head."""
        proposals, branch = attempt.proposals, attempt.branch
        if attempt.keep_staged:
            before = parents[0].metarange_id
            self._uncommitted.check_conflicts(proposals.repository, branch, before, metarange_id)
        tokens = () if attempt.keep_staged else branch.sealed_tokens
        proposal = self._committer.propose(
            proposals, branch, tokens, metarange_id, parents, judge=judge, sources=sources
        )
        if proposal is None:
            attempt.branch = self._publisher.reread(proposals.repository, branch)
            return None
        moved_on = self._committer.publish(proposal, branch, tokens, attempt.note)
        if moved_on is None:
            return proposal.commit
        attempt.branch = moved_on
        _LOGGER.info(
            "repeating the %s on %s: the branch was changed", proposals.operation, branch.id
        )
        return None

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
            return theirs  # only the source has changed: nothing to read or build
        if theirs in {before, ours}:
            return ours
        request = MergeBuildRequest(repository.files_root, before, theirs, ours, strategy)
        return self._builds.merge(request)

    def _parent(self, repository: Repository, commit: Commit, number: int | None) -> Commit:
        if not commit.parents:
            raise Invalid(f"commit {commit.id} is the first of its history: choose a later one")
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
