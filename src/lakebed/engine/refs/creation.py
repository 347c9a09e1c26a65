"""Creating branches and tags, so that a name is a branch's or a tag's and never both's.

The two have keys of their own, and the store swaps one key at a time. So a creation has three
steps, and until the last one readers do not find what is being created:

    1. the own record, *pending*, only if there is none
    2. a look at the record of the other kind: a finished one has the name, and the own record is
       taken back; one that is pending is deleted, if it is still the one that was seen
    3. the own record, finished, only over that of step 1

What else the creation depends on (is the repository there, which commit does the source name) can
be read in the call that makes the look (`Look`). If it turns out that nothing may be created, the
own record is taken back.

**The commit must not expire meanwhile** (`lakebed.engine.expiry_marks`). A pending record counts as
a ref to whoever expires commits. So it names its commit, and the commit's mark is read after it is
written: in the same look. If the commit is not known before the look, the record names what it
probably is. If that was wrong, the pending record is written once more, and the mark read.

**Why only one is finished.** Of a branch and a tag that are both pending, one wrote its step 1
last. Its step 2 comes after both of these writes, so it finds the other finished, and gives way; or
pending, and deletes it, so that the other's step 3 fails. A step 3 that fails has changed nothing:
the creation begins again, and then finds who has the name.

**At once.** A store that guards its writes (`Store.guards_writes`) needs no steps. The finished
record is written only if there is none, none of the other kind either, and all else that the
creation depends on is as it was seen before: each of them proved at the moment of the write. Beside
those who take the steps this is safe: their record, pending or not, is there before that moment,
and then nothing is written; or it comes after it, and then their look finds the name taken. If
nothing was written, the creation takes the steps, which say why, or succeed. Hooks that are told
of each try need the pending record, so where there are any, the creation takes the steps.

**Deaths.** A creator that dies before step 3 leaves a pending record, which nobody sees and which
blocks nobody: the next creator of that kind writes over it, one of the other kind deletes it, and
the Cleaner removes it with its repository. Nothing can be staged on a branch that nobody finds, so
it has no staging token to announce. A pending record may also be that of someone who is at work.
Whoever meets one waits for a moment before ending it, or else those who race for a name could end
each other's records for ever. This matters for progress alone; the swaps are what is safe.

**Lost replies.** After step 1 or 3, the creator looks whether the record has the version that it
drew. After step 3, another one may mean that the record was finished and then changed: unknown.

**Deletions** need no steps: they free a name by deleting the one record that has it.

Repositories of older versions may have a branch and a tag of one name. Both stay; the branch is
found first (`resolve`). A dump of such a repository gives back both (`restore`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NotUnique, TooManyTries
from lakebed.engine.expiry_marks import Marks
from lakebed.engine.keys import BRANCHES, TAGS
from lakebed.engine.model import CommitID, Repository
from lakebed.errors import LakebedError
from lakebed.ids import UniqueID
from lakebed.kv import (
    ABSENT,
    Guard,
    Item,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
    Version,
)
from lakebed.kv.records import Record, Records
from lakebed.kv.store import new_version, settling
from lakebed.runtime import Runtime

RefT = TypeVar("RefT", pb.Branch, pb.Tag)
OtherT = TypeVar("OtherT", pb.Branch, pb.Tag)
AnyRefT = TypeVar("AnyRefT", pb.Branch, pb.Tag)

_TRIES: Final = 10
PATIENCE_SECONDS: Final = 0.05
"""How long a pending record is left to those who may be at work on it, at least."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a creation reads beside the record of the other kind, in the same call."""

    repository: Repository
    marks: Marks
    """Say whether the commit has expired."""
    keys: Sequence[tuple[bytes, bytes]]
    """Partitions and keys."""
    judge: Callable[[Sequence[Item | None]], CommitID]
    """Given what is there, returns the commit that is to be named; or raises a `LakebedError`, and
    nothing is created."""

    def mark_of(self, message: pb.Branch | pb.Tag) -> list[tuple[bytes, bytes]]:
        """Return where the mark of the commit that a message names would be."""
        commit_id = CommitID(message.commit_id)
        return [self.marks.place(self.repository, commit_id)] if commit_id else []


