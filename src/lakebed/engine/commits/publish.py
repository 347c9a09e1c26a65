"""Compare-and-swaps of a branch record (seal, publish, trim), and their outcomes.

A store that is full, locked or unavailable reports that no record was changed. By then the call was
retried often enough (`lakebed.kv.retries`): starting over would only delay the caller.
"""

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from lakebed.base.runtime import Runtime
from lakebed.engine.errors import BranchNotFound, TooManyTries
from lakebed.engine.model import (
    Branch,
    Commit,
    CommitID,
    Repository,
    StagingToken,
    new_staging_token,
)
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.kv import OutcomeUnknown, PredicateFailed, StoreUnavailable
from lakebed.kv.store import still_unknown

_LOGGER: Final = logging.getLogger(__name__)


class Publisher:
    """Swaps of branch records, for all operations that change a branch's head."""

    def __init__(
        self, branches: Branches, commits: Commits, runtime: Runtime, settings: EngineSettings
    ) -> None:
        self._branches = branches
        self._commits = commits
        self._runtime = runtime
        self._tries = settings.tries_max

    def seal(self, repository: Repository, branch: Branch) -> Branch:
        """Give the branch a new staging token and seal the old one; return the new record.

        Raises:
            BranchNotFound: The branch was deleted or replaced concurrently.
            TooManyTries: Concurrent changes won every time.
        """
        current = branch
        for _ in range(self._tries):
            token = new_staging_token(self._runtime, repository.id, branch.id)
            try:
                return self._branches.change(
                    repository, current, staging_token=token, sealed_tokens=current.tokens
                )
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                # If our swap was applied after all, sealing once more does no harm.
                current = self.reread(repository, branch)
        raise TooManyTries(f"sealing branch {branch.id}", self._tries)

    def publish(
        self, repository: Repository, branch: Branch, commit: Commit, tokens: Sequence[StagingToken]
    ) -> Branch | None:
        """Make a commit the head of a branch, and drop the tokens it contains.

        The commit was stored, and the drop announced, before (`Committer.propose`). Returns None on
        success, or the branch after a concurrent change, read by `reread`.
        """
        rest = _without(branch, tokens)
        try:
            self._branches.change(repository, branch, commit_id=commit.id, sealed_tokens=rest)
        except PredicateFailed:
            return self.reread(repository, branch)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with still_unknown(unknown):
                current = self.reread(repository, branch)
                return None if self._is_ancestor(repository, commit, current) else current
        return None

    def trim(
        self, repository: Repository, branch: Branch, tokens: Sequence[StagingToken]
    ) -> Branch | None:
        """Drop tokens without effect from a branch.

        Returns None on success, or the branch read by `reread` if success is not certain.
        """
        rest = _without(branch, tokens)
        self._branches.announce_drop(repository, branch.id, tokens)
        try:
            self._branches.change(repository, branch, sealed_tokens=rest)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return self.reread(repository, branch)
        return None

    def find_consumer(
        self,
        repository: Repository,
        branch: Branch,
        tokens: frozenset[StagingToken],
        *,
        over: Commit,
    ) -> Commit | None:
        """Return the newest commit that took another request's changes along, or None.

        `branch` has none of the tokens any more. Any tokens not consumed by commits were discarded.
        `over` is the head under which the tokens were read: neither it nor its history took them.
        """
        missing = set(tokens)
        consumer: Commit | None = None
        for commit in self.first_parents(repository, branch.commit_id):
            if not missing or commit.generation <= over.generation:
                break
            if missing.intersection(commit.consumed_tokens):
                consumer = consumer or commit
                missing.difference_update(commit.consumed_tokens)
        if missing or consumer is None:
            return None
        _LOGGER.info("commit %s took the changes on %s along", consumer.id, branch.id)
        return consumer

    def find_published(
        self, repository: Repository, branch: Branch, commit_ids: Collection[CommitID]
    ) -> CommitID | None:
        """Return which of the commits led to the branch, or None; the rest no longer can.

        For a process that takes over from one that was about to publish: rewrites the branch record
        unchanged, so that a swap still in flight fails. Raises as `seal`.
        """
        current = self._touch(repository, branch)
        return self.find_leading(repository, current.commit_id, commit_ids)

    def find_leading(
        self, repository: Repository, head: CommitID, commit_ids: Collection[CommitID]
    ) -> CommitID | None:
        """Return which of the commits is a first-parent ancestor of a head, or None."""
        oldest = min(
            (self._commits.get(repository, each).generation for each in commit_ids), default=0
        )
        for commit in self.first_parents(repository, head):
            if commit.id in commit_ids:
                return commit.id
            if commit.generation <= oldest:
                break
        return None

    def _touch(self, repository: Repository, branch: Branch) -> Branch:
        current = self.reread(repository, branch)
        for _ in range(self._tries):
            try:
                return self._branches.change(repository, current)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                current = self.reread(repository, branch)
        raise TooManyTries(f"rewriting branch {branch.id}", self._tries)

    def reread(self, repository: Repository, branch: Branch) -> Branch:
        """Read a branch again; raise `BranchNotFound` if deleted or replaced."""
        current = self._branches.get(repository, branch.id)
        if current.unique_id != branch.unique_id:
            raise BranchNotFound(branch.id)
        return current

    def first_parents(self, repository: Repository, commit_id: CommitID) -> Iterator[Commit]:
        """Iterate over a commit and its first-parent ancestors, newest first."""
        following: CommitID | None = commit_id
        while following is not None:
            commit = self._commits.get(repository, following)
            yield commit
            following = commit.parents[0] if commit.parents else None

    def _is_ancestor(self, repository: Repository, commit: Commit, branch: Branch) -> bool:
        for other in self.first_parents(repository, branch.commit_id):
            if other.id == commit.id:
                return True
            if other.generation <= commit.generation:
                return False
        return False


def _without(branch: Branch, tokens: Sequence[StagingToken]) -> tuple[StagingToken, ...]:
    """Return the sealed tokens of a branch without `tokens`, its oldest ones."""
    count = len(branch.sealed_tokens) - len(tokens)
    assert branch.sealed_tokens[count:] == tuple(tokens), "only the oldest tokens are ever taken"
    return branch.sealed_tokens[:count]
