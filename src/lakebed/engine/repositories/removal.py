"""How a repository ends: in steps that anyone may take, and repeat, from any of them on.

    0. its namespaces are noted as closed   nobody stages what it leaves (see `Claims.close`)
    1. its record becomes `deleting`        from now on it will end, whoever dies
    2. an entry in `graveler_deleted`       so that its partition can be found later
    3. its record is removed                the name is free
    4. its claim is removed                 the namespace is free (the claim is dead since step 3)

What a process that dies leaves behind:

- after 0: a note that its living repository makes true anyway.
- after 1 or 2: a `deleting` record. Whoever meets it (create, delete, the Cleaner) goes on.
- after 3: a dead claim. It is in nobody's way, and the Cleaner removes it.

Why a slow process does no harm: steps 1 and 3 are conditional on the very record that was read, and
a `deleting` record never changes, so step 3 never removes a repository that was made later under
the same name. Step 2 may write an entry again that the Cleaner had removed; the Cleaner removes it
once more. Step 4 removes only a claim that names the unique id.

Creations that were never finished end in the same way. Their record is `initial`. The creator may
be dead or slow, and no clock can tell which. To end it is safe in either case: the creator becomes
active by `set_if` on its own `initial` record, which fails then. When to end it is a matter of
courtesy: the Cleaner does so when it has seen the same record for two minutes by its own clock,
anyone else when the time in the record is more than an hour ago.
"""

import logging
from contextlib import suppress
from typing import Final

from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime, now_us
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TooManyTries
from lakebed.engine.keys import DELETED, DELETED_PARTITION, GRAVELER, REPOSITORIES
from lakebed.engine.model import RepositoryID
from lakebed.engine.repositories.claims import Claimant, Claims
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records

_LOGGER: Final = logging.getLogger(__name__)

INITIAL: Final = pb.REPOSITORY_STATE_INITIAL
ACTIVE: Final = pb.REPOSITORY_STATE_ACTIVE
DELETING: Final = pb.REPOSITORY_STATE_DELETING

OVERDUE_SECONDS: Final = 3600.0
"""A creation that began so long ago, by the wall clock, is ended by anyone who meets it."""

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
        """Return the record under a name, having ended what must end: never a `deleting` one.

        Raises:
            TooManyTries: Others always changed it first.
            OutcomeUnknown: Something may have been ended.
        """
        for _ in range(_TRIES):
            record = self._records.find(repository.encode())
            if record is None or not self._must_end(record):
                return record
            with suppress(PredicateFailed):
                self.end(record)
        raise TooManyTries(f"the search for repository {repository}", _TRIES)

    def lives(self, claimant: Claimant) -> bool:
        """Whether a repository is there, or being created; it is ended first if it must end."""
        record = self.settle(claimant.repository)
        return record is not None and record.message.unique_id == claimant.unique_id

    def end(self, record: RepositoryRecord) -> None:
        """End the repository, or the creation, of a record.

        Raises:
            PredicateFailed: The record was changed meanwhile; nothing was done.
            OutcomeUnknown: It may be ending. If so, others will finish that.
        """
        if record.message.state == INITIAL:
            _LOGGER.warning("the creation of repository %s is undone", record.name.decode())
        if record.message.state == ACTIVE:
            self._close(record)
        if record.message.state != DELETING:
            marked = self._mark(record)
            if marked is None:
                return  # it ended already
            record = marked
        self._note(record)
        self._remove(record)
        with suppress(OutcomeUnknown):  # a dead claim is in nobody's way
            namespace = Namespace.parse(record.message.storage_namespace)
            self._claims.release(namespace, claimant_of(record))

    def _must_end(self, record: RepositoryRecord) -> bool:
        message = record.message
        if message.state == INITIAL:
            return self._runtime.now() - message.created_us / 1e6 > OVERDUE_SECONDS
        return message.state == DELETING

    def _mark(self, record: RepositoryRecord) -> RepositoryRecord | None:
        """Step 1. Return the new record, or None if the repository is gone."""
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

    def _close(self, record: RepositoryRecord) -> None:
        """Before step 1, since later nobody can tell a repository from an unfinished creation.

        In the adopted folder a run of garbage collection may go on for a while: it finds its unique
        id in the owner object there. An object that is staged from there meanwhile would be lost.
        """
        message, claimant = record.message, claimant_of(record)
        places = [message.storage_namespace]
        if message.HasField("adopted_namespace"):
            places.append(message.adopted_namespace.storage_namespace)
        for place in places:
            self._claims.close(Namespace.parse(place), claimant, now_us(self._runtime))

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
                return  # there is one, from us or from someone else
            except StoreUnavailable:
                raise
            except OutcomeUnknown:
                continue
            return
        raise TooManyTries(f"the deletion of repository {record.name.decode()}", _TRIES)

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
    """Return which creation of which repository a record is about."""
    return Claimant(RepositoryID(record.name.decode()), UniqueID(record.message.unique_id))


def deleted_name(claimant: Claimant) -> bytes:
    """Return the name of the entry of a deleted repository."""
    return f"{claimant.repository}/{claimant.unique_id}".encode()


def claimant_named(name: bytes) -> Claimant:
    """Return whose entry has this name; the inverse of `deleted_name`."""
    repository, _, unique_id = name.decode().partition("/")
    return Claimant(RepositoryID(repository), UniqueID(unique_id))