class _Raced(Exception):
    """Someone else changed a record first; begin again."""


def create_branch(
    store: Store,
    runtime: Runtime,
    partition: bytes,
    name: str,
    branch: pb.Branch,
    look: Look | None = None,
) -> Version:
    """Create a branch; return the version of its record.

    Without a `look`, nothing is looked at but the name.

    Raises:
        NotUnique: A branch or a tag has this name.
        CommitExpired: The data of the commit is not kept any more.
        TooManyTries: Others always came first.
        OutcomeUnknown: It may have been made.
    """
    branches, tags = Records(store, BRANCHES, partition), Records(store, TAGS, partition)
    return _Creation(store, runtime, ("branch", branches), ("tag", tags), name).run(branch, look)


def create_branch_at_once(
    store: Store,
    runtime: Runtime,
    partition: bytes,
    name: str,
    branch: pb.Branch,
    guards: Sequence[Guard],
) -> Version | None:
    """Create a branch in one write that proves some guards; return the version of its record.

    None: nothing was made. A guard does not hold, or the name is taken, or may be.

    Raises:
        OutcomeUnknown: It may have been made.
    """
    branches, tags = Records(store, BRANCHES, partition), Records(store, TAGS, partition)
    key = name.encode()
    proved = [Guard(*tags.place(key), ABSENT), *guards]
    version = new_version(runtime)
    try:
        store.write([branches.put(key, branch, ABSENT, version=version)], guards=proved)
    except PredicateFailed:
        return None
    except StoreUnavailable:
        raise
    except OutcomeUnknown as unknown:
        with settling(unknown):
            found = branches.find(key)
        if found is None or found.predicate != version:
            raise
    return version


def create_tag(
    store: Store,
    runtime: Runtime,
    partition: bytes,
    name: str,
    tag: pb.Tag,
    look: Look | None = None,
) -> Version:
    """Create a tag; otherwise as `create_branch`."""
    branches, tags = Records(store, BRANCHES, partition), Records(store, TAGS, partition)
    return _Creation(store, runtime, ("tag", tags), ("branch", branches), name).run(tag, look)


def was_created(records: Records[AnyRefT], name: str, unique_id: UniqueID) -> bool:
    """Return whether a creation was finished, once it cannot be any more.

    For who finds out what became of a process that was about to finish it: its pending record is
    deleted, so that it fails, or begins again with step 1.

    Raises:
        TooManyTries: Others always came first.
    """
    for _ in range(_TRIES):
        found = records.find(name.encode())
        if found is None or found.message.unique_id != unique_id:
            return False
        if not found.message.pending:
            return True
        with suppress(PredicateFailed):
            records.delete_if(name.encode(), found.predicate)
            return False
    raise TooManyTries(f"the look at {name}", _TRIES)


def was_deleted(records: Records[AnyRefT], name: str, unique_id: UniqueID) -> bool:
    """Return whether a branch or a tag is gone, once who read it before cannot delete it any more.

    Its record is written anew with the same content, so that a deletion of what was read before
    fails, or begins again.

    Raises:
        TooManyTries: Others always came first.
    """
    for _ in range(_TRIES):
        found = records.find(name.encode())
        if found is None or found.message.pending or found.message.unique_id != unique_id:
            return True
        with suppress(PredicateFailed):
            records.set_if(name.encode(), found.message, found.predicate)
            return False
    raise TooManyTries(f"the look at {name}", _TRIES)


