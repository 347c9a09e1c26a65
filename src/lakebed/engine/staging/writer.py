"""Staging a change: plain writes, conditional writes, and writes of objects that must be fresh.

**Plain write.** Read the branch (from the cache, if it is there), write under its staging token,
read the branch again, never from the cache. If the token is still the current one, acknowledge:
whoever seals the token later scans it after the seal, and so finds the write. If not, a committer
may have scanned the old token before the write arrived: write again, under the token of the record
just read. What was written under the old token stays: to delete it could delete another's
acknowledged write.

Before a put is acknowledged, its key is taken out of the notes of listings (`empty_runs`). A plain
write replaces a proposal that is in its cell.

**Conditional write.** Propose, look, confirm. Only the third step makes anything visible, so a
conditional write that is refused was never visible, and is in no commit.

1. Read the branch, at version v, and the cells of the key (`cells`). If the condition does not hold
   for the entry that they show, refuse. If another writer's proposal is in the way, wait, and then
   replace it: its owner may have died.
2. Write the proposal into the cell under the staging token, beside the value that was judged, by
   compare-and-swap on the cell.
3. Read the branch again. If the version is not v, take the proposal away and begin again: a new
   head alone, under the same tokens, can change the answer. Ask all else that may refuse the write
   (`is_fresh`).
4. Confirm: write the value by compare-and-swap on the proposal. If that fails, someone took the
   proposal away or wrote over it: nothing was visible, begin again. If the reply is lost, the cell
   tells: the proposal is there, confirm again; the value is there, done; anything else, unknown.

The write takes effect before the branch leaves v, when its condition held: a reader of a later
version sees it, or takes the proposal away (`cells`).

In step 3 the key of a put is also taken out of the notes of listings. Before the entry is visible
that is soon enough, since a listing never notes that a key with a proposal is empty.

What fails or dies after step 2 leaves a proposal that does no harm. `design/0005` has each step.

**Fresh objects.** Garbage collection spares young objects, since whoever uploaded them may be about
to stage them. So a writer must not acknowledge if it took so long that its object is not young any
more: a collection may have looked for the entry before it was there. A write can be given a test
for that, `is_fresh`, which is made after the second read of the branch. A conditional write is not
visible by then. A plain one is: if the test fails, what the write replaced is put back (`UndoLog`).
For that, the staged key is read before it is written, and written by compare-and-swap on what was
read.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from lakebed.engine.errors import (
    BranchNotFound,
    NothingThere,
    PreconditionFailed,
    Stale,
    TooManyTries,
)
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging import empty_runs
from lakebed.engine.staging.cells import (
    has_proposal,
    newest,
    propose,
    take_away,
    version_of,
)
from lakebed.engine.staging.codec import TOMBSTONE, decode, encode
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.undo import UndoLog
from lakebed.errors import quoted
from lakebed.formats import Entry
from lakebed.kv import (
    ABSENT,
    Item,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Put,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.store import new_version, settling, step_of_many
from lakebed.runtime import Runtime

_WAIT_SECONDS: Final = 0.05
"""How long a conditional writer leaves another's proposal alone the first time, and at most twice
that: it then asks again, and replaces a proposal that is still there."""

_LONGEST_WAIT: Final = 32.0
"""How many times as long it waits at most. Each wait is twice as long as the one before, so that
one of several writers gets through on a database of any speed."""

_QUICK_TRIES: Final = 3
"""How often a conditional writer begins again at once."""

Condition = Callable[[Entry | None], bool]
"""Whether to write, given the entry that is there now, if any."""

IsFresh = Callable[[], bool]
"""Whether the object of an entry is still young enough to be staged."""


def if_absent(found: Entry | None) -> bool:
    """Only if there is no such entry."""
    return found is None


def check_condition(condition: Condition, key: bytes, found: Entry | None) -> None:
    """Refuse a write whose condition does not hold for the entry that is there.

    Raises:
        PreconditionFailed: It does not hold; if nothing is there, `NothingThere`.
    """
    if condition(found):
        return
    if found is None:
        raise NothingThere(key)
    raise PreconditionFailed(key, "another entry is there")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a conditional writer found."""

    entry: Entry | None
    """The entry that readers see."""
    cell: Item | None
    """The cell under the current staging token."""

    @property
    def predicate(self) -> Predicate:
        return ABSENT if self.cell is None else self.cell.predicate


@dataclass(frozen=True, slots=True)
class Target:
    """A branch that was read for a write, after the write began."""

    branch: Branch
    staged: tuple[Item | None, ...] | None = None
    """The cell of the key in each of its tokens; None: that was not read."""


class _SecondRead(NamedTuple):
    """What was read with a put, after it."""

    branch: Item | None
    note: Item | None
    """That of listings, at the staging token."""
    read_at: float
    """A moment before, on the monotonic clock."""


