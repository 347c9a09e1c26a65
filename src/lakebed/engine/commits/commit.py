"""Committing: seal, build, publish, without a lock.

1. **Seal.** Push the staging token onto the sealed tokens and take a new one, by compare-and-swap
   on the branch. Writers that acknowledge after this have seen the new token. What was acknowledged
   before is in the tokens that are sealed now.
2. **Build.** Scan those tokens and apply them to the branch's head. A writer may still add to a
   sealed token, but it will not acknowledge that.
3. **Publish.** Store the commit's record, offer it to hooks (`offers`), then swap the branch: the
   new head, without the tokens that the commit holds.

The rule of publishing, which all else serves: *the metarange equals apply(head, the tokens being
removed) of the very record that the swap replaces, and the parent is that head.*

When the swap fails, another one succeeded. Tokens are only ever taken from the oldest end, so those
of ours that are still named are the oldest on the branch. If the head is the same and all of ours
are still named, others only sealed more, and what was built still obeys the rule. Otherwise it is
built again: over the head of the record just read, from those of ours that are still named.

A committer has lost if none of its tokens is named any more. It looks for them in the history of
the branch. If every token that held changes was consumed by a commit, that commit took the changes
along, and is the answer. If not, someone discarded them, and the committer starts over with what is
staged now. It never infers success from absence.

A dead committer leaves sealed tokens behind. They stay readable, and the next commit takes them
along. At `sealed_tokens_max` a committer first publishes what is sealed, in a commit of its own,
and only then seals its own token, so that the list stays short. If that help is refused or fails,
it seals anyway: nobody is held up by another's trouble.

Losers delete nothing. Their commit records do no harm: no branch will ever lead to them, and only
hooks were told their ids.

A hook that runs before commits are prepared may write to the branch. It runs after a first seal and
build, which say whether there is such a hook at all; the branch is then sealed once more.
"""

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lakebed.engine.commits.build import Build, BuildRequest, Built
from lakebed.engine.commits.offers import Draft, OfferDesk, Offers, Wish
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.errors import BranchNotFound, NoChanges, TooManyTries
from lakebed.engine.hooks import Hooks, Preparation
from lakebed.engine.metrics import COMMIT_CHANGES, COMMIT_SECONDS, REBUILDS, measure_outcome
from lakebed.engine.model import Branch, BranchID, Commit, Repository, StagingToken
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.refusals import Refusals
from lakebed.engine.retention.marks import Marks
from lakebed.engine.settings import EngineSettings
from lakebed.errors import LakebedError
from lakebed.kv import StoreUnavailable
from lakebed.runtime import Runtime

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """What a committer asks for."""

    committer: str
    message: str
    metadata: dict[str, str] = field(default_factory=dict)
    created_us: int | None = None
    """The date to record; None: now."""
    allow_empty: bool = False
    """Commit even if nothing changed."""

    def wish(self, operation: str) -> Wish:
        """Return what it says of the commit that an operation makes."""
        return Wish(
            operation=operation,
            committer=self.committer,
            message=self.message,
            metadata=self.metadata,
            created_us=self.created_us,
        )


HELP: Final = CommitRequest(
    committer="lakebed", message="Changes that interrupted commits had left behind"
)
"""The commit of what others left sealed."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of a request to commit."""

    commit: Commit
    taken_along: bool = False
    """Whether it is the commit of someone else, which took the changes along. The message and the
    metadata of the request are then in no commit."""


@dataclass(frozen=True, slots=True)
class _Build:
    """What came of applying tokens to a head."""

    head: Commit
    tokens: tuple[StagingToken, ...]
    made: Built
    scanned_at: float
    """A moment before the scan began, on the monotonic clock."""

    def fits(self, branch: Branch, tokens: tuple[StagingToken, ...]) -> bool:
        """Whether it obeys the rule of publishing for this record."""
        return self.head.id == branch.commit_id and self.tokens == tokens