class _Creation(Generic[RefT, OtherT]):
    """The creation of one branch or tag."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        own: tuple[str, Records[RefT]],
        other: tuple[str, Records[OtherT]],
        name: str,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._kind, self._other_kind = own[0], other[0]
        self._own: Records[RefT] = own[1]
        self._other: Records[OtherT] = other[1]
        self._id = name
        self._name = name.encode()

    def run(self, message: RefT, look: Look | None = None) -> Version:
        """Do all steps, again if others interfere."""
        predicate: Predicate = ABSENT
        for _ in range(_TRIES):
            try:
                pending = self._announce_and_look(message, predicate, look)
                return self._finish(message, pending)
            except _Raced:
                predicate = self._look_again()
        raise TooManyTries(f"the creation of {self._kind} {self._id}", _TRIES)

    def _announce(
        self, message: RefT, predicate: Predicate, keys: Sequence[tuple[bytes, bytes]]
    ) -> tuple[Version, list[Item | None]]:
        """Step 1: return the version of the pending record, and what is at some keys after that."""
        announced = type(message)()
        announced.CopyFrom(message)
        announced.pending = True
        version = new_version(self._runtime)
        try:
            put = self._own.put(self._name, announced, predicate, version=version)
            items = self._store.write([put], keys)
        except PredicateFailed:
            raise _Raced from None
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with settling(unknown):
                found = self._own.find(self._name)
            if found is None or found.predicate != version:
                raise _Raced from None
            items = self._store.get_many(keys)
        return version, items

    def _announce_and_look(self, message: RefT, predicate: Predicate, look: Look | None) -> Version:
        """Steps 1 and 2. Whether the name is free comes first: only then is leave asked for.

        Returns the version of the pending record, which now names the right commit.
        """
        mark: Sequence[tuple[bytes, bytes]] = () if look is None else look.mark_of(message)
        keys: Sequence[tuple[bytes, bytes]] = () if look is None else look.keys
        places = [self._other.place(self._name), *mark, *keys]
        pending, items = self._announce(message, predicate, places)
        found = None if items[0] is None else self._other.decode(items[0])
        self._settle_other(self._let_settle(self._other, found), pending)
        if look is None:
            return pending
        try:
            commit_id = look.judge(items[1 + len(mark) :])
            mark_item = items[1]
            if message.commit_id != commit_id:
                message.commit_id = commit_id
                pending, [mark_item] = self._announce(message, pending, look.mark_of(message))
            look.marks.let_name(look.repository, commit_id, mark_item)
        except LakebedError:
            self._take_back(pending)
            raise
        return pending

    def _settle_other(self, found: Record[OtherT] | None, pending: Version) -> None:
        """Step 2: return if the other kind does not have the name, nor will get it."""
        if found is None:
            return
        if not found.message.pending:
            self._take_back(pending)
            raise NotUnique(
                f"{self._other_kind} {self._id} exists already, and a {self._kind} cannot have the"
                " same name: use another name"
            )
        try:
            self._other.delete_if(self._name, found.predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            raise _Raced from None

    def _take_back(self, pending: Version) -> None:
        # If this fails, a pending record stays, which does no harm.
        with suppress(LakebedError):
            self._own.delete_if(self._name, pending)

    def _finish(self, message: RefT, pending: Version) -> Version:
        """Step 3: return the version of the finished record."""
        version = new_version(self._runtime)
        try:
            self._own.set_if(self._name, message, pending, version=version)
        except PredicateFailed:
            raise _Raced from None
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with settling(unknown):
                found = self._own.find(self._name)
            if found is not None and found.predicate == pending:
                raise _Raced from None
            if found is None or found.predicate != version:
                raise
        return version

    def _look_again(self) -> Predicate:
        """Return what step 1 may be done over.

        Raises:
            NotUnique: Someone else's record is finished.
        """
        found = self._let_settle(self._own, self._own.find(self._name))
        if found is None:
            return ABSENT
        if not found.message.pending:
            raise NotUnique(f"{self._kind} {self._id} exists already")
        return found.predicate

    def _let_settle(
        self, records: Records[AnyRefT], found: Record[AnyRefT] | None
    ) -> Record[AnyRefT] | None:
        """Return what was found under the name; a pending record has had its time by then."""
        if found is not None and found.message.pending:
            self._runtime.sleep(PATIENCE_SECONDS * (1 + self._runtime.random()))
            return records.find(self._name)
        return found
