"""Creation of branches and tags: a name belongs to a branch or a tag, never to both.

Branches and tags have separate prefixes, so that listing one kind reads none of the other. The
store swaps one key at a time, so a creation has three steps, on all stores:

    1. write the own record in state CREATING, if the key is absent
    2. read, in one call: the record of the other kind, the mark of the commit (`expiry_marks`), and
       everything else the creation depends on (`CreationReads`)
    3. write the own record in state LIVE, over that of step 1

If step 2 forbids the creation, the own record of step 1, if unchanged, is deleted.

| state       | readers   | a creator of either kind         | garbage collection                |
|-------------|-----------|----------------------------------|-----------------------------------|
| CREATING    | not found | waits briefly, then deletes it   | its commit is referenced; it has  |
|             |           |                                  | no tokens; deleted after a day    |
| LIVE        | found     | the name is taken                | commit and tokens are referenced  |
| any other   | not found | the name is taken                | commit and tokens are referenced  |

**Why only one creation succeeds.** Of a branch and a tag in state CREATING, one wrote its step 1
last. Its step 2 comes after both writes, so it finds the other LIVE and gives up; or CREATING and
deletes it, so that the other's step 3 fails. A failed step 3 has changed nothing: the creation
starts again and then finds the owner of the name.

**The commit must not expire meanwhile.** A record in any state references its commit for the
expirer, which marks first and scans refs afterwards; the creator writes the record first and reads
the mark afterwards. So one of the two sees the other. This takes two writes on every store: a
record that is LIVE from the start is visible before its creator has read the mark, and stays if the
creator dies in between.

**Deaths.** A creator that dies before step 3 leaves an invisible CREATING record, which blocks no
later creator: the next creation of its kind overwrites the record, the next of the other kind
deletes it, as do the expirer after a day, and the Cleaner with the repository. No change is staged
on an invisible branch, so no staging token needs to be announced. A CREATING record may also belong
to a live creator. Other creators wait briefly before deleting it; else two racing for a name could
delete each other's records for ever. The wait matters for progress alone; safety comes from the
swaps.

**Lost replies.** The creator reads the record again. After step 1, it starts again unless the
record has the version it drew. After step 3, it starts again if the record of step 1 is unchanged;
another record may be its own, changed or deleted since: unknown.

**Deletions** need no steps: they free a name by deleting its only record. A creator that met the
record was refused; a later creator finds the name free.

**Shared names.** lakeFS may have a branch and a tag of the same name, and so may dumps of versions
before these steps. A restore and a migration create both (`shared`). The name then means the branch
in a ref expression; the tag is found, listed and deleted as a tag. Once either is deleted, the
other has the name.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, UniqueID
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NotUnique, TooManyTries
from lakebed.engine.expiry_marks import ExpiryMarks
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
"""Minimum time a CREATING record is left to its creator, which may be alive."""


@dataclass(frozen=True, slots=True)
class CreationReads:
    """Additional reads of step 2, besides the record of the other kind and the mark."""

    keys: Sequence[tuple[bytes, bytes]]
    """Partitions and keys."""
    judge: Callable[[Sequence[Item | None]], CommitID]
    """Given the items at `keys`, returns the commit to reference; or raises a `LakebedError`, and
    nothing is created. Called again after interference."""


class _ConcurrentChange(Exception):
    """A record was changed concurrently; start again."""


def create_branch(
    store: Store,
    runtime: Runtime,
    repository: Repository,
    name: str,
    branch: pb.Branch,
    reads: CreationReads | None = None,
    *,
    shared: bool = False,
) -> Version:
    """Create a branch; return the version of its record.

    With `reads`, the other records the creation depends on, a right guess of the commit in `branch`
    saves two calls. With `shared`, a tag may have the name too, as in the copied repository.

    Raises:
        NotUnique: A branch or a tag has this name.
        CommitExpired: The commit has expired.
        TooManyTries: Concurrent changes won every time.
        OutcomeUnknown: The branch may have been created.
    """
    branches, tags = _records(store, repository)
    own, other = ("branch", branches), ("tag", tags)
    creation = _Creation(store, runtime, repository, own, other, name)
    return creation.run(branch, reads, shared=shared)


def create_tag(
    store: Store,
    runtime: Runtime,
    repository: Repository,
    name: str,
    tag: pb.Tag,
    reads: CreationReads | None = None,
    *,
    shared: bool = False,
) -> Version:
    """Create a tag; otherwise as `create_branch`."""
    branches, tags = _records(store, repository)
    own, other = ("tag", tags), ("branch", branches)
    creation = _Creation(store, runtime, repository, own, other, name)
    return creation.run(tag, reads, shared=shared)


def _records(store: Store, repository: Repository) -> tuple[Records[pb.Branch], Records[pb.Tag]]:
    partition = repository.partition
    return Records(store, BRANCHES, partition), Records(store, TAGS, partition)


def was_created(records: Records[AnyRefT], name: str, unique_id: UniqueID) -> bool:
    """Return whether a creation was finished, and prevent a later finish.

    Used after the death of a creator: deletes its CREATING record, so that the creation fails, or
    starts again with step 1. Raises `TooManyTries` if concurrent changes won every time.
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
    raise TooManyTries(f"settling the creation of {name}", _TRIES)


