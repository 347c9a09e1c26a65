"""Reads of a branch: staged changes over committed entries.

A read begins with the branch's record, read after the call began. Everything else follows from this
record: its tokens, newest first, then its commit. The record may change meanwhile; the read still
returns the state of one record. Tokens dropped meanwhile stay readable, because the Cleaner leaves
them alone for a grace period. A read longer than half this period starts over.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final, ParamSpec

from lakebed.base.runtime import Runtime, now_us
from lakebed.base.tracing import traced
from lakebed.engine.committed import Committed, CommittedFor, DiffEntry, EntryPage, EntryQuery
from lakebed.engine.errors import EntryNotFound, Invalid, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, CommitID, Repository, RepositoryID
from lakebed.engine.reading import Reading, Readings
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.resolve import View
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import Cells, decode, has_proposal, newest
from lakebed.engine.staging.listing import (
    ChangeWindows,
    SkipIndexOptions,
    list_changes,
    list_entries,
)
from lakebed.formats import Entry, MetaRangeID
from lakebed.kv import Item, Store

_LOGGER: Final = logging.getLogger(__name__)

ParamT = ParamSpec("ParamT")

_TRIES: Final = 3


class Reader:
    """Reads entries of branches and commits.

    Methods raise `RepositoryNotFound`, `BranchNotFound`, `RefNotFound` or `InvalidRef` if the ref
    cannot be read.
    """

    def __init__(
        self,
        store: Store,
        readings: Readings,
        commits: Commits,
        committed_in: CommittedFor,
        runtime: Runtime,
        settings: EngineSettings,
    ) -> None:
        self._store = store
        self._readings = readings
        self._commits = commits
        self._committed_in = committed_in
        self._runtime = runtime
        self._patience = settings.grace_seconds / 2
        self._noted_min = settings.noted_tombstones_min

    @traced("engine.find")
    def find(self, repository_id: RepositoryID, ref: str, key: bytes) -> tuple[Repository, Entry]:
        """Return the repository and the entry of a key, staged or not; raise `EntryNotFound`."""
        for found in self.in_time(self._readings.of_ref, repository_id, ref, key):
            entry, _ = self.effective_entry(found, key)
        if entry is None:
            raise EntryNotFound(key)
        return found.repository, entry

    @traced("engine.list_entries")
    def list_entries(
        self, repository_id: RepositoryID, ref: str, query: EntryQuery
    ) -> tuple[Repository, EntryPage[Entry]]:
        """Return the repository and a page of entries of a ref; raise `Invalid` for ``branch$``."""
        for found in self.in_time(self._readings.of_ref, repository_id, ref):
            page = self._page(found, ref, query)
        return found.repository, page

    def _page(self, found: Reading, ref: str, query: EntryQuery) -> EntryPage[Entry]:
        _check_listed(found, ref)
        committed, metarange_id = self._committed_of(found)
        if found.view is View.COMMITTED:
            return committed.list(metarange_id, query)
        options = SkipIndexOptions(now_us(self._runtime), self._noted_min)
        cells = Cells.of(self._store, found.branch)
        return list_entries(cells, committed, metarange_id, query, options=options)

    @traced("engine.list_changes")
    def list_changes(
        self, repository_id: RepositoryID, branch: BranchID, query: EntryQuery
    ) -> EntryPage[DiffEntry]:
        """Return a page of the staged changes of a branch that differ from its head."""
        for found in self.in_time(self._readings.of_branch, repository_id, branch):
            cells = Cells.of(self._store, found.branch)
            page = list_changes(cells, *self._committed_of(found), query)
        return page

    def staged_changes(self, found: Reading, ref: str, query: EntryQuery) -> ChangeWindows | None:
        """Return the staged changes that a ref shows over its commit, or None if it shows none.

        Raises `Invalid` for ``branch$``.
        """
        _check_listed(found, ref)
        if found.view is View.COMMITTED:
            return None
        return ChangeWindows(Cells.of(self._store, found.branch), *self._committed_of(found), query)

    def effective_entry(
        self, found: Reading, key: bytes
    ) -> tuple[Entry | None, Sequence[Item | None]]:
        """Return the entry of a key, or None, and the deciding cells, newest first."""
        cells: Sequence[Item | None] = ()
        if found.view is not View.COMMITTED:
            cells = self.staged(found.branch, key, found.cells)
            value = newest(cells)
            if value is not None:
                return decode(key, value), cells
            if found.view is View.STAGED:
                return None, cells
        return self.committed(found.repository, found.commit_id, key), cells

    def _committed_of(self, found: Reading) -> tuple[Committed, MetaRangeID]:
        commit = self._commits.get(found.repository, found.commit_id)
        return self._committed_in(found.repository.files_root), commit.metarange_id

    def in_time(
        self, begin: Callable[ParamT, Reading], *args: ParamT.args, **kwargs: ParamT.kwargs
    ) -> Iterator[Reading]:
        """Yield the records read by `begin`, again if tokens of the branch may have been deleted.

        Raises `TooManyTries` if the read took too long every time.
        """
        for _ in range(_TRIES):
            found = begin(*args, **kwargs)
            yield found
            branch = found.found
            if branch is None or self._runtime.monotonic() - found.read_at < self._patience:
                return
            _LOGGER.warning("a read of branch %s took too long: retrying", branch.id)
        raise TooManyTries("a read of a branch", _TRIES)

    def staged(
        self, branch: Branch, key: bytes, found: Sequence[Item | None] | None = None
    ) -> Sequence[Item | None]:
        """Return the key's cell in each token of a branch, newest first, in one store call.

        Pass `found` if the cells were already read at the same branch record.
        """
        if found is None:
            name = STAGED_PREFIX + key
            found = self._store.get_many([(token.encode(), name) for token in branch.tokens])
        if any(map(has_proposal, found)):
            return Cells.of(self._store, branch).settled(found)
        return found

    def committed(self, repository: Repository, commit_id: CommitID, key: bytes) -> Entry | None:
        commit = self._commits.get(repository, commit_id)
        try:
            committed = self._committed_in(repository.files_root)
            return committed.get(commit.metarange_id, key)
        except EntryNotFound:
            return None


def _check_listed(found: Reading, ref: str) -> None:
    if found.view is View.STAGED:
        raise Invalid(f"{ref} cannot be listed: list the changes of the branch instead")
