"""Creation of branches and tags: a name is that of a branch or of a tag, never of both.

Branches and tags have prefixes of their own, so that a list of one kind reads none of the other.
The store swaps one key at a time, so a creation has three steps. All stores take the same steps:

    1. write the own record in state CREATING, if the key is absent
    2. read, in one call: the record of the other kind, the mark of the commit (`expiry_marks`), and
       all else that the creation depends on (`CreationReads`)
    3. write the own record in state LIVE, over that of step 1

If the look says no, the own record is deleted, if it is still that of step 1.

| state         | readers   | a creator of either kind         | what collects data                |
|---------------|-----------|----------------------------------|-----------------------------------|
| CREATING      | not found | waits for a moment, then ends it | its commit is referenced, it has  |
|               |           |                                  | no tokens; ended after a day      |
| LIVE          | found     | the name is taken                | commit and tokens are referenced  |
| any other one | not found | the name is taken                | commit and tokens are referenced  |

**Why only one is finished.** Of a branch and a tag that are both in state CREATING, one wrote its
step 1 last. Its step 2 comes after both of these writes, so it finds the other one LIVE, and gives
way; or CREATING, and deletes it, so that the other's step 3 fails. A step 3 that fails has changed
nothing: the creation begins again, and then finds who has the name.

**The commit must not expire meanwhile.** A record in any state references its commit for the
expirer, which marks first and scans refs afterwards; the creator writes the record first and reads
the mark afterwards. So one of the two sees the other. This takes two writes on every store: a
record that is LIVE from the start is found by readers before its creator has read the mark, and
stays if the creator dies in between.

**Deaths.** A creator that dies before step 3 leaves a CREATING record, which no reader finds and
which blocks nobody: the next creator of that kind writes over it, one of the other kind deletes it,
the expirer does so after a day, and the Cleaner with the repository. Nothing is staged on a branch
that no reader finds, so it has no staging token to announce. The record may also be that of a
creator at work. Who meets one waits for a moment before ending it, or else those who race for a
name could end each other's records for ever. This matters for progress alone; the swaps are what is
safe.

**Lost replies.** The creator reads the record again. After step 1, it begins again unless it finds
the version that it drew. After step 3, it begins again if the record of step 1 is still there;
another record may be its own one that was changed or deleted since: unknown.

**Deletions** need no steps: they free a name by deleting the one record that has it. A creator that
met it was refused; one that looks later finds the name free.

**One name twice.** lakeFS may have a branch and a tag of one name, and so may dumps of versions
before these steps. A restore and a migration create both (`shared`). The name then means the branch
in a ref expression; the tag is found, listed and deleted as a tag. Once one of them is deleted, the
other has the name.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from lakebed.base.errors import LakebedError
from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NotUnique, TooManyTries
from lakebed.engine.expiry_marks import Marks
from lakebed.engine.keys import BRANCHES, CREATING, LIVE, TAGS
from lakebed.engine.model import CommitID, Repository
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
from lakebed.kv.records import Record, Records
from lakebed.kv.store import new_version, still_unknown

RefT = TypeVar("RefT", pb.Branch, pb.Tag)
OtherT = TypeVar("OtherT", pb.Branch, pb.Tag)
AnyRefT = TypeVar("AnyRefT", pb.Branch, pb.Tag)

_TRIES: Final = 10
PATIENCE_SECONDS: Final = 0.05
"""How long a CREATING record is left to a creator that may be at work, at least."""


@dataclass(frozen=True, slots=True)
class CreationReads:
    """What a creation reads in step 2 beside the record of the other kind and the mark."""

    keys: Sequence[tuple[bytes, bytes]]
    """Partitions and keys."""
    judge: Callable[[Sequence[Item | None]], CommitID]
    """Given what is there, returns the commit that is to be referenced; or raises a `LakebedError`,
    and nothing is created. Called again if others interfere."""


class _Raced(Exception):
    """Someone else changed a record first; begin again."""


def create_branch(
    store: Store,
    runtime: Runtime,
    repository: Repository,
    name: str,
    branch: pb.Branch,
    look: CreationReads | None = None,
    *,
    shared: bool = False,
) -> Version:
    """Create a branch; return the version of its record.

    Args:
        store: The store.
        runtime: Chance, and time.
        repository: In which repository.
        name: The name of the branch.
        branch: Its record. With a `look`, two calls are saved if it has the commit that the look
            will return.
        look: What the creation depends on, beside the name and the mark of the commit.
        shared: Whether a tag may have the name too, because that is so in what is copied.

    Raises:
        NotUnique: A branch or a tag has this name.
        CommitExpired: The data of the commit is not kept any more.
        TooManyTries: Others always came first.
        OutcomeUnknown: It may have been made.
    """
    branches, tags = _records(store, repository)
    own, other = ("branch", branches), ("tag", tags)
    creation = _Creation(store, runtime, repository, own, other, name)
    return creation.run(branch, look, shared=shared)


def create_tag(
    store: Store,
    runtime: Runtime,
    repository: Repository,
    name: str,
    tag: pb.Tag,
    look: CreationReads | None = None,
    *,
    shared: bool = False,
) -> Version:
    """Create a tag; otherwise as `create_branch`."""
    branches, tags = _records(store, repository)
    own, other = ("tag", tags), ("branch", branches)
    creation = _Creation(store, runtime, repository, own, other, name)
    return creation.run(tag, look, shared=shared)


def _records(store: Store, repository: Repository) -> tuple[Records[pb.Branch], Records[pb.Tag]]:
    partition = repository.partition
    return Records(store, BRANCHES, partition), Records(store, TAGS, partition)


def was_created(records: Records[AnyRefT], name: str, unique_id: UniqueID) -> bool:
    """Return whether a creation was finished, once it cannot be any more.

    For finding out the outcome of a process that was about to finish it: its CREATING record is
    deleted, so that it fails, or begins again with step 1.

    Raises:
        TooManyTries: Others always came first.
    """
    for _ in range(_TRIES):
        found = records.find(name.encode())
        if found is None or found.message.unique_id != unique_id:
            return False
        if found.message.state != CREATING:
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
        if found is None or found.message.state != LIVE or found.message.unique_id != unique_id:
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
        repository: Repository,
        own: tuple[str, Records[RefT]],
        other: tuple[str, Records[OtherT]],
        name: str,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._repository = repository
        self._marks = Marks(store)
        self._kind, self._other_kind = own[0], other[0]
        self._own: Records[RefT] = own[1]
        self._other: Records[OtherT] = other[1]
        self._id = name
        self._name = name.encode()

    def run(self, message: RefT, look: CreationReads | None, *, shared: bool = False) -> Version:
        """Take all steps, again if others interfere; return the version of the LIVE record."""
        predicate: Predicate = ABSENT
        for _ in range(_TRIES):
            try:
                message.state = CREATING
                created, found = self._write(message, predicate, self._keys(message, look))
                created = self._judge(message, created, found, look, shared=shared)
                message.state = LIVE
                return self._write(message, created)[0]
            except _Raced:
                predicate = self._look_again()
        raise TooManyTries(f"the creation of {self._kind} {self._id}", _TRIES)

    def _write(
        self,
        message: RefT,
        predicate: Predicate,
        keys: Sequence[tuple[bytes, bytes]] = (),
    ) -> tuple[Version, list[Item | None]]:
        """Steps 1 and 3: return the version of the record, and what some keys have after that.

        Raises:
            _Raced: Nothing was written that readers find.
        """
        version = new_version(self._runtime)
        try:
            put = self._own.put(self._name, message, predicate, version=version)
            return version, self._store.write([put], keys)
        except PredicateFailed:
            raise _Raced from None
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with still_unknown(unknown):
                found = self._own.find(self._name)
            there = None if found is None else found.predicate
            if there == version:
                return version, self._store.get_many(keys)
            if message.state == CREATING or there == predicate:
                raise _Raced from None
            raise

    def _keys(self, message: RefT, look: CreationReads | None) -> list[tuple[bytes, bytes]]:
        """Return the keys of step 2."""
        return [
            self._other.place(self._name),
            self._marks.place(self._repository, CommitID(message.commit_id)),
            *(() if look is None else look.keys),
        ]

    def _judge(
        self,
        message: RefT,
        created: Version,
        items: Sequence[Item | None],
        look: CreationReads | None,
        *,
        shared: bool,
    ) -> Version:
        """Step 2: return the version of the CREATING record, which now has the right commit.

        Whether the name is free comes first: only then is leave asked for.
        """
        other, mark, *found = items
        try:
            if other is not None and not shared:
                self._settle_other(self._other.decode(other))
            commit_id = CommitID(message.commit_id) if look is None else look.judge(found)
            if commit_id != message.commit_id:
                message.commit_id = commit_id
                mark_place = self._marks.place(self._repository, commit_id)
                created, [mark] = self._write(message, created, [mark_place])
            self._marks.let_name(self._repository, commit_id, mark)
        except LakebedError:
            # If this fails, a CREATING record stays, which does no harm.
            with suppress(LakebedError):
                self._own.delete_if(self._name, created)
            raise
        return created

    def _settle_other(self, record: Record[OtherT]) -> None:
        """Return if the other kind does not have the name, nor will get it."""
        found = self._let_settle(self._other, record)
        if found is None:
            return
        if found.message.state != CREATING:
            raise NotUnique(
                f"{self._other_kind} {self._id} {_taken(found.message)}, and a {self._kind} cannot"
                " have the same name: use another name"
            )
        try:
            self._other.delete_if(self._name, found.predicate)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            raise _Raced from None

    def _look_again(self) -> Predicate:
        """Return the predicate for the next step 1.

        Raises:
            NotUnique: There is a record that is not CREATING.
        """
        found = self._let_settle(self._own, self._own.find(self._name))
        if found is None:
            return ABSENT
        if found.message.state != CREATING:
            raise NotUnique(f"{self._kind} {self._id} {_taken(found.message)}")
        return found.predicate

    def _let_settle(
        self, records: Records[AnyRefT], found: Record[AnyRefT] | None
    ) -> Record[AnyRefT] | None:
        """Return the record under the name; one that is CREATING has had its time by then."""
        if found is not None and found.message.state == CREATING:
            self._runtime.sleep(PATIENCE_SECONDS * (1 + self._runtime.random()))
            return records.find(self._name)
        return found


def _taken(message: pb.Branch | pb.Tag) -> str:
    return "exists already" if message.state == LIVE else "is being deleted"
