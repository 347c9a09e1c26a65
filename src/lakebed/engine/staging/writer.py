"""Staging a change: plain writes and conditional ones.

**Plain write.** Read the branch (from the cache, if it is there), write under its staging token,
read the branch again, never from the cache. If the token is still the current one, the write is
acknowledged: whoever seals the token later scans it after the seal, and so finds the write. If it
is not, a committer may have scanned the old token before the write arrived; so write again, under
the token of the record just read. What was written under the old token stays: deleting it could
delete another's acknowledged write.

A put also takes back what listings noted about its key, before it is acknowledged (`emptied`).

**Conditional write.** Read the branch, evaluate the condition over its tokens and its commit, write
by compare-and-swap on the staged key, read the branch again. Only if the *whole* record is the same
before and after did the condition hold when the write took effect. A new head alone can change the
answer, with the same tokens. If the record differs, begin again. The writer's own entry, which no
other equals, does not count when it evaluates again; but finding it is no reason to acknowledge: in
a sealed token it may have come too late for the committer that scanned it. It must be written
again, under the current token.

**Fresh objects.** Garbage collection spares young objects, since whoever wrote them may be about to
stage them. A writer that was held up for so long that its object is young no more must therefore
not acknowledge: a collection may have looked for the entry before it was there. So a write can be
given a test, which is made after the second read of the branch. Where it fails, what the write
replaced is put back (`Trail`). That takes a look at the staged key before it is written, and
compare-and-swap on what was seen.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lakebed.engine.errors import NothingThere, PreconditionFailed, Stale, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, Repository
from lakebed.engine.refs.branches import Branches
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging import empty_runs
from lakebed.engine.staging.codec import TOMBSTONE, decode, encode
from lakebed.engine.staging.reader import Reader
from lakebed.engine.staging.undo import Trail
from lakebed.formats import Entry
from lakebed.kv import ABSENT, Item, OutcomeUnknown, Predicate, PredicateFailed, Store, Version
from lakebed.runtime import Runtime

Condition = Callable[[Entry | None], bool]
"""Whether a write may take place, given what is there now; None: nothing is."""

IsFresh = Callable[[], bool]
"""Whether the object of an entry is still young enough to be staged."""


def if_absent(found: Entry | None) -> bool:
    """Only if there is no such entry."""
    return found is None


def check_condition(condition: Condition, key: bytes, found: Entry | None) -> None:
    """Refuse a write to a key whose condition does not hold for what is there.

    Raises:
        PreconditionFailed: It does not; `NothingThere`: and nothing is there.
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
    """The entry that readers see, but for the writer's own."""
    record: Item | None
    """What the current staging token has for the key."""

    @property
    def predicate(self) -> Predicate:
        return ABSENT if self.record is None else self.record.predicate


