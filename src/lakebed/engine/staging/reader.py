"""Reading a branch: what is staged over what is committed.

A read begins with the branch's record, read after the call began. Everything else is taken from
what that record names: its tokens, newest first, then its commit. The record may change meanwhile;
the read still returns the state of one record. Tokens that are dropped meanwhile stay readable,
because the Cleaner leaves them alone for a grace period longer than any request; a read that took
longer than half of it begins again.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lakebed.engine.committed import CommittedFor, DiffEntry, Page, Query
from lakebed.engine.errors import EntryNotFound, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, CommitID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.codec import decode
from lakebed.engine.staging.listing import Noting, list_changes, list_entries
from lakebed.formats import Entry
from lakebed.kv import Item, Store
from lakebed.runtime import Runtime
from lakebed.times import now_us

ResultT = TypeVar("ResultT")

_TRIES = 3


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
        self, repository: Repository, branch: BranchID, key: bytes, *, record: Branch | None = None
    ) -> Entry:
        """Return the entry of a key on a branch, staged or committed.

        Whoever has just read the branch's record passes it on: it need not be read again.

        Raises:
            BranchNotFound: There is no such branch.
            EntryNotFound: There is no such entry.
        """

        def read(record: Branch) -> Entry:
            for staged in self.staged(record, key):
                if staged is not None:
                    entry = decode(key, staged.value)
                    if entry is None:
                        raise EntryNotFound(key)
                    return entry
            found = self.committed(repository, record.commit_id, key)
            if found is None:
                raise EntryNotFound(key)
            return found

        return self.consistently(repository, branch, read, record=record)

    def list_entries(
        self,
        repository: Repository,
        branch: BranchID,
        query: Query,
        *,
        record: Branch | None = None,
    ) -> Page[Entry]:
        """Return a page of the entries of a branch, staged and committed; `record` as in `get`.

        Raises:
            BranchNotFound: There is no such branch.
        """
        noting = Noting(now_us(self._runtime), self._noted_min)
        list_page = partial(list_entries, noting=noting)
        return self._page(repository, branch, query, list_page, record)

    def list_changes(
        self, repository: Repository, branch: BranchID, query: Query
    ) -> Page[DiffEntry]:
        """Return a page of what is staged on a branch and differs from its head.

        Raises:
            BranchNotFound: There is no such branch.
        """
        return self._page(repository, branch, query, list_changes)

    def _page(
        self,
        repository: Repository,
        branch: BranchID,
        query: Query,
        list_page: Callable[..., Page[ResultT]],
        record: Branch | None = None,
    ) -> Page[ResultT]:
        def read(record: Branch) -> Page[ResultT]:
            commit = self._commits.get(repository, record.commit_id)
            committed = self._committed_in(repository.namespace)
            metarange_id = commit.metarange_id
            return list_page(self._store, record.tokens, committed, metarange_id, query)

        return self.consistently(repository, branch, read, record=record)

    def consistently(
        self,
        repository: Repository,
        branch: BranchID,
        read: Callable[[Branch], ResultT],
        *,
        record: Branch | None = None,
    ) -> ResultT:
        """Read from the state of one record of a branch, soon enough that its tokens are there.

        Args:
            repository: Where.
            branch: Which branch.
            read: What to read, given its record.
            record: The record to begin with, if it was just read.

        Raises:
            BranchNotFound: There is no such branch.
            TooManyTries: The read always took too long.
        """
        for _ in range(_TRIES):
            record = record or self._branches.get(repository, branch)
            begun = record.read_at
            try:
                result = read(record)
            except EntryNotFound:
                if self._runtime.monotonic() - begun < self._patience:
                    raise
            else:
                if self._runtime.monotonic() - begun < self._patience:
                    return result
            record = None
        raise TooManyTries(f"a read of branch {branch}", _TRIES)

    def staged(self, branch: Branch, key: bytes) -> list[Item | None]:
        """Return what each token of a branch has for a key, newest first; all in one call."""
        name = STAGED_PREFIX + key
        return self._store.get_many([(token.encode(), name) for token in branch.tokens])

    def committed(self, repository: Repository, commit_id: CommitID, key: bytes) -> Entry | None:
        """Return the entry of a key in a commit, or None."""
        commit = self._commits.get(repository, commit_id)
        try:
            committed = self._committed_in(repository.namespace)
            return committed.get(commit.metarange_id, key)
        except EntryNotFound:
            return None
