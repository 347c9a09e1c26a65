"""Staging a change: plain writes, conditional writes, and late refusals.

**Plain write.** Read the branch, write under its staging token, read the branch again. If the token
is still current, acknowledge: a committer that seals the token later scans it after the seal, and
so finds the write. If not, a committer may have scanned the old token before the write arrived:
write again, under the token of the record just read. The write under the old token stays: deleting
it could delete another writer's acknowledged write.

Before a put is acknowledged, its key is cut out of the skip index of listings (`skip_index`). A
plain write replaces a proposal in its cell.

**Conditional write.** Propose, check, confirm. Only the third step makes anything visible, so a
refused conditional write was never visible, and is in no commit.

1. Read the branch, at version v, and the cells of the key (`cells`). If the condition does not hold
   for the entry they show, refuse. If another writer's proposal is in the way, wait, and then
   replace it: its owner may have died.
2. Write the proposal into the cell under the staging token, beside the value that was judged, by
   compare-and-swap on the cell.
3. Read the branch again. If the version is not v, remove the proposal and start again: a new head
   alone, under the same tokens, can change the answer. Check everything else that may refuse the
   write (repository, rules, `is_recent`).
4. Confirm: write the value by compare-and-swap on the proposal. If this fails, the proposal was
   removed or overwritten: nothing was visible, start again. If the reply is lost, the cell tells:
   the proposal is there, confirm again; the value is there, done; anything else, unknown.

The write takes effect before the branch leaves v, when its condition held: a reader of a later
version sees it, or removes the proposal (`cells`).

In step 3 the key of a put is also cut out of the skip index. Doing so before the entry is visible
is early enough, since a listing never records a key with a proposal as empty.

A failure or death after step 2 leaves a proposal that does no harm. `design/0005` has each step.

**Recently uploaded objects.** Garbage collection spares recent objects, since their uploaders may
be about to stage them. So a writer must not acknowledge if it took so long that its object is no
longer recent: a collection may have searched for the entry before it was written. `is_recent` tests
this, after the second read of the branch.

**Late refusals.** With the branch, the second read of a put returns the repository and its
protection rules (`Readings.after_write`): they may have come to forbid the write since it began. A
conditional write is not yet visible. A plain one is: if it is forbidden, or its object is not
recent, the replaced value is restored. For this, the staged key is read before it is written, and
written by compare-and-swap on the value read. A removal could not be restored in this way (a
tombstone references no object to be spared from garbage collection), and its second read has the
branch alone.

**Undo** (`UndoLog`). A writer may learn too late that it must not acknowledge. Then it undoes its
write: each staged key gets its previous value, if it still has the writer's own. This loses no
acknowledged write: a value written over it stays, and the value it replaced was seen by the very
compare-and-swap that replaced it. A proposal beside the value (`cells`) does not protect it: the
undo compares the version of the value, and drops the proposal too.

Until then, which may be long, no staged value would reference the object of the replaced value, and
garbage collection could delete it. So the new value references it too.

Two effects of an undone write may remain visible. A committer may have read the value before: then
it is in a commit, and stays there. And if two writers of one key undo their writes, and the second
had overwritten the first, the second restores the value of the first. So the first one asks the
undo whether another entry *covers* its value:

- If rules refused the write, it is then acknowledged: it was made in time. Each attempt of a put
  reads the cell first, and then rules and repository, in one call. So the writer of the other entry
  saw the value before it read rules that still allowed it. This holds under the current token;
  another may have been scanned before. A tombstone is no cover, since a removal does not read the
  rules after the cell; it is never undone.
- If its object is not recent, the entry may stay.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from lakebed.base.errors import quoted
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.engine.errors import (
    NothingThere,
    PreconditionFailed,
    Protected,
    ReadOnly,
    Stale,
    TooManyTries,
)
from lakebed.engine.keys import EMPTIED, STAGED_PREFIX
from lakebed.engine.model import Branch, StagingToken
from lakebed.engine.reading import REFUSALS, Reading, Readings
from lakebed.engine.refs.branches import Branches
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging import skip_index
from lakebed.engine.staging.cells import (
    TOMBSTONE,
    decode,
    encode,
    has_proposal,
    propose,
    remove_proposal,
    value_of,
    version_of,
)
from lakebed.engine.staging.reader import Reader
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
from lakebed.kv.store import applied_before, new_version, still_unknown

_WAIT_SECONDS: Final = 0.05
"""First wait for another writer's proposal, randomly up to twice as long. Then the writer reads
again, and replaces a remaining proposal."""

_LONGEST_WAIT: Final = 32.0
"""Maximum multiple of the wait. Waits double, so that one of several writers succeeds on a database
of any speed."""

_QUICK_TRIES: Final = 3
"""Immediate retries of a writer whose cell was changed concurrently."""

Condition = Callable[[Entry | None], bool]
"""Whether to write, given the current entry, or None."""

IsRecent = Callable[[], bool]
"""Whether the object of an entry is still recent enough to be staged."""

_SecondRead = tuple[()] | tuple[Sequence[Item | None], float]
"""Records read with a write, and a moment before."""

EntryFor = Callable[[Entry | None], Entry | None]
"""Return the entry to stage, given the current entry or None; None to stage nothing. Raises
`PreconditionFailed` to refuse the write."""


def if_absent(found: Entry | None) -> bool:
    """Condition: no entry exists."""
    return found is None


def check_condition(condition: Condition, key: bytes, found: Entry | None) -> None:
    """Raise `PreconditionFailed`, or `NothingThere` without an entry, if a condition is false."""
    if condition(found):
        return
    if found is None:
        raise NothingThere(key)
    raise PreconditionFailed(key, "another object exists")


class UndoLog:
    """The values replaced by a write."""

    def __init__(self, store: Store, runtime: Runtime, entry: Entry) -> None:
        self.entry = entry
        self._store = store
        self._runtime = runtime
        self._key = STAGED_PREFIX + entry.key
        self._replaced: dict[StagingToken, bytes | None] = {}
        self._versions: set[Version] = set()

    def find(self, token: StagingToken) -> Item | None:
        return self._store.get_many([(token.encode(), self._key)])[0]

    def prepare(self, token: StagingToken, found: Item | None) -> tuple[bytes, Version]:
        """Return the value to write over `found`, and the version to write it with."""
        # If the reply to an earlier write was lost, `found` is our own value: not to be restored.
        if found is None or not self._is_own(found):
            self._replaced[token] = None if found is None else value_of(found)
        before, version = self._replaced[token], new_version(self._runtime)
        self._versions.add(version)
        # Until an undo, no other staged value may reference the object of the entry below.
        entry = None if before is None else decode(self.entry.key, before)
        address = "" if entry is None else entry.address
        return encode(self.entry, replaced_address=address), version

    def undo(self) -> set[StagingToken]:
        """Restore the replaced values; return the tokens where another entry is over ours.

        Raises:
            OutcomeUnknown: The entry may still be visible.
        """
        covered = set()
        for token, before in self._replaced.items():
            # A failed undo leaves the effects of the write.
            with applied_before(any_step=True):
                found = self._undo_in(token, before)
            if value_of(found) not in {None, TOMBSTONE}:
                covered.add(token)
        return covered

    def _undo_in(self, token: StagingToken, before: bytes | None) -> Item | None:
        """Return the cell if another write replaced ours, or None if the old value is restored."""
        while (found := self.find(token)) is not None and self._is_own(found):
            # On failure, the value was overwritten and stays, or a proposal beside it was added or
            # removed.
            with suppress(PredicateFailed):
                if before is None:
                    self._store.delete(token.encode(), self._key, found.predicate)
                else:
                    self._store.set(token.encode(), self._key, before, found.predicate)
                return None
        return found

    def _is_own(self, found: Item) -> bool:
        """Whether the value of a cell is this write's, perhaps with a proposal beside it."""
        return version_of(found) in self._versions


