"""Staging a change: plain writes, conditional writes, and what may refuse them to the end.

**Plain write.** Read the branch, write under its staging token, read the branch again. If the token
is still the current one, acknowledge: whoever seals the token later scans it after the seal, and so
finds the write. If not, a committer may have scanned the old token before the write arrived: write
again, under the token of the record just read. What was written under the old token stays: to
delete it could delete another's acknowledged write.

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
   (repository, rules, `is_fresh`).
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
for that, `is_fresh`, which is made after the second read of the branch.

**Refusals to the end.** With the branch, the second read of a put has the repository and its
protection rules (`Readings.after_write`): they may forbid the write since it began. A conditional
write is not visible by then. A plain one is: if it is forbidden, or its object is not fresh, what
it replaced is put back. For that, the staged key is read before it is written, and
written by compare-and-swap on what was read. A removal could not be put back so (a tombstone names
no object that garbage collection is to spare), and its second read has the branch alone.

**Undo** (`UndoLog`). A writer may learn too late that it must not acknowledge. Then it takes its
write back: each staged key gets the value it had before, if it still has the writer's own. That
loses nobody's acknowledged write. What others wrote over it stays; and what it wrote over was seen
by the very compare-and-swap that replaced it. A proposal beside the value (`cells`) does not
protect it: the undo goes by the version of the value, and drops the proposal too.

Until then, which may be long, no staged value would name the object of the value that was replaced,
and garbage collection could take it. So the new value names it too.

Two things may still be seen of a write that was taken back. A committer may have read the value
before: then it is in a commit, and stays there. And if two writers of one key take their writes
back, and the second had written over the first, the second puts back the value of the first. So
the first one asks the undo whether another entry *covers* its value:

- Where rules refused the write, it is acknowledged then: it was made in time. Each try of a put
  reads the cell first, and then rules and repository, in one call. So the writer of the other entry
  saw the value before it read rules that still allowed it. That holds under the current token;
  another one may have been scanned before. A tombstone is no cover, since a removal does not read
  the rules after the cell; it is never taken back.
- Where its object is not fresh, the entry may stay.
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
from lakebed.engine.staging import empty_runs
from lakebed.engine.staging.cells import (
    TOMBSTONE,
    decode,
    encode,
    has_proposal,
    propose,
    take_away,
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
"""How long a conditional writer leaves another's proposal alone the first time, and at most twice
that: it then asks again, and replaces a proposal that is still there."""

_LONGEST_WAIT: Final = 32.0
"""How many times as long it waits at most. Each wait is twice as long as the one before, so that
one of several writers gets through on a database of any speed."""

_QUICK_TRIES: Final = 3
"""How often a writer whose cell was changed first begins again at once."""

Condition = Callable[[Entry | None], bool]
"""Whether to write, given the entry that is there now, if any."""

IsFresh = Callable[[], bool]
"""Whether the object of an entry is still young enough to be staged."""

_SecondRead = tuple[()] | tuple[Sequence[Item | None], float]
"""Records that were read with a write, and a moment before."""

EntryFor = Callable[[Entry | None], Entry | None]
"""Return the entry to stage, given the entry that is there now, if any; None: nothing is to be
staged. Raises `PreconditionFailed` if the write is to be refused."""


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


class UndoLog:
    """What one write replaced."""

    def __init__(self, store: Store, runtime: Runtime, entry: Entry) -> None:
        self.entry = entry
        self._store = store
        self._runtime = runtime
        self._key = STAGED_PREFIX + entry.key
        self._replaced: dict[StagingToken, bytes | None] = {}
        self._versions: set[Version] = set()

    def find(self, token: StagingToken) -> Item | None:
        """Return the cell under a token."""
        return self._store.get_many([(token.encode(), self._key)])[0]

    def prepare(self, token: StagingToken, found: Item | None) -> tuple[bytes, Version]:
        """Return the value to write over what was found, and the version to write it with."""
        # If the reply to an earlier write was lost, our own value is there: not what to put back.
        if found is None or not self._is_own(found):
            self._replaced[token] = None if found is None else value_of(found)
        before, version = self._replaced[token], new_version(self._runtime)
        self._versions.add(version)
        # Until an undo, no other staged value may reference the object of the entry below.
        entry = None if before is None else decode(self.entry.key, before)
        address = "" if entry is None else entry.address
        return encode(self.entry, replaced_address=address), version

    def undo(self) -> set[StagingToken]:
        """Put back what was replaced; return the tokens where another entry is over it by now.

        Raises:
            OutcomeUnknown: The entry may still be visible.
        """
        covered = set()
        for token, before in self._replaced.items():
            # An undo that changed nothing leaves what the write changed.
            with applied_before(any_step=True):
                found = self._undo_in(token, before)
            if value_of(found) not in {None, TOMBSTONE}:
                covered.add(token)
        return covered

    def _undo_in(self, token: StagingToken, before: bytes | None) -> Item | None:
        """Return the cell that another write left there; None: what was replaced is back."""
        while (found := self.find(token)) is not None and self._is_own(found):
            # If it fails, someone has written over the value, and that stays; or has made a
            # proposal beside it, or taken one away.
            with suppress(PredicateFailed):
                if before is None:
                    self._store.delete(token.encode(), self._key, found.predicate)
                else:
                    self._store.set(token.encode(), self._key, before, found.predicate)
                return None
        return found

    def _is_own(self, found: Item) -> bool:
        """Whether the value of a cell is this write's own, perhaps with a proposal beside it."""
        return version_of(found) in self._versions


