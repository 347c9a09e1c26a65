"""Staging a change: plain writes, conditional writes, and writes of objects that must be fresh.

**Plain write.** Read the branch (from the cache, if it is there), write under its staging token,
read the branch again, never from the cache. If the token is still the current one, acknowledge:
whoever seals the token later scans it after the seal, and so finds the write. If not, a committer
may have scanned the old token before the write arrived: write again, under the token of the record
just read. What was written under the old token stays: to delete it could delete another's
acknowledged write.

Before a put is acknowledged, its key is taken out of the notes of listings (`empty_runs`).

**Conditional write.** Read the branch, evaluate the condition over its tokens and its commit, write
by compare-and-swap on the staged key, read the branch again. The condition held when the write took
effect only if the *whole* record is the same before and after: a new head alone, with the same
tokens, can change the answer. If the record differs, start over. The writer's own entry, which is
like no other, is then left out when the condition is evaluated. But to find it there is not a
reason to acknowledge: in a sealed token it may have come too late for the committer that scanned
it. It must be written again, under the current token.

**Fresh objects.** Garbage collection spares young objects, since whoever uploaded them may be about
to stage them. So a writer must not acknowledge if it took so long that its object is not young any
more: a collection may have looked for the entry before it was there. A write can be given a test
for that, `is_fresh`, which is made after the second read of the branch. If it fails, what the write
replaced is put back (`UndoLog`). For that, the staged key is read before it is written, and written
by compare-and-swap on what was read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.store import step_of_many
from lakebed.runtime import Runtime

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
    """The entry that readers would see if the writer's own were not there."""
    staged: Item | None
    """What the current staging token has for the key."""

    @property
    def predicate(self) -> Predicate:
        return ABSENT if self.staged is None else self.staged.predicate


@dataclass(frozen=True, slots=True)
class Target:
    """A branch that was read for a write, after the write began."""

    branch: Branch
    staged: tuple[Item | None, ...] | None = None
    """What each of its tokens has for the key; None: that was not read."""


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
            after = self._look_again(repository, current, entry.key, second)
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

        The entry must be unique: nobody else ever stages one with all the same fields.

        Raises:
            BranchNotFound: There is no such branch.
            PreconditionFailed: The condition does not hold. (If others committed meanwhile, the
                entry may have been visible for a while, and may even be committed.)
            Stale: As `put_fresh`.
            TooManyTries: Others always came first; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        undo_log = UndoLog(self._store, self._runtime, entry)
        _check_fresh(undo_log, is_fresh)
        for number in range(self._tries):
            with step_of_many(applied=number > 0):
                target = known or Target(self._branches.get(repository, branch))
                before, known = target.branch, None
                seen = self._look(repository, before, entry.key, target.staged, own=entry)
                check_condition(condition, entry.key, seen.entry)
                value, version = undo_log.prepare(before.staging_token, seen.staged)
                written, second = self._swap_and_read(
                    repository, before, entry.key, value, seen.predicate, version
                )
            after = self._look_again(repository, before, entry.key, second)
            _check_fresh(undo_log, is_fresh)
            if written and after.version == before.version:
                return
        raise TooManyTries(f"the conditional write of {quoted(entry.key)}", self._tries)

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
                after = self._look_again(repository, current, key)
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
        key: bytes,
        second: _SecondRead | None = None,
    ) -> Branch:
        """Read a branch after a put, and take the key out of the notes of listings.

        If the store has read it with the put already, that is it (`second`).

        Raises:
            BranchNotFound: There is no such branch any more.
            OutcomeUnknown: The store does not answer; the entry may be visible.
        """
        token = before.staging_token
        with step_of_many(applied=True):
            if second is None:
                after, note = self._branches.get_after_put(repository, before.id, token)
            else:
                item, note, read_at = second
                found = self._branches.recognise(repository, before.id, item, read_at)
                if found is None:
                    raise BranchNotFound(before.id)
                after = found
            empty_runs.fill(self._store, token, [key], note)
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
        """Write as `_swap` does; if it costs nothing more, read the branch after that.

        Raises:
            StoreUnavailable: As `_swap`.
        """
        if not self._store.joins_reads:
            return self._swap(branch, key, value, predicate, version), None
        token = branch.staging_token
        places = self._branches.places_after_put(repository, branch.id, token)
        read_at = self._runtime.monotonic()
        try:
            item, note = self._store.set_if_then_get(
                token.encode(), STAGED_PREFIX + key, value, predicate, places, version=version
            )
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return False, None
        return True, _SecondRead(item, note, read_at)

    def _swap(
        self,
        branch: Branch,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        version: Version | None = None,
    ) -> bool:
        """Write a staged key if it is as it was seen; return whether that has certainly worked.

        Raises:
            StoreUnavailable: It has certainly not, and trying again does not help.
        """
        token = branch.staging_token.encode()
        try:
            self._store.set_if(token, STAGED_PREFIX + key, value, predicate, version=version)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            return False
        return True

    def _look(
        self,
        repository: Repository,
        branch: Branch,
        key: bytes,
        staged: Sequence[Item | None] | None = None,
        *,
        own: Entry | None = None,
    ) -> _Seen:
        """Find what is there for a key, but for the writer's own entry."""
        if staged is None:
            staged = self._reader.staged(branch, key)
        for item in staged:
            if item is None:
                continue
            entry = decode(key, item.value)
            if entry is None or entry != own:
                return _Seen(entry, staged[0])
        committed = self._reader.committed(repository, branch.commit_id, key)
        return _Seen(None if committed == own else committed, staged[0])


def _check_fresh(undo_log: UndoLog, is_fresh: IsFresh | None) -> None:
    """Take a write back and raise `Stale`, if its object is not fresh any more."""
    if is_fresh is not None and not is_fresh():
        undo_log.undo()
        raise Stale(undo_log.entry.key)