class Writer:
    """Writes to branches. Callers that have just read the branch pass it as `known`."""

    def __init__(
        self,
        store: Store,
        branches: Branches,
        reader: Reader,
        runtime: Runtime,
        settings: EngineSettings,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._branches = branches
        self._reader = reader
        self._tries = settings.tries_max

    def put(
        self,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        *,
        known: Target | None = None,
    ) -> None:
        """Stage an entry; when this returns, every later read, listing and commit has it or newer.

        Raises:
            BranchNotFound: There is no such branch.
            TooManyTries: Others always sealed the token first; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        self._write(repository, branch, entry.key, encode(entry), known)

    def delete(
        self,
        repository: Repository,
        branch: BranchID,
        key: bytes,
        *,
        known: Target | None = None,
    ) -> None:
        """Stage the removal of a key; raises as `put` does."""
        self._write(repository, branch, key, TOMBSTONE, known)

    def put_fresh(
        self,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        is_fresh: IsFresh,
        *,
        known: Target | None = None,
    ) -> None:
        """Stage an entry as `put` does, if its object is fresh when the write is acknowledged.

        Raises:
            BranchNotFound: There is no such branch.
            Stale: The object is not fresh any more. What was staged before is back; but a commit
                made meanwhile may hold the entry.
            TooManyTries: Others always came first; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        undo_log = UndoLog(self._store, self._runtime, entry)
        _check_fresh(undo_log, is_fresh)
        known = known or Target(self._branches.get_cached(repository, branch))
        current, staged = known.branch, known.staged
        for number in range(self._tries):
            with step_of_many(applied=number > 0):
                found = undo_log.find(current.staging_token) if staged is None else staged[0]
                predicate: Predicate = ABSENT if found is None else found.predicate
                value, version = undo_log.prepare(current.staging_token, found)
                written, second = self._swap_and_read(
                    repository, current, entry.key, value, predicate, version
                )
            after = self._look_again(repository, current, [entry.key], second)
            _check_fresh(undo_log, is_fresh)
            if written and after.staging_token == current.staging_token:
                return
            current, staged = after, None
        raise TooManyTries(f"the write of {quoted(entry.key)}", self._tries)

    def put_if(
        self,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        condition: Condition,
        is_fresh: IsFresh | None = None,
        *,
        known: Target | None = None,
    ) -> None:
        """Stage an entry if the condition holds at the moment when the entry takes effect.

        If this raises anything but `OutcomeUnknown` itself, the entry was never visible, and never
        will be.

        Raises:
            BranchNotFound: There is no such branch.
            PreconditionFailed: The condition does not hold.
            Stale: The object is not fresh any more.
            TooManyTries: Others always came first.
            OutcomeUnknown: The entry may be visible.
        """
        value = encode(entry)
        self._write_if(repository, branch, entry.key, value, condition, is_fresh, known)

    def delete_if(
        self,
        repository: Repository,
        branch: BranchID,
        key: bytes,
        condition: Condition,
        *,
        known: Target | None = None,
    ) -> None:
        """Stage the removal of a key on a condition; raises as `put_if` does."""
        self._write_if(repository, branch, key, TOMBSTONE, condition, None, known)

    def _write_if(
        self,
        repository: Repository,
        branch: BranchID,
        key: bytes,
        value: bytes,
        condition: Condition,
        is_fresh: IsFresh | None,
        known: Target | None,
    ) -> None:
        if is_fresh is not None and not is_fresh():
            raise Stale(key)
        waited_for: Predicate | None = None
        for number in range(self._tries):
            target = known or Target(self._branches.get(repository, branch))
            before, known = target.branch, None
            seen = self._look(repository, before, key, target.staged)
            check_condition(condition, key, seen.entry)
            if has_proposal(seen.cell) and seen.predicate != waited_for:
                waited_for = seen.predicate
                self._wait(number)
                continue
            if self._stage(repository, before, key, value, seen, is_fresh):
                return
            if number >= _QUICK_TRIES:
                self._wait(number - _QUICK_TRIES)
        raise TooManyTries(f"the conditional write of {quoted(key)}", self._tries)

    def _stage(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        value: bytes,
        seen: _Seen,
        is_fresh: IsFresh | None,
    ) -> bool:
        """Do steps 2 to 4 of a conditional write; return False if they must be done again."""
        cell, version = propose(seen.cell, value, branch.version), new_version(self._runtime)
        predicate = seen.predicate
        written, second = self._swap_and_read(repository, branch, key, cell, predicate, version)
        if not written:
            return False  # or the reply was lost: what is never confirmed does no harm
        proposal = Item(STAGED_PREFIX + key, cell, version)
        shown = [] if value == TOMBSTONE else [key]
        try:
            after = self._look_again(repository, branch, shown, second, applied=False)
        except BranchNotFound:
            self._withdraw(branch, proposal)
            raise
        is_same = after.version == branch.version
        if is_same and (is_fresh is None or is_fresh()):
            return self._confirm(branch, proposal, value)
        self._withdraw(branch, proposal)
        if is_same:
            raise Stale(key)
        return False

    def _withdraw(self, branch: Branch, proposal: Item) -> None:
        """Take back a proposal; if that fails, it is no more visible than before."""
        with suppress(StoreUnavailable):
            take_away(self._store, branch.staging_token, proposal)

    def _confirm(self, branch: Branch, proposal: Item, value: bytes) -> bool:
        """Make a proposal the value of its cell; return whether that has worked.

        Raises:
            StoreUnavailable: It has certainly not, and trying again does not help.
            OutcomeUnknown: The value may be visible.
        """
        partition, version = branch.staging_token.encode(), new_version(self._runtime)
        for _ in range(self._tries):
            try:
                self._store.set(partition, proposal.key, value, proposal.predicate, version=version)
            except PredicateFailed:
                return False
            except StoreUnavailable:
                raise
            except OutcomeUnknown as unknown:
                with settling(unknown):
                    (found,) = self._store.get_many([(partition, proposal.key)])
                if found is None or found.predicate != proposal.predicate:
                    if found is not None and version_of(found) == version:
                        return True
                    raise
            else:
                return True
        return False

    def _wait(self, number: int) -> None:
        """Let others go first, for longer each time."""
        longer = min(2.0**number, _LONGEST_WAIT)
        self._runtime.sleep(_WAIT_SECONDS * longer * (1 + self._runtime.random()))

    def find(self, repository: Repository, target: Target, key: bytes) -> Entry | None:
        """Return the entry that a conditional write of a key would be judged by, if any."""
        return self._look(repository, target.branch, key, target.staged).entry

    def _write(
        self,
        repository: Repository,
        branch: BranchID,
        key: bytes,
        value: bytes,
        known: Target | None,
    ) -> None:
        current = known.branch if known else self._branches.get_cached(repository, branch)
        unknown: OutcomeUnknown | None = None
        for number in range(self._tries):
            token = current.staging_token.encode()
            with step_of_many(applied=number > 0):
                unknown = self._set(token, STAGED_PREFIX + key, value)
            if value == TOMBSTONE:
                with step_of_many(applied=True):
                    after = self._branches.get(repository, branch)
            else:
                after = self._look_again(repository, current, [key])
            if unknown is None and after.staging_token == current.staging_token:
                return
            current = after
        raise unknown or TooManyTries(f"the write of {quoted(key)}", self._tries)

    def _set(self, token: bytes, key: bytes, value: bytes) -> OutcomeUnknown | None:
        """Write a staged key; return the error if nobody knows whether that has worked.

        Writing the same again does no harm then: the write was not acknowledged yet.

        Raises:
            StoreUnavailable: It has certainly not.
        """
        try:
            self._store.set(token, key, value)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as error:
            return error
        return None

    def _look_again(
        self,
        repository: Repository,
        before: Branch,
        keys: list[bytes],
        second: _SecondRead | None = None,
        *,
        applied: bool = True,
    ) -> Branch:
        """Read a branch after a write, and take keys out of the notes of listings.

        If the store has read it with the write already, that is it (`second`). `applied` says
        whether something may be visible by now.

        Raises:
            BranchNotFound: There is no such branch any more.
            OutcomeUnknown: The store does not answer; the entry may be visible.
        """
        token = before.staging_token
        with step_of_many(applied=applied):
            if second is None:
                after, note = self._branches.get_after_put(repository, before.id, token)
            else:
                item, note, read_at = second
                found = self._branches.recognise(repository, before.id, item, read_at)
                if found is None:
                    raise BranchNotFound(before.id)
                after = found
            empty_runs.fill(self._store, token, keys, note)
        return after

    def _swap_and_read(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        version: Version,
    ) -> tuple[bool, _SecondRead | None]:
        """Write a staged key if it is as it was seen, and read the branch after that.

        Returns:
            Whether the write has certainly worked; and what was read, if it has.

        Raises:
            StoreUnavailable: It has certainly not, and trying again does not help.
        """
        token = branch.staging_token
        put = Put(token.encode(), STAGED_PREFIX + key, value, predicate, version)
        places = self._branches.places_after_put(repository, branch.id, token)
        read_at = self._runtime.monotonic()
        try:
            item, note = self._store.write([put], places)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return False, None
        return True, _SecondRead(item, note, read_at)

    def _look(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        staged: Sequence[Item | None] | None = None,
    ) -> _Seen:
        """Find what is there for a key."""
        cells = self._reader.staged(branch, key, staged)
        value = newest(cells)
        if value is None:
            return _Seen(self._reader.committed(repository, branch.commit_id, key), cells[0])
        return _Seen(decode(key, value), cells[0])


def _check_fresh(undo_log: UndoLog, is_fresh: IsFresh) -> None:
    """Take a write back and raise `Stale`, if its object is not fresh any more."""
    if not is_fresh():
        undo_log.undo()
        raise Stale(undo_log.entry.key)