class Writer:
    """Writes to branches that were read for that (`Readings.to_write`)."""

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
        """Write to a store; `on_write` is called after each write that was acknowledged."""
        self._store = store
        self._runtime = runtime
        self._readings = readings
        self._branches = branches
        self._reader = reader
        self._on_write = on_write
        self._tries = settings.tries_max

    @traced("engine.put")
    def put(self, known: Reading, entry: Entry, is_fresh: IsFresh | None = None) -> None:
        """Stage an entry; when this returns, every later read, listing and commit has it or newer.

        With `is_fresh`, only if its object is fresh when the write is acknowledged.

        Raises:
            BranchNotFound, RepositoryNotFound, Deleting: The branch or its repository was deleted.
            ReadOnly, Protected: It may not be written to any more. What was staged before is back;
                but a commit made meanwhile may hold the entry.
            Stale: The object is not fresh any more; otherwise the same.
            TooManyTries: Others always came first; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        undo_log = UndoLog(self._store, self._runtime, entry)
        _check_fresh(undo_log, is_fresh, applied=False)
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
                known = self._look_again(known, [entry.key], second)
            except (Protected, ReadOnly):
                covered = undo_log.undo()
                if not (written and token in covered and self._is_current(known, entry.key)):
                    raise
            _check_fresh(undo_log, is_fresh, applied=True)
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

        Take the key out of the notes of listings: the put that covers it may be taken back.
        """
        token = known.branch.staging_token
        with applied_before(any_step=True):
            branch, (note,) = self._branches.get_with(
                known.repository, known.branch.id, [(token.encode(), EMPTIED)]
            )
            empty_runs.fill(self._store, token, [key], note)
        return branch.staging_token == token

    @traced("engine.put_if")
    def put_if(
        self, known: Reading, key: bytes, entry_for: EntryFor, is_fresh: IsFresh | None = None
    ) -> None:
        """Stage the entry that is wanted over what is there at the moment when it takes effect.

        If this raises anything but `OutcomeUnknown` itself, the entry was never visible, and never
        will be.

        Raises:
            BranchNotFound: There is no such branch any more.
            ReadOnly, Protected, RepositoryNotFound, Deleting: It may not be written to any more.
            PreconditionFailed: By `entry_for`.
            Stale: The object is not fresh any more.
            TooManyTries: Others always came first.
            OutcomeUnknown: The entry may be visible.
        """

        def value_for(found: Entry | None) -> bytes | None:
            entry = entry_for(found)
            return None if entry is None else encode(entry)

        self._write_if(known, key, value_for, is_fresh)

    @traced("engine.delete")
    def delete(self, known: Reading, key: bytes) -> None:
        """Stage the removal of a key, whatever is there.

        Raises:
            BranchNotFound: There is no such branch any more.
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
        """Stage the removal of a key on a condition; raises as `put_if` does."""

        def value_for(found: Entry | None) -> bytes:
            check_condition(condition, key, found)
            return TOMBSTONE

        self._write_if(known, key, value_for, None)

    def _write_if(
        self,
        known: Reading,
        key: bytes,
        value_for: Callable[[Entry | None], bytes | None],
        is_fresh: IsFresh | None,
    ) -> None:
        if is_fresh is not None and not is_fresh():
            raise Stale(key)
        waited_for: Predicate | None = None
        for number in range(self._tries):
            if number > 0:
                known = self._read_again(known, key)
            entry, cell = self._look(known, key)
            value = value_for(entry)
            if value is None:
                return None
            predicate: Predicate = ABSENT if cell is None else cell.predicate
            if has_proposal(cell) and predicate != waited_for:
                waited_for = predicate
                self._wait(number)
                continue
            if self._stage(known, key, value, cell, is_fresh):
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
        is_fresh: IsFresh | None,
    ) -> bool:
        """Do steps 2 to 4 of a conditional write; return False if they must be done again."""
        branch = known.branch
        cell, version = propose(found, value, branch.version), new_version(self._runtime)
        predicate: Predicate = ABSENT if found is None else found.predicate
        written, second = self._swap_and_read(known, key, cell, predicate, version)
        if not written:
            return False  # or the reply was lost: what is never confirmed does no harm
        proposal = Item(STAGED_PREFIX + key, cell, version)
        shown = [] if value == TOMBSTONE else [key]
        try:
            after = self._look_again(known, shown, second, applied=False).branch
        except REFUSALS:
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
        """Let others go first, for longer each time."""
        longer = min(2.0**number, _LONGEST_WAIT)
        self._runtime.sleep(_WAIT_SECONDS * longer * (1 + self._runtime.random()))

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
        known: Reading,
        keys: list[bytes],
        second: _SecondRead,
        *,
        applied: bool = True,
    ) -> Reading:
        """Read again what a write went by, and take keys out of the notes of listings.

        `second` is what was read with the write, if anything was. `applied` says whether something
        may be visible by now.

        Raises:
            BranchNotFound: There is no such branch any more.
            ReadOnly, Protected, RepositoryNotFound, Deleting: It may not be written to any more.
            OutcomeUnknown: The store does not answer; the entry may be visible.
        """
        with applied_before(any_step=applied):
            after = self._readings.after_write(known, *second)
            if after.note is not None:
                empty_runs.fill(self._store, known.branch.staging_token, keys, after.note)
        return after

    def _swap_and_read(
        self, known: Reading, key: bytes, value: bytes, predicate: Predicate, version: Version
    ) -> tuple[bool, _SecondRead]:
        """Write a staged key if it is as it was seen, and read what proves the write after that.

        Returns:
            Whether the write has certainly worked; and the records that were read, if it has.

        Raises:
            StoreUnavailable: It has certainly not, and trying again does not help.
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

    def _look(self, known: Reading, key: bytes) -> tuple[Entry | None, Item | None]:
        """Return the entry that readers see, and the cell under the current staging token."""
        entry, cells = self._reader.look(known, key)
        return entry, cells[0]


def _check_fresh(undo_log: UndoLog, is_fresh: IsFresh | None, *, applied: bool) -> None:
    """Take a write back and raise `Stale`, if its object is not fresh any more.

    `applied` says whether something may be visible by now: the test itself may ask the store.
    """
    with applied_before(any_step=applied):
        stale = is_fresh is not None and not is_fresh()
    if stale:
        undo_log.undo()
        raise Stale(undo_log.entry.key)
