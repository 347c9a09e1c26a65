"""The swaps of a branch record that seal, publish and trim, and what to do after a lost reply.

A store that is full, locked or away says that nothing was changed. It was asked often enough by
then (`lakebed.kv.wrappers.retries`): to start over would only keep the caller waiting.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from lakebed.engine.errors import BranchNotFound, TooManyTries
from lakebed.engine.model import (
    Branch,
    BranchID,
    Commit,
    CommitID,
    Repository,
    StagingToken,
    new_staging_token,
)
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.kv import OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.store import Placed, settling
from lakebed.runtime import Runtime


class Publisher:
    """Swaps branch records, for all operations that give a branch a new head."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        commits: Commits,
        runtime: Runtime,
        settings: EngineSettings,
    ) -> None:
        self._store = store
        self._branches = branches
        self._commits = commits
        self._runtime = runtime
        self._tries = settings.tries_max

    def seal(self, repository: Repository, branch: Branch) -> Branch:
        """Give the branch a new staging token and seal the old one; return the new record.

        Raises:
            BranchNotFound: The branch was deleted meanwhile, and perhaps made again.
            TooManyTries: Others always changed the branch first.
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
                current = self.look_again(repository, branch)
        raise TooManyTries(f"sealing branch {branch.id}", self._tries)

    def store_commit(
        self,
        repository: Repository,
        branch: BranchID,
        tokens: Sequence[StagingToken],
        add: Callable[[Sequence[Placed]], Commit],
    ) -> Commit:
        """Store the record of a commit, and announce that its tokens will be dropped.

        Both must be durable before the swap that publishes the commit, and neither needs the other:
        they are written in one call where that costs less, and else side by side. `add` stores the
        record, with what is given to it beside that.
        """
        if not tokens:
            return add(())
        if self._store.joins_writes:
            return add(self._branches.announcements(repository, branch, tokens))
        stored: list[Commit] = []
        writes: list[Callable[[], None]] = [
            lambda: stored.append(add(())),
            lambda: self._branches.announce_drop(repository, branch, tokens),
        ]
        self._runtime.map_parallel(lambda write: write(), writes, limit=len(writes))
        return stored[0]

    def publish(
        self,
        repository: Repository,
        branch: Branch,
        commit: Commit,
        tokens: Sequence[StagingToken],
    ) -> Branch | None:
        """Make a commit the head of a branch, and drop the tokens that the commit holds.

        The commit was stored, and the drop announced, by `store_commit`.

        Returns:
            None if that is done; the branch as it is now, if someone else changed it first.

        Raises:
            BranchNotFound: The branch was deleted meanwhile, and perhaps made again.
        """
        rest = _without(branch, tokens)
        try:
            self._branches.change(repository, branch, commit_id=commit.id, sealed_tokens=rest)
        except PredicateFailed:
            return self.look_again(repository, branch)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with settling(unknown):
                current = self.look_again(repository, branch)
                return None if self._is_ancestor(repository, commit, current) else current
        return None

    def trim(
        self, repository: Repository, branch: Branch, tokens: Sequence[StagingToken]
    ) -> Branch | None:
        """Drop tokens that change nothing from a branch.

        Returns:
            None if that is done; the branch as it is now, if that is not certain.

        Raises:
            BranchNotFound: The branch was deleted meanwhile, and perhaps made again.
        """
        rest = _without(branch, tokens)
        self._branches.announce_drop(repository, branch.id, tokens)
        try:
            self._branches.change(repository, branch, sealed_tokens=rest)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return self.look_again(repository, branch)
        return None

    def find_published(
        self, repository: Repository, branch: Branch, commit_ids: Collection[CommitID]
    ) -> CommitID | None:
        """Return which of some commits led to a branch, once none of them can any more.

        For who takes over from a process that was about to publish one of them: the branch record
        is written anew with the same content, so that a swap still on its way there fails.

        Raises:
            BranchNotFound: The branch was deleted meanwhile, and perhaps made again.
            TooManyTries: Others always changed the branch first.
        """
        current = self._touch(repository, branch)
        return self.find_leading(repository, current.commit_id, commit_ids)

    def find_leading(
        self, repository: Repository, head: CommitID, commit_ids: Collection[CommitID]
    ) -> CommitID | None:
        """Return which of some commits is in the history of a head, by first parents."""
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
        current = self.look_again(repository, branch)
        for _ in range(self._tries):
            try:
                return self._branches.change(repository, current)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                current = self.look_again(repository, branch)
        raise TooManyTries(f"the look at branch {branch.id}", self._tries)

    def look_again(self, repository: Repository, branch: Branch) -> Branch:
        """Read a branch again that someone else changed.

        Raises:
            BranchNotFound: It was deleted meanwhile, and perhaps made again.
        """
        current = self._branches.get(repository, branch.id)
        if current.unique_id != branch.unique_id:
            raise BranchNotFound(branch.id)
        return current

    def first_parents(self, repository: Repository, commit_id: CommitID) -> Iterator[Commit]:
        """Iterate over a commit, its first parent, the first parent of that one, and so on."""
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
    """Return the sealed tokens of a branch without some tokens, which are its oldest ones."""
    count = len(branch.sealed_tokens) - len(tokens)
    assert branch.sealed_tokens[count:] == tuple(tokens), "only the oldest tokens are ever taken"
    return branch.sealed_tokens[:count]