def was_deleted(records: Records[AnyRefT], name: str, unique_id: UniqueID) -> bool:
    """Return whether a branch or tag was deleted, and fail deletions in flight.

    Rewrites its record unchanged, so that a deletion of the record read before fails or starts
    again. Raises `TooManyTries` if concurrent changes won every time.
    """
    for _ in range(_TRIES):
        found = records.find(name.encode())
        if found is None or found.message.state != LIVE or found.message.unique_id != unique_id:
            return True
        with suppress(PredicateFailed):
            records.set_if(name.encode(), found.message, found.predicate)
            return False
    raise TooManyTries(f"settling the deletion of {name}", _TRIES)


class _Creation(Generic[RefT, OtherT]):
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
        self._marks = ExpiryMarks(store)
        self._kind, self._other_kind = own[0], other[0]
        self._own: Records[RefT] = own[1]
        self._other: Records[OtherT] = other[1]
        self._id = name
        self._name = name.encode()

    def run(self, message: RefT, reads: CreationReads | None, *, shared: bool = False) -> Version:
        """Take all steps, again after interference; return the version of the LIVE record."""
        predicate: Predicate = ABSENT
        for _ in range(_TRIES):
            try:
                message.state = CREATING
                created, found = self._write(message, predicate, self._keys(message, reads))
                created = self._judge(message, created, found, reads, shared=shared)
                message.state = LIVE
                return self._write(message, created)[0]
            except _ConcurrentChange:
                predicate = self._next_predicate()
        raise TooManyTries(f"the creation of {self._kind} {self._id}", _TRIES)

    def _write(
        self, message: RefT, predicate: Predicate, keys: Sequence[tuple[bytes, bytes]] = ()
    ) -> tuple[Version, list[Item | None]]:
        """Steps 1 and 3: return the version of the record, and the items at `keys` after the write.

        Raises `_ConcurrentChange` if nothing visible to readers was written.
        """
        version = new_version(self._runtime)
        try:
            put = self._own.put(self._name, message, predicate, version=version)
            return version, self._store.write([put], keys)
        except PredicateFailed:
            raise _ConcurrentChange from None
        except StoreUnavailable:
            raise
        except OutcomeUnknown as unknown:
            with still_unknown(unknown):
                found = self._own.find(self._name)
            there = None if found is None else found.predicate
            if there == version:
                return version, self._store.get_many(keys)
            if message.state == CREATING or there == predicate:
                raise _ConcurrentChange from None
            raise

    def _keys(self, message: RefT, reads: CreationReads | None) -> list[tuple[bytes, bytes]]:
        return [
            self._other.place(self._name),
            self._marks.place(self._repository, CommitID(message.commit_id)),
            *(() if reads is None else reads.keys),
        ]

    def _judge(
        self,
        message: RefT,
        created: Version,
        items: Sequence[Item | None],
        reads: CreationReads | None,
        *,
        shared: bool,
    ) -> Version:
        """Step 2: return the version of the CREATING record, which now has the right commit.

        Permission is asked for only after the name was found free.
        """
        other, mark, *found = items
        try:
            if other is not None and not shared:
                self._settle_other(self._other.decode(other))
            commit_id = CommitID(message.commit_id) if reads is None else reads.judge(found)
            if commit_id != message.commit_id:
                message.commit_id = commit_id
                mark_place = self._marks.place(self._repository, commit_id)
                created, [mark] = self._write(message, created, [mark_place])
            self._marks.admit_ref(self._repository, commit_id, mark)
        except LakebedError:
            # If the delete fails, a CREATING record stays, which does no harm.
            with suppress(LakebedError):
                self._own.delete_if(self._name, created)
            raise
        return created

    def _settle_other(self, record: Record[OtherT]) -> None:
        """Return if the other kind does not have the name and will not get it."""
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
            raise _ConcurrentChange from None

    def _next_predicate(self) -> Predicate:
        """Return the predicate for the next step 1, or raise `NotUnique`."""
        found = self._let_settle(self._own, self._own.find(self._name))
        if found is None:
            return ABSENT
        if found.message.state != CREATING:
            raise NotUnique(f"{self._kind} {self._id} {_taken(found.message)}: use another name")
        return found.predicate

    def _let_settle(
        self, records: Records[AnyRefT], found: Record[AnyRefT] | None
    ) -> Record[AnyRefT] | None:
        """Return the record under the name, after leaving a CREATING record time to finish."""
        if found is not None and found.message.state == CREATING:
            self._runtime.sleep(PATIENCE_SECONDS * (1 + self._runtime.random()))
            return records.find(self._name)
        return found


def _taken(message: pb.Branch | pb.Tag) -> str:
    return "already exists" if message.state == LIVE else "is being deleted"