class Writer:
    """Writes to branches."""

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

    def put(self, repository: Repository, branch: BranchID, entry: Entry) -> None:
        """Stage an entry; when this returns, every later read, list and commit sees it or newer.

        Raises:
            BranchNotFound: There is no such branch.
            TooManyTries: Commits always came between; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        self._write(repository, branch, entry.key, encode(entry))

    def delete(self, repository: Repository, branch: BranchID, key: bytes) -> None:
        """Stage that a key is not there; raises as `put` does."""
        self._write(repository, branch, key, TOMBSTONE)

    def put_fresh(
        self, repository: Repository, branch: BranchID, entry: Entry, is_fresh: IsFresh
    ) -> None:
        """Stage an entry as `put` does, if its object is fresh at the moment of acknowledging.

        Raises:
            BranchNotFound: There is no such branch.
            Stale: The object is not fresh any more. What was staged before is back, but if a commit
                came between, the entry may be in it.
            TooManyTries: Others always came between; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        trail = Trail(self._store, self._runtime, entry)
        _check_fresh(trail, is_fresh)
        current = self._branches.get_cached(repository, branch)
        for _ in range(self._tries):
            found = trail.find(current.staging_token)
            predicate: Predicate = ABSENT if found is None else found.predicate
            value, version = trail.prepare(current.staging_token, found)
            written = self._swap(current, entry.key, value, predicate, version)
            after = self._look_again(repository, current, entry.key)
            _check_fresh(trail, is_fresh)
            if written and after.staging_token == current.staging_token:
                return
            current = after
        raise TooManyTries(f"the write of {entry.key!r}", self._tries)

    def put_if(
        self,
        repository: Repository,
        branch: BranchID,
        entry: Entry,
        condition: Condition,
        is_fresh: IsFresh | None = None,
    ) -> None:
        """Stage an entry if the condition holds at the moment when the entry takes effect.

        The entry must be its own: nobody else ever stages one with all the same fields.

        Raises:
            BranchNotFound: There is no such branch.
            PreconditionFailed: The condition does not hold. (If commits came between, the entry may
                have been visible for a while, and may even be committed.)
            Stale: As `put_fresh`.
            TooManyTries: Others always came between; the entry may be visible.
            OutcomeUnknown: The entry may be visible.
        """
        trail = Trail(self._store, self._runtime, entry)
        _check_fresh(trail, is_fresh)
        for _ in range(self._tries):
            before = self._branches.get(repository, branch)
            seen = self._look(repository, before, entry)
            check_condition(condition, entry.key, seen.entry)
            value, version = trail.prepare(before.staging_token, seen.record)
            written = self._swap(before, entry.key, value, seen.predicate, version)
            after = self._look_again(repository, before, entry.key)
            _check_fresh(trail, is_fresh)
            if written and after.version == before.version:
                return
        raise TooManyTries(f"the conditional write of {entry.key!r}", self._tries)

    def _write(self, repository: Repository, branch: BranchID, key: bytes, value: bytes) -> None:
        current = self._branches.get_cached(repository, branch)
        unknown: OutcomeUnknown | None = None
        for _ in range(self._tries):
            try:
                self._store.set(current.staging_token.encode(), STAGED_PREFIX + key, value)
                unknown = None
            except OutcomeUnknown as error:
                # Writing the same again does no harm: the write was not acknowledged yet.
                unknown = error
            if value == TOMBSTONE:
                after = self._branches.get(repository, branch)
            else:
                after = self._look_again(repository, current, key)
            if unknown is None and after.staging_token == current.staging_token:
                return
            current = after
        raise unknown or TooManyTries(f"the write of {key!r}", self._tries)

    def _look_again(self, repository: Repository, before: Branch, key: bytes) -> Branch:
        """Read a branch after a put; whatever listings noted about the key is taken out."""
        token = before.staging_token
        after, note = self._branches.get_after_put(repository, before.id, token)
        empty_runs.fill(self._store, token, [key], note)
        return after

    def _swap(
        self,
        branch: Branch,
        key: bytes,
        value: bytes,
        predicate: Predicate,
        version: Version | None = None,
    ) -> bool:
        """Write a staged key if it is as it was seen; whether it certainly was."""
        token = branch.staging_token.encode()
        try:
            self._store.set_if(token, STAGED_PREFIX + key, value, predicate, version=version)
        except (PredicateFailed, OutcomeUnknown):
            return False
        return True

    def _look(self, repository: Repository, branch: Branch, own: Entry) -> _Seen:
        staged = self._reader.staged(branch, own.key)
        for record in staged:
            if record is None:
                continue
            entry = decode(own.key, record.value)
            if entry != own:
                return _Seen(entry, staged[0])
        committed = self._reader.committed(repository, branch.commit_id, own.key)
        return _Seen(None if committed == own else committed, staged[0])


def _check_fresh(trail: Trail, is_fresh: IsFresh | None) -> None:
    """Take a write back whose object is not fresh any more, and say so."""
    if is_fresh is not None and not is_fresh():
        trail.undo()
        raise Stale(trail.entry.key)
