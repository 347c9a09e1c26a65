"""Deletion of the objects left in the storage by a deleted repository, on request.

Deleting a repository leaves its objects, and a record that closes the namespace
(`NamespaceClaims.close`). A purge request is written into that record. The background process
carries it out:

    1. wait until the namespace has been closed for `min_age_seconds`: until then nothing is lost,
       and requests from before the deletion have ended
    2. create a repository ``purging-<unique id>`` in the namespace. From now on, no other
       repository can be created or restored there
    3. delete the objects with paths issued by Lakebed, and Lakebed's own files, but not the records
       of purges. Other objects in the namespace never belonged to the repository
    4. once this process has found nothing left for as long as any request lasts, delete the
       repository of step 2, and the owner object with it

A process that dies leaves the repository of step 2; the next pass continues from there. Several
processes may do this at once. A slow process checks before each thousand objects that the
repository of step 2 still exists: step 4 of another process comes only after its request has ended.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import Runtime, now_us, to_datetime, to_us
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, Namespace
from lakebed.engine import records_pb2 as engine_pb
from lakebed.engine.engine import Engine
from lakebed.engine.errors import NotUnique, RepositoryNotFound
from lakebed.engine.keys import CLOSED, GRAVELER
from lakebed.engine.model import Repository, RepositoryID
from lakebed.formats import OWNER_PATH
from lakebed.formats.layout import LAKEBED_FOLDER, purges_folder
from lakebed.formats.object_paths import REPOSITORIES, ObjectPath
from lakebed.kv import PredicateFailed, Store, StoreUnavailable
from lakebed.kv.records import Record, Records
from lakebed.lake.errors import NothingLeft
from lakebed.lake.keys import copy_of
from lakebed.lake.settings import CatalogSettings

OBJECTS_A_PASS: Final = 100_000
"""Maximum number of objects deleted by one pass, so that other work is not delayed."""
_BATCH: Final = 1000

_LOGGER: Final = logging.getLogger(__name__)
_Note = Record[engine_pb.NamespaceClaim]


@dataclass(frozen=True, slots=True)
class LeftNamespace:
    """A namespace with objects of a deleted repository."""

    repository: str
    unique_id: str
    storage_namespace: str
    requested: datetime | None
    """When a purge was requested, or None if not requested."""
    due: datetime
    """Earliest time of the deletion."""


class RepositoryPurges:
    """Purges of the namespaces of deleted repositories."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        block: BlockStore,
        runtime: Runtime,
        settings: CatalogSettings,
    ) -> None:
        self._engine = engine
        self._block = block
        self._runtime = runtime
        self._quiet_seconds = settings.longest_request_seconds + settings.skew_seconds
        self._empty_since: dict[bytes, float] = {}
        """Start of the time in which this process has found a namespace empty."""
        self._versions = settings.versions
        self._wait_us = to_us(settings.min_age_seconds + settings.skew_seconds)
        self._notes = Records(store, CLOSED, GRAVELER)

    def left_by(self, repository_id: RepositoryID) -> list[LeftNamespace]:
        """Return the namespaces left by deleted repositories of a name."""
        return [self._as_left(note) for note in self._of(repository_id)]

    @traced("catalog.purge_repository")
    def request(self, repository_id: RepositoryID) -> list[LeftNamespace]:
        """Request the purge of all namespaces left by deleted repositories of a name.

        Raises:
            NothingLeft: No deleted repository of this name has left a namespace.
            OutcomeUnknown: The request may not have been recorded: repeat it.
        """
        for note in self._of(repository_id):
            if not note.message.purge_requested_us:
                wanted = copy_of(note.message)
                wanted.purge_requested_us = now_us(self._runtime)
                # Records of older versions have no time: the wait begins now.
                wanted.closed_us = wanted.closed_us or wanted.purge_requested_us
                with suppress(PredicateFailed):  # its namespace has another repository now
                    self._notes.set_if(note.name, wanted, note.predicate)
        found = self.left_by(repository_id)
        if not found:
            raise NothingLeft(repository_id)
        _LOGGER.warning("purge of the deleted repository %s requested", repository_id)
        return found

    def run_due(self) -> int:
        """Purge the requested namespaces that are due; return the number of deleted objects.

        Raises:
            StoreUnavailable: The store did not answer; the next pass continues.
        """
        deleted = 0
        for note in self._notes.scan_readable():
            if deleted < OBJECTS_A_PASS:
                try:
                    deleted += self._purge(note) if self._is_due(note) else 0
                except StoreUnavailable:
                    raise
                except LakebedError as error:
                    place = note.name.decode()
                    _LOGGER.warning("%s was not purged: %s; the next pass retries", place, error)
        return deleted

    def _of(self, repository_id: RepositoryID) -> Iterator[_Note]:
        for note in self._notes.scan_readable():
            if note.message.repository == repository_id and not self._exists(note):
                yield note

    def _exists(self, note: _Note) -> bool:
        """Return whether the repository of a record exists after all."""
        try:
            found = self._engine.repositories.get(RepositoryID(note.message.repository))
        except RepositoryNotFound:
            return False
        return found.unique_id == note.message.unique_id

    def _is_due(self, note: _Note) -> bool:
        message = note.message
        waited = message.closed_us and now_us(self._runtime) >= message.closed_us + self._wait_us
        return bool(message.purge_requested_us and waited) and not self._exists(note)

    def _purge(self, note: _Note) -> int:
        """Do steps 2 to 4."""
        namespace = Namespace.parse(note.name.decode())
        placeholder = self._occupy(RepositoryID(f"purging-{note.message.unique_id}"), namespace)
        deleted, found = 0, False
        addresses = self._left(namespace)
        while some := list(islice(addresses, _BATCH)):
            found = True
            if self._engine.repositories.get(placeholder.id).unique_id != placeholder.unique_id:
                return deleted  # another process has finished the purge
            block = self._block
            delete = block.delete_versions if self._versions == "delete" else block.delete_many
            errors = [each.error for each in delete(some) if each.error]
            deleted += len(some) - len(errors)
            if errors:
                _LOGGER.warning(
                    "%d objects were not deleted; first error: %s", len(errors), errors[0]
                )
            if deleted >= OBJECTS_A_PASS:
                break
        if found:
            self._empty_since.pop(note.name, None)
        else:
            self._end(note, placeholder)
        return deleted

    def _occupy(self, name: RepositoryID, namespace: Namespace) -> Repository:
        """Occupy the namespace with a repository for the time of the purge."""
        try:
            return self._engine.repositories.create_bare(name, namespace, read_only=True)
        except NotUnique:
            placeholder = self._engine.repositories.get(name)
            if placeholder.namespace != namespace:
                raise
            return placeholder

    def _end(self, note: _Note, placeholder: Repository) -> None:
        """Do step 4 if due."""
        now = self._runtime.monotonic()
        if now - self._empty_since.setdefault(note.name, now) < self._quiet_seconds:
            return
        self._engine.repositories.delete(placeholder.id, force=True)
        self._block.delete(placeholder.namespace.address(OWNER_PATH))
        del self._empty_since[note.name]
        _LOGGER.warning("%s was purged", placeholder.namespace)

    def _left(self, namespace: Namespace) -> Iterator[Address]:
        """Yield the addresses of the repository's objects and Lakebed's files to be deleted."""
        kept = (OWNER_PATH, f"{purges_folder()}/")
        for folder in (REPOSITORIES.rstrip("/"), LAKEBED_FOLDER):
            for batch in self._block.list_objects(namespace.folder(folder)):
                for address in map(Address.parse, batch.column("address").to_pylist()):
                    path = namespace.relative(address)
                    ours = folder == LAKEBED_FOLDER or ObjectPath.parse(path) is not None
                    if ours and not path.startswith(kept):
                        yield address

    def _as_left(self, note: _Note) -> LeftNamespace:
        message = note.message
        requested_us = message.purge_requested_us
        closed_us = message.closed_us or now_us(self._runtime)
        return LeftNamespace(
            repository=message.repository,
            unique_id=message.unique_id,
            storage_namespace=note.name.decode(),
            requested=to_datetime(requested_us) if requested_us else None,
            due=to_datetime(closed_us + self._wait_us),
        )
