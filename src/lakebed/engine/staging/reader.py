"""Reading a branch: what is staged over what is committed.

A read begins with the branch's record, read after the call began. Everything else is taken from
what that record names: its tokens, newest first, then its commit. The record may change meanwhile;
the read still returns the state of one record. Tokens that are dropped meanwhile stay readable,
because the Cleaner leaves them alone for a grace period. A read that took longer than half of that
period starts over.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from lakebed.engine.committed import CommittedFor, DiffEntry, Page, Query
from lakebed.engine.errors import EntryNotFound, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, CommitID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import Cells, has_proposal, newest
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.listing import Noting, list_changes, list_entries
from lakebed.formats import Entry
from lakebed.kv import Item, Store
from lakebed.runtime import Runtime
from lakebed.times import now_us

_LOGGER: Final = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_TRIES: Final = 3


class Reader:
    """Reads from branches."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        commits: Commits,
        committed_in: CommittedFor,
        runtime: Runtime,
        settings: EngineSettings,
    ) -> None:
        self._store = store
        self._branches = branches
        self._commits = commits
        self._committed_in = committed_in
        self._runtime = runtime
        self._patience = settings.grace_seconds / 2
        self._noted_min = settings.noted_tombstones_min

    def get(
        self, repository: Repository, branch: BranchID, key: bytes, *, known: Branch | None = None
    ) -> Entry:
        """Return the entry of a key on a branch, staged or committed.

        A caller that has just read the branch passes it as `known`: it is not read again.

        Raises:
            BranchNotFound: There is no such branch.
            EntryNotFound: There is no such entry.
        """

        def read(current: Branch) -> Entry:
            return self.entry(repository, current, key, self.staged(current, key))

        return self._consistently(repository, branch, read, known)

    def list_entries(
        self,
        repository: Repository,
        branch: BranchID,
        query: Query,
        *,
        known: Branch | None = None,
    ) -> Page[Entry]:
        """Return a page of the entries of a branch, staged and committed; `known` as in `get`.

        Raises:
            BranchNotFound: There is no such branch.
        """
        noting = Noting(now_us(self._runtime), self._noted_min)
        list_page = partial(list_entries, noting=noting)
        return self._page(repository, branch, query, list_page, known)

    def list_changes(
        self,
        repository: Repository,
        branch: BranchID,
        query: Query,
        *,
        known: Branch | None = None,
    ) -> Page[DiffEntry]:
        """Return a page of what is staged on a branch and differs from its head; `known` as above.

        Raises:
            BranchNotFound: There is no such branch.
        """
        return self._page(repository, branch, query, list_changes, known)

    def _page(
        self,
        repository: Repository,
        branch: BranchID,
        query: Query,
        list_page: Callable[..., Page[ResultT]],
        known: Branch | None = None,
    ) -> Page[ResultT]:
        def read(current: Branch) -> Page[ResultT]:
            commit = self._commits.get(repository, current.commit_id)
            committed = self._committed_in(repository.home)
            metarange_id = commit.metarange_id
            return list_page(Cells.of(self._store, current), committed, metarange_id, query)

        return self._consistently(repository, branch, read, known)

    def _consistently(
        self,
        repository: Repository,
        branch: BranchID,
        read: Callable[[Branch], ResultT],
        known: Branch | None,
    ) -> ResultT:
        """Read the state of one record of a branch, soon enough that its tokens are still there.

        Args:
            repository: In which repository.
            branch: Which branch.
            read: What to read, given the branch.
            known: The branch to begin with, if it was just read.

        Raises:
            BranchNotFound: There is no such branch.
            TooManyTries: The read always took too long.
        """
        for _ in range(_TRIES):
            current = known or self._branches.get(repository, branch)
            try:
                result = read(current)
            except EntryNotFound:
                if self._is_in_time(current):
                    raise
            else:
                if self._is_in_time(current):
                    return result
            _LOGGER.warning("a read of branch %s took too long: it starts over", branch)
            known = None
        raise TooManyTries(f"a read of branch {branch}", _TRIES)

    def _is_in_time(self, branch: Branch) -> bool:
        """Whether the tokens of a branch, dropped or not, are certainly still there."""
        return self._runtime.monotonic() - branch.read_at < self._patience

    def staged(
        self, branch: Branch, key: bytes, found: Sequence[Item | None] | None = None
    ) -> Sequence[Item | None]:
        """Return the cell of a key in each token of a branch, newest first; all in one call.

        With `found`, these are the cells as they were read already, for the same branch record.
        """
        if found is None:
            name = STAGED_PREFIX + key
            found = self._store.get_many([(token.encode(), name) for token in branch.tokens])
        if any(map(has_proposal, found)):
            return Cells.of(self._store, branch).settled(found)
        return found

    def entry(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        staged: Sequence[Item | None],
    ) -> Entry:
        """Return the entry of a key, given its cell in each token of the branch (`staged`).

        Raises:
            EntryNotFound: There is no such entry.
        """
        value = newest(staged)
        if value is None:
            found = self.committed(repository, branch.commit_id, key)
        else:
            found = decode(key, value)
        if found is None:
            raise EntryNotFound(key)
        return found

    def committed(self, repository: Repository, commit_id: CommitID, key: bytes) -> Entry | None:
        """Return the entry of a key in a commit, or None."""
        commit = self._commits.get(repository, commit_id)
        try:
            committed = self._committed_in(repository.home)
            return committed.get(commit.metarange_id, key)
        except EntryNotFound:
            return None