class Writer:
    """Writes to branches read by `Readings.to_write`."""

    def __init__(
        self,
        store: Store,
        readings: Readings,
        branches: Branches,
        reader: Reader,
        runtime: Runtime,
        settings: EngineSettings,
        *,
        on_write: Callable[[], None],
    ) -> None:
        """Write to a store; call `on_write` after each acknowledged write."""
        self._store = store
        self._runtime = runtime
        self._readings = readings
        self._branches = branches
        self._reader = reader
        self._on_write = on_write
        self._tries = settings.tries_max

    @traced("engine.put")
    def put(self, known: Reading, entry: Entry, is_recent: IsRecent | None = None) -> None:
        """Stage an entry: reads, listings and commits begun later have it or a newer one.

        With `is_recent`, only if its object is recent when the write is acknowledged.

        Raises:
            BranchNotFound, RepositoryNotFound, Deleting: The branch or its repository was deleted.
            ReadOnly, Protected: Writing is no longer allowed. The previous value is restored; but a
                commit made meanwhile may contain the entry.
            Stale: The object is no longer recent; otherwise as for `Protected`.
            TooManyTries: Concurrent changes won every time; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        undo_log = UndoLog(self._store, self._runtime, entry)
        _check_recent(undo_log, is_recent, applied=False)
        for number in range(self._tries):
            written, token = False, known.branch.staging_token
            try:
                with applied_before(any_step=number > 0):
                    if number > 0 or known.cells is None:
                        known = self._read_again(known, entry.key)
                    if known.cells is None:
                        continue
                    token, found = known.branch.staging_token, known.cells[0]
                    value, version = undo_log.prepare(token, found)
                    predicate: Predicate = ABSENT if found is None else found.predicate
                    written, second = self._swap_and_read(
                        known, entry.key, value, predicate, version
                    )
                known = self._reread(known, [entry.key], second)
            except (Protected, ReadOnly):
                covered = undo_log.undo()
                if not (written and token in covered and self._is_current(known, entry.key)):
                    raise
            _check_recent(undo_log, is_recent, applied=True)
            if written and known.branch.staging_token == token:
                return self._on_write()
            if not written and number >= _QUICK_TRIES:
                self._wait(number - _QUICK_TRIES)
        raise TooManyTries(f"the write of {quoted(entry.key)}", self._tries)

    def _read_again(self, known: Reading, key: bytes) -> Reading:
        repository = known.repository
        return self._readings.to_write(
            repository.id, known.branch.id, key, unique_id=repository.unique_id
        )

    def _is_current(self, known: Reading, key: bytes) -> bool:
        """Return whether a covered put was staged under the token that is still current.

        Cuts the key out of the skip index: the covering put may be undone.
        """
        token = known.branch.staging_token
        with applied_before(any_step=True):
            branch, (note,) = self._branches.get_with(
                known.repository, known.branch.id, [(token.encode(), EMPTIED)]
            )
            skip_index.fill(self._store, token, [key], note)
        return branch.staging_token == token

    @traced("engine.put_if")
    def put_if(
        self, known: Reading, key: bytes, entry_for: EntryFor, is_recent: IsRecent | None = None
    ) -> None:
        """Stage the result of `entry_for`, given the entry at the moment of taking effect.

        If this raises anything but `OutcomeUnknown` itself, the entry was never visible, and never
        will be.

        Raises:
            BranchNotFound: The branch was deleted.
            ReadOnly, Protected, RepositoryNotFound, Deleting: Writing is no longer allowed.
            PreconditionFailed: Raised by `entry_for`.
            Stale: The object is no longer recent.
            TooManyTries: Concurrent changes won every time.
            OutcomeUnknown: The entry may be visible.
        """

        def value_for(found: Entry | None) -> bytes | None:
            entry = entry_for(found)
            return None if entry is None else encode(entry)

        self._write_if(known, key, value_for, is_recent)

    @traced("engine.delete")
    def delete(self, known: Reading, key: bytes) -> None:
        """Stage the removal of a key unconditionally.

        Raises:
            BranchNotFound: The branch was deleted.
            TooManyTries, OutcomeUnknown: The removal may be visible.
        """
        repository, current = known.repository, known.branch
        unknown: OutcomeUnknown | None = None
        for number in range(self._tries):
            token = current.staging_token
            with applied_before(any_step=number > 0):
                unknown = self._set(token.encode(), STAGED_PREFIX + key, TOMBSTONE)
            with applied_before(any_step=True):
                current = self._branches.get(repository, current.id)
            if unknown is None and current.staging_token == token:
                return self._on_write()
        raise unknown or TooManyTries(f"the write of {quoted(key)}", self._tries)

    @traced("engine.delete_if")
    def delete_if(self, known: Reading, key: bytes, condition: Condition) -> None:
        """Stage the removal of a key on a condition; raises as `put_if`."""

        def value_for(found: Entry | None) -> bytes:
            check_condition(condition, key, found)
            return TOMBSTONE

        self._write_if(known, key, value_for, None)

    def _write_if(
        self,
        known: Reading,
        key: bytes,
        value_for: Callable[[Entry | None], bytes | None],
        is_recent: IsRecent | None,
    ) -> None:
        if is_recent is not None and not is_recent():
            raise Stale(key)
        waited_for: Predicate | None = None
        for number in range(self._tries):
            if number > 0:
                known = self._read_again(known, key)
            entry, cell = self._effective_entry(known, key)
            value = value_for(entry)
            if value is None:
                return None
            predicate: Predicate = ABSENT if cell is None else cell.predicate
            if has_proposal(cell) and predicate != waited_for:
                waited_for = predicate
                self._wait(number)
                continue
            if self._stage(known, key, value, cell, is_recent):
                return self._on_write()
            if number >= _QUICK_TRIES:
                self._wait(number - _QUICK_TRIES)
        raise TooManyTries(f"the conditional write of {quoted(key)}", self._tries)

    def _stage(
        self,
        known: Reading,
        key: bytes,
        value: bytes,
        found: Item | None,
        is_recent: IsRecent | None,
    ) -> bool:
        """Do steps 2 to 4 of a conditional write; return False to repeat them."""
        branch = known.branch
        cell, version = propose(found, value, branch.version), new_version(self._runtime)
        predicate: Predicate = ABSENT if found is None else found.predicate
        written, second = self._swap_and_read(known, key, cell, predicate, version)
        if not written:
            return False  # or the reply was lost: an unconfirmed proposal does no harm
        proposal = Item(STAGED_PREFIX + key, cell, version)
        shown = [] if value == TOMBSTONE else [key]
        try:
            after = self._reread(known, shown, second, applied=False).branch
        except REFUSALS:
            self._withdraw(branch, proposal)
            raise
        is_same = after.version == branch.version
        if is_same and (is_recent is None or is_recent()):
            return self._confirm(branch, proposal, value)
        self._withdraw(branch, proposal)
        if is_same:
            raise Stale(key)
        return False

    def _withdraw(self, branch: Branch, proposal: Item) -> None:
        """Remove a proposal, which stays invisible on failure."""
        with suppress(StoreUnavailable):
            remove_proposal(self._store, branch.staging_token, proposal)

    def _confirm(self, branch: Branch, proposal: Item, value: bytes) -> bool:
        """Make a proposal the value of its cell; return whether this succeeded.

        Raises:
            StoreUnavailable: It certainly failed, and retrying does not help.
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
                with still_unknown(unknown):
                    (found,) = self._store.get_many([(partition, proposal.key)])
                if found is None or found.predicate != proposal.predicate:
                    if found is not None and version_of(found) == version:
                        return True
                    raise
            else:
                return True
        return False

    def _wait(self, number: int) -> None:
        longer = min(2.0**number, _LONGEST_WAIT)
        self._runtime.sleep(_WAIT_SECONDS * longer * (1 + self._runtime.random()))

    def _set(self, token: bytes, key: bytes, value: bytes) -> OutcomeUnknown | None:
        """Write a staged key; return the error if the outcome is unknown.

        Then the unacknowledged write may be repeated.

        Raises:
            StoreUnavailable: The write certainly failed.
        """
        try:
            self._store.set(token, key, value)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as error:
            return error
        return None

    def _reread(
        self, known: Reading, keys: list[bytes], second: _SecondRead, *, applied: bool = True
    ) -> Reading:
        """Read again the records a write relied on, and cut keys out of the skip index.

        `second` are the records read with the write, if any. `applied` tells whether the write may
        be visible already.

        Raises:
            BranchNotFound: The branch was deleted.
            ReadOnly, Protected, RepositoryNotFound, Deleting: Writing is no longer allowed.
            OutcomeUnknown: The store does not answer; the entry may be visible.
        """
        with applied_before(any_step=applied):
            after = self._readings.after_write(known, *second)
            if after.note is not None:
                skip_index.fill(self._store, known.branch.staging_token, keys, after.note)
        return after

    def _swap_and_read(
        self, known: Reading, key: bytes, value: bytes, predicate: Predicate, version: Version
    ) -> tuple[bool, _SecondRead]:
        """Write a staged key if unchanged since read, and read the records to prove the write.

        Returns:
            Whether the write certainly succeeded; and the records read, if so.

        Raises:
            StoreUnavailable: The write certainly failed, and retrying does not help.
        """
        token = known.branch.staging_token
        put = Put(token.encode(), STAGED_PREFIX + key, value, predicate, version)
        places, read_at = self._readings.places_after_write(known), self._runtime.monotonic()
        try:
            return True, (self._store.write([put], places), read_at)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return False, ()

    def _effective_entry(self, known: Reading, key: bytes) -> tuple[Entry | None, Item | None]:
        """Return the visible entry, and the cell under the current staging token."""
        entry, cells = self._reader.effective_entry(known, key)
        return entry, cells[0]


def _check_recent(undo_log: UndoLog, is_recent: IsRecent | None, *, applied: bool) -> None:
    """Undo a write and raise `Stale` if its object is no longer recent.

    `applied` tells whether the write may be visible: the test itself may read the store.
    """
    with applied_before(any_step=applied):
        stale = is_recent is not None and not is_recent()
    if stale:
        undo_log.undo()
        raise Stale(undo_log.entry.key)
