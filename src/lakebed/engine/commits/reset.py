"""Discarding staged changes: all, below a prefix, or of one key; and hard resets.

To reset everything, the tokens of the branch are swapped for a new one.

To reset some keys, only the current staging token is written to, since a committer may be using the
sealed tokens: each staged key gets the head's entry, or a tombstone. Like a conditional write, this
is a compare-and-swap on the staged key, valid only if the whole branch record was the same before
and after. If not, the reset is repeated with the new head.

A hard reset makes a clean branch point to another commit, which must not expire meanwhile. So the
branch record first names its target, then the commit's mark is read, then the branch is moved.
"""

from collections.abc import Callable
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.commits.uncommitted import UncommittedChanges
from lakebed.engine.errors import BranchNotFound, TooManyTries
from lakebed.engine.expiry_marks import ExpiryMarks
from lakebed.engine.keys import EMPTIED, STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Commit, Repository, new_staging_token
from lakebed.engine.refs.branches import Branches
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging import skip_index
from lakebed.engine.staging.cells import TOMBSTONE, Cells, encode, newest, path_of
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.scan import StagedChanges
from lakebed.kv import (
    ABSENT,
    Item,
    OutcomeUnknown,
    Pair,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
)
from lakebed.kv.store import applied_before, still_unknown

_PAGE: Final = 100


class Resetter:
    """Discards staged changes, and moves branches to other commits."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        publisher: Publisher,
        uncommitted: UncommittedChanges,
        reader: Reader,
        marks: ExpiryMarks,
        runtime: Runtime,
        settings: EngineSettings,
    ) -> None:
        self._marks = marks
        self._store = store
        self._branches = branches
        self._publisher = publisher
        self._uncommitted = uncommitted
        self._reader = reader
        self._runtime = runtime
        self._tries = settings.tries_max

    def reset(self, repository: Repository, branch: BranchID) -> None:
        """Discard all staged changes of a branch.

        Raises:
            BranchNotFound: The branch does not exist, or was deleted concurrently.
            TooManyTries: Concurrent changes won every time.
        """
        first = current = self._branches.get(repository, branch)
        token = new_staging_token(self._runtime, repository.id, branch)
        is_uncertain = False
        for _ in range(self._tries):
            with applied_before(any_step=is_uncertain):
                self._branches.announce_drop(repository, branch, current.tokens)
                try:
                    self._branches.change(
                        repository, current, staging_token=token, sealed_tokens=()
                    )
                except PredicateFailed:
                    current = self._publisher.reread(repository, first)
                except StoreUnavailable:
                    raise
                except OutcomeUnknown as unknown:
                    with still_unknown(unknown):
                        current = self._publisher.reread(repository, first)
                    if token in current.tokens:
                        return
                    # Our swap may have been applied, and the token committed since: use another.
                    token = new_staging_token(self._runtime, repository.id, branch)
                    is_uncertain = True
                else:
                    return
        raise TooManyTries(f"the reset of branch {branch}", self._tries)

    def reset_key(self, repository: Repository, branch: BranchID, key: bytes) -> None:
        """Discard the staged change of a key; raises as `reset`."""
        for number in range(self._tries):
            with applied_before(any_step=number > 0):
                before = self._branches.get(repository, branch)
                staged = self._reader.staged(before, key)
                value = newest(staged)
                done = value is None or self._restore(repository, before, key, value, staged[0])
            if done and self._unchanged(repository, before, [key]):
                return
        raise TooManyTries(f"the reset of {quoted(key)} on branch {branch}", self._tries)

    def reset_prefix(self, repository: Repository, branch: BranchID, prefix: bytes) -> None:
        """Discard the staged changes of keys with a prefix; raises as `reset`."""
        start = b""
        tries = self._tries
        has_begun = False
        while tries:
            with applied_before(any_step=has_begun):
                before = self._branches.get(repository, branch)
                cells = Cells.of(self._store, before)
                changes = StagedChanges(cells, start=start, prefix=prefix)
                page = changes.begin(_PAGE)
            keys = [path_of(name) for name, _ in page]
            has_begun = True
            with applied_before(any_step=True):
                done = self._restore_page(repository, before, page)
            if done and self._unchanged(repository, before, keys):
                if len(page) < _PAGE:
                    return
                start = keys[-1] + b"\x00"
                tries = self._tries
            else:
                tries -= 1
        raise TooManyTries(f"the reset of {quoted(prefix)} on branch {branch}", self._tries)

    def hard_reset(
        self,
        repository: Repository,
        branch: BranchID,
        target: Commit,
        before_try: Callable[[Branch], None] = lambda _branch: None,
    ) -> None:
        """Make a branch point to another commit; raises as `reset`.

        Also raises `DirtyBranch`, and `CommitExpired` if the commit has expired. `before_try` is
        called with the branch as read, before each attempt to change it.
        """
        first = current = self._branches.get(repository, branch)
        is_uncertain = False
        for _ in range(self._tries):
            with applied_before(any_step=is_uncertain):
                current = self._uncommitted.require_clean(repository, current)
                before_try(current)
                self._branches.announce_drop(repository, branch, current.sealed_tokens)
                try:
                    current = self._branches.change(repository, current, next_commit_id=target.id)
                    self._marks.check_ref(repository, target.id)
                    self._branches.change(
                        repository, current, commit_id=target.id, sealed_tokens=()
                    )
                except PredicateFailed:
                    current = self._publisher.reread(repository, first)
                except StoreUnavailable:
                    raise
                except OutcomeUnknown as unknown:
                    with still_unknown(unknown):
                        current = self._publisher.reread(repository, first)
                    if current.commit_id == target.id:
                        return
                    # Our swap may have been applied, and the branch moved on since.
                    is_uncertain = True
                else:
                    return
        raise TooManyTries(f"the hard reset of branch {branch}", self._tries)

    def _unchanged(self, repository: Repository, before: Branch, keys: list[bytes]) -> bool:
        """Whether a branch is unchanged after keys were restored.

        Also takes keys that became visible out of the skip index of listings (`skip_index`).
        """
        token = before.staging_token
        with applied_before(any_step=True):
            places = [(token.encode(), EMPTIED)]
            after, (note,) = self._branches.get_with(repository, before.id, places)
            skip_index.fill(self._store, token, keys, note)
        if after.unique_id != before.unique_id:
            raise BranchNotFound(before.id)
        return after.version == before.version

    def _restore_page(self, repository: Repository, branch: Branch, page: list[Pair]) -> bool:
        token = branch.staging_token.encode()
        current = self._store.get_many([(token, name) for name, _ in page])
        return all(
            self._restore(repository, branch, path_of(name), value, own)
            for (name, value), own in zip(page, current, strict=True)
        )

    def _restore(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        staged: bytes,
        current: Item | None,
    ) -> bool:
        """Stage the head's entry of a key; return whether the write certainly succeeded.

        `staged` is the value staged for the key. `current` is its cell under the current token; a
        proposal in this cell is replaced.
        """
        committed = self._reader.committed(repository, branch.commit_id, key)
        if committed is None and staged == TOMBSTONE:
            return True
        # Replace a put without effect too: its writer might undo it (`UndoLog`).
        value = TOMBSTONE if committed is None else encode(committed)
        predicate: Predicate = ABSENT if current is None else current.predicate
        token = branch.staging_token.encode()
        try:
            self._store.set(token, STAGED_PREFIX + key, value, predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return False
        return True