class Committer:
    """Commits what is staged on branches."""

    def __init__(
        self,
        branches: Branches,
        commits: Commits,
        publisher: Publisher,
        build: Build,
        runtime: Runtime,
        *,
        hooks: Hooks,
        marks: Marks,
        refusals: Refusals,
        settings: EngineSettings,
    ) -> None:
        self._desk = OfferDesk(branches, commits, publisher, hooks, marks, refusals)
        self._branches = branches
        self._commits = commits
        self._publisher = publisher
        self._make = build
        self._runtime = runtime
        self._hooks = hooks
        self._settings = settings

    def commit(
        self,
        repository: Repository,
        branch: BranchID,
        request: CommitRequest,
        *,
        known: Branch | None = None,
    ) -> CommitResult:
        """Commit what is staged on a branch, which the caller may have read already.

        What was acknowledged before this call began is in the commit.

        Raises:
            BranchNotFound: There is no such branch, or it was deleted meanwhile.
            NoChanges: Nothing is staged that differs from the head.
            Refused: A hook refused it; what is staged stays staged.
            TooManyTries: Others always came first.
            OutcomeUnknown: The store does not answer; the commit may have been published.
        """
        with measure_outcome(COMMIT_SECONDS, self._runtime):
            return self._commit(repository, branch, request, known)

    def _commit(
        self,
        repository: Repository,
        branch: BranchID,
        request: CommitRequest,
        known: Branch | None,
    ) -> CommitResult:
        offers = self._desk.begin(repository, request.wish("commit"))
        is_prepared = False
        for _ in range(self._settings.tries_max):
            current = known or self._branches.get(repository, branch)
            known = None
            if len(current.sealed_tokens) >= self._settings.sealed_tokens_max:
                self._help(repository, current)
                current = self._branches.get(repository, branch)
            sealed = self._publisher.seal(repository, current)
            build = self._build(repository, sealed, sealed.sealed_tokens)
            if not is_prepared:
                is_prepared = True
                if self._hooks.prepare_commit(_preparation(repository, sealed, build, request)):
                    sealed = self._publisher.seal(repository, sealed)
            result = self._publish(repository, sealed, request, offers, build)
            if result is not None:
                return result
        raise TooManyTries(f"the commit on {branch}", self._settings.tries_max)

    def _help(self, repository: Repository, branch: Branch) -> None:
        """Publish what others left sealed."""
        offers = self._desk.begin(repository, HELP.wish("commit"))
        try:
            self._publish(repository, branch, HELP, offers)
        except (BranchNotFound, StoreUnavailable):
            raise
        except LakebedError as error:
            # Refused by a hook, no changes, others were faster. The list may grow beyond its bound
            # for now: better than that this commit fails for another's trouble.
            _LOGGER.info("what others left sealed on %s was not published: %s", branch.id, error)

    def _publish(
        self,
        repository: Repository,
        sealed: Branch,
        request: CommitRequest,
        offers: Offers,
        build: _Build | None = None,
    ) -> CommitResult | None:
        """Commit the sealed tokens of a branch, which may have been built already.

        None: they were discarded, start over.
        """
        current = sealed
        first = build
        for _ in range(self._settings.tries_max):
            tokens = _still_named(sealed.sealed_tokens, current)
            if not tokens:
                return self._find_taker(repository, current, first)
            if build is None or not build.fits(current, tokens):
                if first is not None:
                    REBUILDS.inc()
                    _LOGGER.info("building the commit on %s again", sealed.id)
                build = self._build(repository, current, tokens)
                first = first or build
            if not build.made.summary and not request.allow_empty:
                current = self._trim_or_raise(repository, current, tokens)
                continue
            draft = Draft(metarange_id=build.made.metarange_id, parents=[build.head])
            is_young = partial(self._is_young, build)
            offer = offers.make(current, draft, tokens, is_scan_young=is_young)
            if offer is None:
                build = None
                current = self._publisher.look_again(repository, sealed)
                continue
            moved_on = offers.publish(offer, current, tokens)
            if moved_on is None:
                summary = build.made.summary
                COMMIT_CHANGES.observe(summary.added + summary.changed + summary.removed)
                return CommitResult(offer.commit)
            current = moved_on
        raise TooManyTries(f"publishing on {sealed.id}", self._settings.tries_max)

    def _build(
        self, repository: Repository, branch: Branch, tokens: tuple[StagingToken, ...]
    ) -> _Build:
        head = self._commits.get(repository, branch.commit_id)
        scanned_at = self._runtime.monotonic()
        request = BuildRequest(repository.home, head.metarange_id, tokens)
        return _Build(head, tokens, self._make(request), scanned_at)

    def _is_young(self, build: _Build) -> bool:
        age_seconds = self._runtime.monotonic() - build.scanned_at
        return age_seconds <= self._settings.scan_limit_seconds

    def _trim_or_raise(
        self, repository: Repository, branch: Branch, tokens: tuple[StagingToken, ...]
    ) -> Branch:
        """Drop tokens that change nothing and raise `NoChanges`; or return the branch as it is now.

        The swap of the very record that was judged proves that the judgement still holds.
        """
        moved_on = self._publisher.trim(repository, branch, tokens)
        if moved_on is None:
            raise NoChanges(f"there is nothing to commit on {branch.id}")
        return moved_on

    def _find_taker(
        self, repository: Repository, branch: Branch, first: _Build | None
    ) -> CommitResult | None:
        """Return the commit that took our tokens; None: some were discarded, or never read."""
        if first is None or not first.made.held:
            return None
        missing = set(first.made.held)
        taker: Commit | None = None
        for commit in self._publisher.first_parents(repository, branch.commit_id):
            if commit.generation <= first.head.generation:
                return None
            if missing.intersection(commit.consumed_tokens):
                taker = taker or commit
                missing.difference_update(commit.consumed_tokens)
                if not missing:
                    _LOGGER.info("commit %s took the changes on %s along", taker.id, branch.id)
                    return CommitResult(taker, taken_along=True)
        return None


def _still_named(mine: tuple[StagingToken, ...], branch: Branch) -> tuple[StagingToken, ...]:
    """Those of our tokens that the branch still names: the oldest ones it has."""
    named = set(branch.sealed_tokens)
    tokens = tuple(token for token in mine if token in named)
    assert branch.sealed_tokens[len(branch.sealed_tokens) - len(tokens) :] == tokens, (
        "tokens are only ever taken from the oldest end"
    )
    return tokens


def _preparation(
    repository: Repository, branch: Branch, build: _Build, request: CommitRequest
) -> Preparation:
    return Preparation(
        repository=repository,
        branch=branch.id,
        head=build.head,
        metarange_id=build.made.metarange_id,
        committer=request.committer,
        message=request.message,
        metadata=request.metadata,
    )
