"""How a repository ends: in steps that anyone may take, again and again, from any of them on.

    1. its record becomes `deleting`        from here on it ends, whoever dies
    2. an entry in `graveler_deleted`       so that its partition is found when nothing names it
    3. its record is removed                the name is free
    4. its claim is removed                 the namespace is free (it was dead since step 3)

What a process that dies leaves behind:

- after 1 or 2: a `deleting` record. Whoever meets it (create, delete, the Cleaner) goes on.
- after 3: a dead claim. It bars nobody, and the Cleaner removes it.

Why a slow process harms nobody: 1 and 3 are conditional on the very record that was read, and a
`deleting` record never changes, so 3 never removes a repository made again under the name. 2 may
put back an entry that the Cleaner has done with; the Cleaner does with it once more, in vain. 4
removes only a claim that names the unique id.

Creations that were never finished end the same way. The record of such a creation is `initial`; its
creator may be dead or slow, and no clock can tell. So ending it is safe in either case: the creator
becomes active by `set_if` on its own `initial` record, which then is no more. When to do it is a
matter of courtesy: the Cleaner does when it has seen the same record for two minutes by its own
clock, anyone else when the time in the record is over an hour ago.
"""

from contextlib import suppress
from typing import Final

from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TooManyTries
from lakebed.engine.keys import DELETED, DELETED_PARTITION, GRAVELER, REPOSITORIES
from lakebed.engine.model import RepositoryID
from lakebed.engine.repositories.claims import Claimant, Claims
from lakebed.ids import UniqueID
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.runtime import Runtime
from lakebed.times import now_us

INITIAL: Final = pb.REPOSITORY_STATE_INITIAL
ACTIVE: Final = pb.REPOSITORY_STATE_ACTIVE
DELETING: Final = pb.REPOSITORY_STATE_DELETING

OVERDUE_SECONDS: Final = 3600.0
"""A creation begun so long ago, by the wall clock, is ended by anyone who meets it."""

_TRIES: Final = 10

RepositoryRecord = Record[pb.Repository]


class Removal:
    """Ends repositories, and creations that were never finished."""

    def __init__(self, store: Store, runtime: Runtime, claims: Claims) -> None:
        self._runtime = runtime
        self._claims = claims
        self._records = Records(store, REPOSITORIES, GRAVELER)
        self._deleted = Records(store, DELETED, DELETED_PARTITION)

    def settle(self, repository: RepositoryID) -> RepositoryRecord | None:
        """Return the record under a name, having ended what was to end: never a `deleting` one.

        Raises:
            TooManyTries: Others ended and made it again all the time.
            OutcomeUnknown: Something may have been ended.
        """
        for _ in range(_TRIES):
            record = self._records.find(repository.encode())
            if record is None or not self._must_end(record):
                return record
            with suppress(PredicateFailed):
                self.end(record)
        raise TooManyTries(f"looking for repository {repository}", _TRIES)

    def lives(self, claimant: Claimant) -> bool:
        """Whether a creation is there and to stay; ends it if it is to end."""
        record = self.settle(claimant.repository)
        return record is not None and record.message.unique_id == claimant.unique_id

    def end(self, record: RepositoryRecord) -> None:
        """End the repository, or the creation, that a record tells of.

        Raises:
            PredicateFailed: The record was changed meanwhile; nothing was done.
            OutcomeUnknown: It may be ending. If so, others will see to it.
        """
        if record.message.state != DELETING:
            marked = self._mark(record)
            if marked is None:
                return  # it ended already
            record = marked
        self._note(record)
        self._remove(record)
        with suppress(OutcomeUnknown):  # a dead claim bars nobody
            namespace = Namespace.parse(record.message.storage_namespace)
            self._claims.release(namespace, claimant_of(record))

    def _must_end(self, record: RepositoryRecord) -> bool:
        message = record.message
        if message.state == INITIAL:
            return self._runtime.now() - message.created_us / 1e6 > OVERDUE_SECONDS
        return message.state == DELETING

    def _mark(self, record: RepositoryRecord) -> RepositoryRecord | None:
        """Step 1. Return the record as it is then, or None if the repository is no more."""
        message = pb.Repository()
        message.CopyFrom(record.message)
        message.state = DELETING
        try:
            version = self._records.set_if(record.name, message, record.predicate)
        except OutcomeUnknown:
            found = self._find_again(record)
            if found is not None and found.message.state != DELETING:
                raise
            return found
        return Record(record.name, message, version)

    def _note(self, record: RepositoryRecord) -> None:
        """Step 2."""
        message = pb.DeletedRepository(
            storage_namespace=record.message.storage_namespace,
            deleted_us=now_us(self._runtime),
        )
        name = deleted_name(claimant_of(record))
        for _ in range(_TRIES):
            try:
                self._deleted.set_if(name, message, ABSENT)
            except PredicateFailed:
                return  # there is one: by us or by someone else
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                continue
            return
        raise TooManyTries(f"deleting repository {record.name.decode()}", _TRIES)

    def _remove(self, record: RepositoryRecord) -> None:
        """Step 3."""
        try:
            self._records.delete_if(record.name, record.predicate)
        except PredicateFailed:
            pass  # a deleting record never changes, so it is gone
        except OutcomeUnknown:
            if self._find_again(record) is not None:
                raise

    def _find_again(self, record: RepositoryRecord) -> RepositoryRecord | None:
        found = self._records.find(record.name)
        if found is None or found.message.unique_id != record.message.unique_id:
            return None
        return found


def claimant_of(record: RepositoryRecord) -> Claimant:
    """Which creation of which repository a record tells of."""
    return Claimant(RepositoryID(record.name.decode()), UniqueID(record.message.unique_id))


def deleted_name(claimant: Claimant) -> bytes:
    """The name of the entry of a deleted repository."""
    return f"{claimant.repository}/{claimant.unique_id}".encode()


def claimant_named(name: bytes) -> Claimant:
    """Which repository an entry of that name is of; undoes `deleted_name`."""
    repository, _, unique_id = name.decode().partition("/")
    return Claimant(RepositoryID(repository), UniqueID(unique_id))
