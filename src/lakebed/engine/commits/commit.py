"""Committing: seal, build, store, ask hooks, publish, without a lock.

1. **Seal.** Push the staging token onto the sealed tokens and take a new one, by compare-and-swap
   on the branch. Writers that acknowledge after this have seen the new token. Writes acknowledged
   before are in the tokens now sealed.
2. **Build.** Scan the sealed tokens and apply them to the branch's head. A writer may still add to
   a sealed token, but will not acknowledge such a write.
3. **Store** the commit's record, which protects the content from then on. Then check the scan
   limit, once: garbage collection reads commit records after staged entries, and may have missed
   content found only by a scan that is too old. Then check the sources: expiry marks commits first
   and then scans for records that took from them, so one of the two sees the other. No hook is told
   the id before these checks.
4. **Ask hooks.** They can read the commit, and may refuse it. A hook may take long.
5. **Publish.** Note the id, if the caller asked for it, and swap the branch record: the new head,
   without the tokens that the commit contains.

The rule of publishing, which everything else serves: *the metarange equals apply(head, the tokens
being removed) of the exact record that the swap replaces, and the parent is that head.*

When the swap fails, another swap succeeded. Tokens are only ever removed from the oldest end, so
our tokens that remain are the oldest on the branch. If the head is the same and all our tokens
remain, other committers only sealed more, and our build still obeys the rule. Otherwise the content
is built again: over the head of the record just read, from our remaining tokens.

The published record is the one that hooks approved: if content and parents would be the same again,
the same record is retried, never an equal one. Any other content is stored, checked and proposed
again. (A retried record may have expired while the branch was elsewhere, so its own mark is read
first.)

A committer has lost if none of its tokens remains. It searches the history of the branch for them.
If commits consumed every token that had changes, the newest of these commits took the changes
along, and is the answer. If not, the changes were discarded, and the committer starts over with the
changes staged now. It never infers success from absence.

A dead committer leaves sealed tokens behind. They stay readable, and the next commit takes them
along. At `sealed_tokens_max` a committer first publishes the sealed tokens, in a separate commit,
and only then seals its own token, so that the list stays short. If this help is refused or fails,
it seals anyway: no committer is blocked by another's failure.

Losers delete nothing. Their commit records do no harm: no branch will ever lead to them, and only
hooks were told their ids.

A hook that runs before commits are prepared may write to the branch. It runs after a first seal and
build, which tell whether such a hook exists; the branch is then sealed again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime
from lakebed.engine.commits.build import BuildRequest, Builds, Built
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.requests import LEFTOVERS, CommitProposals, CommitRequest, CommitResult
from lakebed.engine.errors import BranchNotFound, CommitExpired, NoChanges, Refused, TooManyTries
from lakebed.engine.expiry_marks import EXPIRED, ExpiryMarks
from lakebed.engine.hooks import Hooks, Preparation, Proposal
from lakebed.engine.metrics import COMMIT_CHANGES, COMMIT_SECONDS, REBUILDS, measure_outcome
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository, StagingToken
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.resolve import Refusals
from lakebed.engine.settings import EngineSettings
from lakebed.formats import MetaRangeID
from lakebed.kv import StoreUnavailable

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Build:
    """Tokens applied to a head."""

    head: Commit
    tokens: tuple[StagingToken, ...]
    made: Built
    scanned_at: float
    """Monotonic time before the scan began."""

    def fits(self, branch: Branch, tokens: tuple[StagingToken, ...]) -> bool:
        """Whether the build obeys the rule of publishing for this record."""
        return self.head.id == branch.commit_id and self.tokens == tokens


class Committer:
    """Commits staged changes, and publishes the commits of other operations."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        publisher: Publisher,
        builds: Builds,
        runtime: Runtime,
        *,
        hooks: Hooks,
        marks: ExpiryMarks,
        refusals: Refusals,
        settings: EngineSettings,
    ) -> None:
        self._branches = branches
        self._commits = commits
        self._publisher = publisher
        self._builds = builds
        self._runtime = runtime
        self._hooks = hooks
        self._marks = marks
        self._refusals = refusals
        self._settings = settings

    def commit(
        self,
        repository: Repository,
        branch: BranchID,
        request: CommitRequest,
        *,
        known: Branch | None = None,
    ) -> CommitResult:
        """Commit the staged changes of a branch; `known` is the branch if already read.

        The commit contains all writes acknowledged before this call began.

        Raises:
            BranchNotFound: The branch does not exist, or was deleted concurrently.
            NoChanges: No staged change differs from the head.
            Refused: A hook refused it; staged changes are kept.
            TooManyTries: Concurrent changes won every time.
            OutcomeUnknown: The store does not answer; the commit may have been published.
        """
        with measure_outcome(COMMIT_SECONDS, self._runtime):
            proposals = CommitProposals.begin(repository, "commit", request)
            for number in range(self._settings.tries_max):
                current = known or self._branches.get(repository, branch)
                known = None
                if len(current.sealed_tokens) >= self._settings.sealed_tokens_max:
                    self._publish_leftovers(repository, current)
                    current = self._branches.get(repository, branch)
                sealed = self._publisher.seal(repository, current)
                build = self._build(repository, sealed, sealed.sealed_tokens)
                if number == 0:
                    preparation = Preparation(
                        repository=repository,
                        branch=branch,
                        head=build.head,
                        metarange_id=build.made.metarange_id,
                        committer=request.committer,
                        message=request.message,
                        metadata=request.metadata,
                    )
                    if self._hooks.prepare_commit(preparation):
                        sealed = self._publisher.seal(repository, sealed)
                result = self._commit_sealed(proposals, sealed, build)
                if result is not None:
                    return result
            raise TooManyTries(f"the commit on {branch}", self._settings.tries_max)

    def _publish_leftovers(self, repository: Repository, branch: Branch) -> None:
        try:
            self._commit_sealed(CommitProposals.begin(repository, "commit", LEFTOVERS), branch)
        except (BranchNotFound, StoreUnavailable):
            raise
        except LakebedError as error:
            # Refused by a hook, no changes, or others were faster. The list may exceed its bound
            # for now: better than failing this commit for another's error.
            _LOGGER.info("cannot publish the tokens left sealed on %s: %s", branch.id, error)

    def _commit_sealed(
        self, proposals: CommitProposals, sealed: Branch, build: _Build | None = None
    ) -> CommitResult | None:
        """Commit the sealed tokens of a branch; return None if they were discarded: start over.

        `build` is their build, if already made.
        """
        repository, current, first = proposals.repository, sealed, build
        for _ in range(self._settings.tries_max):
            tokens = _remaining(sealed.sealed_tokens, current)
            if not tokens:
                if first is None:
                    return None
                consumer = self._publisher.find_consumer(
                    repository, current, first.made.nonempty, over=first.head
                )
                return None if consumer is None else CommitResult(consumer, taken_along=True)
            if build is None or not build.fits(current, tokens):
                if first is not None:
                    REBUILDS.inc()
                    _LOGGER.info("rebuilding the commit on %s", sealed.id)
                build = self._build(repository, current, tokens)
                first = first or build
            if not build.made.summary and not proposals.request.allow_empty:
                # The swap of the exact record judged proves that this still holds.
                moved_on = self._publisher.trim(repository, current, tokens)
                if moved_on is None:
                    raise NoChanges(
                        f"nothing to commit on {sealed.id}: change objects first, or allow an"
                        " empty commit (--allow-empty on the command line)"
                    )
                current = moved_on
                continue
            proposal = self.propose(
                proposals,
                current,
                tokens,
                build.made.metarange_id,
                [build.head],
                scanned_at=build.scanned_at,
            )
            if proposal is None:
                build = None
                current = self._publisher.reread(repository, sealed)
                continue
            moved_on = self.publish(proposal, current, tokens)
            if moved_on is None:
                summary = build.made.summary
                COMMIT_CHANGES.observe(summary.added + summary.changed + summary.removed)
                return CommitResult(proposal.commit)
            current = moved_on
        raise TooManyTries(f"publishing on {sealed.id}", self._settings.tries_max)

    def _build(
        self, repository: Repository, branch: Branch, tokens: tuple[StagingToken, ...]
    ) -> _Build:
        head = self._commits.get(repository, branch.commit_id)
        scanned_at = self._runtime.monotonic()
        request = BuildRequest(repository.files_root, head.metarange_id, tokens)
        return _Build(head, tokens, self._builds.apply(request), scanned_at)

    # Steps shared by all operations

    def propose(
        self,
        proposals: CommitProposals,
        branch: Branch,
        tokens: Sequence[StagingToken],
        metarange_id: MetaRangeID,
        parents: Sequence[Commit],
        *,
        judge: Commit | None = None,
        sources: Sequence[CommitID] = (),
        scanned_at: float | None = None,
    ) -> Proposal | None:
        """Store a commit, check it and ask hooks; return the earlier proposal if one is equal.

        - `branch`: the branch record used for the content.
        - `tokens`: the tokens to drop when the commit is published.
        - `parents`: the first is the head that the commit replaces.
        - `judge`: the commit with the rules to apply, or None for the new commit itself.
        - `sources`: commits besides the first parent with reused content.
        - `scanned_at`: monotonic time before the scan of the content, or None for no scan.

        Returns:
            None if the content is too old, or the head has expired, so that the branch has changed:
                no hook was asked. The caller reads the branch again.

        Raises:
            CommitExpired: A source has expired.
            Refused: A hook refused the commit.
        """
        repository, request = proposals.repository, proposals.request
        key = metarange_id, tuple(parent.id for parent in parents)
        made = proposals.made.get(key)
        if made is not None and self._is_kept(repository, made.commit):
            if tokens:
                self._branches.announce_drop(repository, branch.id, tokens)
            return made
        commit = self._commits.add(
            repository,
            committer=request.committer,
            message=request.message,
            metarange_id=metarange_id,
            parents=parents,
            metadata=request.metadata,
            created_us=request.created_us,
            consumed_tokens=tokens,
            branch=branch.id,
            sources=sources,
            beside=self._branches.announcements(repository, branch.id, tokens) if tokens else (),
        )
        limit_seconds = self._settings.scan_limit_seconds
        if scanned_at is not None and self._runtime.monotonic() - scanned_at > limit_seconds:
            return None
        if not self._check_sources(repository, commit):
            return None
        proposal = Proposal(
            operation=proposals.operation,
            repository=repository,
            branch=branch.id,
            branch_unique_id=branch.unique_id,
            commit=commit,
            head=parents[0],
            judge=judge or commit,
            merge_source=proposals.merge_source,
            number=len(proposals.made) + 1,
        )
        try:
            self._hooks.before_commit(proposal)
        except Refused as refused:
            self._refusals.note(repository, commit.id, refused)
            raise
        proposals.made[key] = proposal
        return proposal

    def publish(
        self,
        proposal: Proposal,
        branch: Branch,
        tokens: Sequence[StagingToken],
        note: Callable[[Commit], None] | None = None,
    ) -> Branch | None:
        """Try to make a proposed commit the head; returns as `Publisher.publish`."""
        if note is not None:
            note(proposal.commit)
        self._hooks.before_publish(proposal)
        moved_on = self._publisher.publish(proposal.repository, branch, proposal.commit, tokens)
        if moved_on is None:
            self._hooks.after_commit(proposal)
        return moved_on

    def _check_sources(self, repository: Repository, commit: Commit) -> bool:
        """Check in one store call that no source of a commit has expired; raise `CommitExpired`.

        Returns False if the head has expired: then the branch has another head.
        """
        head, *merged = commit.parents
        sources = dict.fromkeys((*merged, *commit.sources))
        found = self._marks.find_all(repository, [head, *sources])
        for source in sources:
            if source in found and found[source].message.state == EXPIRED:
                raise CommitExpired(source, found[source].message.expired_us)
        return head not in found or found[head].message.state != EXPIRED

    def _is_kept(self, repository: Repository, commit: Commit) -> bool:
        """Whether a commit proposed before has not expired, and will not now."""
        try:
            self._marks.check_ref(repository, commit.id)
        except CommitExpired:
            return False
        return True


def _remaining(mine: tuple[StagingToken, ...], branch: Branch) -> tuple[StagingToken, ...]:
    """Return our tokens still on the branch, which are its oldest."""
    named = set(branch.sealed_tokens)
    tokens = tuple(token for token in mine if token in named)
    assert branch.sealed_tokens[len(branch.sealed_tokens) - len(tokens) :] == tokens, (
        "tokens are only ever taken from the oldest end"
    )
    return tokens
