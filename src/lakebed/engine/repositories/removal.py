"""Removal of repositories: in steps that any process may take, and repeat, from any step on.

    0. its namespaces are noted as closed   no client stages the objects left (`ownership`)
    1. its record becomes `deleting`        the removal is certain from now on
    2. an entry in `graveler_deleted`       so that its partition can be found later
    3. its record is removed                the name is free
    4. its claim is removed                 the namespace is free (the claim is dead since step 3)

A process that dies leaves behind:

- after 0: a note that is already true of the live repository.
- after 1 or 2: a `deleting` record. Any process that meets it (create, delete, the Cleaner)
  continues.
- after 3: a dead claim, which excludes no repository and is removed by the Cleaner.

A slow process does no harm: steps 1 and 3 are conditional on the exact record read, and a
`deleting` record never changes, so step 3 never removes a later repository of the same name. Step 2
may rewrite an entry removed by the Cleaner, which removes it again. Step 4 removes only a claim
with the unique id.

Unfinished creations are removed in the same way. Their record is `initial`. The creator may be dead
or slow, and no clock can tell which. Removal is safe in either case: the creator becomes active by
`set_if` on its own `initial` record, which then fails. When to remove is a matter of courtesy: the
Cleaner does after seeing the same record for two minutes by its own clock, any other process if the
time in the record is more than an hour ago.
"""

import logging
from contextlib import suppress
from typing import Final

from lakebed.base.runtime import Runtime, now_us
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import TooManyTries
from lakebed.engine.keys import DELETED, DELETED_PARTITION, GRAVELER, REPOSITORIES
from lakebed.engine.model import RepositoryID
from lakebed.engine.repositories.ownership import (
    NamespaceClaims,
    NamespaceOwner,
    RepositoryRecord,
    deleted_name,
    owner_of,
)
from lakebed.kv import ABSENT, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records

_LOGGER: Final = logging.getLogger(__name__)

INITIAL: Final = pb.REPOSITORY_STATE_INITIAL
ACTIVE: Final = pb.REPOSITORY_STATE_ACTIVE
DELETING: Final = pb.REPOSITORY_STATE_DELETING

OVERDUE_SECONDS: Final = 3600.0
"""Age of a creation, by the wall clock, after which any process removes it."""

_TRIES: Final = 10


class Removal:
    """Removes repositories and unfinished creations."""

    def __init__(self, store: Store, runtime: Runtime, claims: NamespaceClaims) -> None:
        self._runtime = runtime
        self._claims = claims
        self._records = Records(store, REPOSITORIES, GRAVELER)
        self._deleted = Records(store, DELETED, DELETED_PARTITION)

    def find_current(self, repository: RepositoryID) -> RepositoryRecord | None:
        """Return the record under a name, or None, after removing a deleting or overdue one.

        Raises `TooManyTries` after concurrent changes, `OutcomeUnknown` if a removal may be
        unfinished.
        """
        for _ in range(_TRIES):
            record = self._records.find(repository.encode())
            if record is None or not self._must_end(record):
                return record
            with suppress(PredicateFailed):
                self.end(record)
        raise TooManyTries(f"the search for repository {repository}", _TRIES)

    def is_live(self, owner: NamespaceOwner) -> bool:
        """Whether a repository exists or is being created; finishes removals first."""
        record = self.find_current(owner.repository)
        return record is not None and record.message.unique_id == owner.unique_id

    def end(self, record: RepositoryRecord) -> None:
        """Remove the repository, or the creation, of a record.

        Raises:
            PredicateFailed: The record was changed concurrently; nothing was done.
            OutcomeUnknown: The removal may have begun; then another process will finish it.
        """
        if record.message.state == INITIAL:
            _LOGGER.warning(
                "undoing the unfinished creation of repository %s", record.name.decode()
            )
        if record.message.state == ACTIVE:
            self._close(record)
        if record.message.state != DELETING:
            marked = self._mark(record)
            if marked is None:
                return  # already removed
            record = marked
        self._note(record)
        self._remove(record)
        with suppress(OutcomeUnknown):  # a dead claim excludes no repository
            namespace = Namespace.parse(record.message.storage_namespace)
            self._claims.release(namespace, owner_of(record))

    def _must_end(self, record: RepositoryRecord) -> bool:
        message = record.message
        if message.state == INITIAL:
            return self._runtime.now() - message.created_us / 1e6 > OVERDUE_SECONDS
        return message.state == DELETING

    def _mark(self, record: RepositoryRecord) -> RepositoryRecord | None:
        """Step 1. Return the new record, or None if the repository was removed."""
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
        """Step 0: before step 1, which makes repositories and unfinished creations look alike.

        In the adopted folder, a run of garbage collection may continue for a while, because the
        owner object there still has the repository's unique id. An object staged from there
        meanwhile would be lost.
        """
        message, owner = record.message, owner_of(record)
        places = [message.storage_namespace]
        if message.HasField("adopted_namespace"):
            places.append(message.adopted_namespace.storage_namespace)
        for place in places:
            self._claims.close(Namespace.parse(place), owner, now_us(self._runtime))

    def _note(self, record: RepositoryRecord) -> None:
        """Step 2."""
        message = pb.DeletedRepository(
            storage_namespace=record.message.storage_namespace, deleted_us=now_us(self._runtime)
        )
        name = deleted_name(owner_of(record))
        for _ in range(_TRIES):
            try:
                self._deleted.set_if(name, message, ABSENT)
            except PredicateFailed:
                return  # the entry exists
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
            pass  # a deleting record never changes, so it was removed
        except OutcomeUnknown:
            if self._find_again(record) is not None:
                raise

    def _find_again(self, record: RepositoryRecord) -> RepositoryRecord | None:
        found = self._records.find(record.name)
        if found is None or found.message.unique_id != record.message.unique_id:
            return None
        return found
