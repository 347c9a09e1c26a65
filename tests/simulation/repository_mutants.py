"""Repositories and Cleaners with one rule broken each: the simulator must find them."""

from collections.abc import Callable

from lakebed.base.runtime import UniqueID, new_unique_id, now_us
from lakebed.block import Namespace
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NotUnique
from lakebed.engine.model import Repository, RepositoryID, repository_partition
from lakebed.engine.repositories.ownership import (
    IsLive,
    NamespaceClaims,
    NamespaceOwner,
    OwnerObjects,
    RepositoryRecord,
    _refuse_live,
    installation_id,
)
from lakebed.engine.repositories.removal import ACTIVE, Removal
from lakebed.engine.repositories.repositories import Repositories, _repository
from lakebed.formats import OWNER_PATH, Owner, encode_owner
from lakebed.kv import ABSENT, PredicateFailed
from lakebed.kv.records import MessageT, Record, Records
from lakebed.reclaim.cleaner import Cleaner, CleanerCounts


class ClaimsBeforeRecord(Repositories):
    """Claims the namespace before a record has its unique id, so others think it is dead."""

    def _create(
        self,
        repository: RepositoryID,
        message: pb.Repository,
        populate: Callable[[Repository], None],
    ) -> Repository:
        if self._removal.find_current(repository) is not None:
            raise NotUnique(repository)
        message.unique_id = new_unique_id(self._runtime)
        message.created_us = now_us(self._runtime)
        owner = NamespaceOwner(repository, UniqueID(message.unique_id))
        namespace = Namespace.parse(message.storage_namespace)
        self._claims.take(namespace, owner, self._removal.is_live)
        try:
            version = self._records.set_if(repository.encode(), message, ABSENT)
        except PredicateFailed:
            self._claims.release(namespace, owner)
            raise NotUnique(repository) from None
        record = Record(repository.encode(), message, version)
        self._owner_objects.take(namespace, owner, self._removal.is_live)
        populate(_repository(record))
        return self._activate(record)


class ActivatesBlindly(Repositories):
    """Becomes active without checking whether its record changed."""

    def _activate(self, record: RepositoryRecord) -> Repository:
        record.message.state = ACTIVE
        self._records.set(record.name, record.message)
        return _repository(record)


class _LooksBeforeClaiming(NamespaceClaims):
    def take(self, namespace: Namespace, owner: NamespaceOwner, is_live: IsLive) -> None:
        for record in self._neighbours(namespace):
            _refuse_live(namespace, record, is_live)
        self._claim(namespace, owner, is_live)


def look_before_claiming(repositories: Repositories, cleaner: Cleaner) -> None:
    _use_claims(repositories, cleaner, _LooksBeforeClaiming)


class _DeletesClaimBlindly(NamespaceClaims):
    def release(self, namespace: Namespace, owner: NamespaceOwner) -> bool:
        self._records.delete(str(namespace).encode())
        return True


def delete_claim_blindly(repositories: Repositories, cleaner: Cleaner) -> None:
    _use_claims(repositories, cleaner, _DeletesClaimBlindly)


def _use_claims(
    repositories: Repositories, cleaner: Cleaner, claims: type[NamespaceClaims]
) -> None:
    for part in (repositories, cleaner):
        part._claims = part._removal._claims = claims(cleaner._store)


class _DeletesRecordBlindly(Removal):
    def _remove(self, record: RepositoryRecord) -> None:
        self._records.delete(record.name)


def delete_record_blindly(repositories: Repositories, cleaner: Cleaner) -> None:
    for part in (repositories, cleaner):
        part._removal = _DeletesRecordBlindly(cleaner._store, cleaner._runtime, part._claims)


class _WritesOwnerBlindly(OwnerObjects):
    def take(self, namespace: Namespace, owner: NamespaceOwner, is_live: IsLive) -> None:
        installation = installation_id(self._store, self._runtime)
        content = encode_owner(Owner(installation, owner.repository, owner.unique_id))
        self._block.put(namespace.address(OWNER_PATH), [content])


def write_owner_blindly(repositories: Repositories, cleaner: Cleaner) -> None:
    repositories._owner_objects = _WritesOwnerBlindly(
        cleaner._store, repositories._block, cleaner._runtime
    )


class DropsNamedTokens(Cleaner):
    """Drops announced tokens even while a branch names them."""

    def _named(self, records: list[Record[pb.DroppedToken]], counts: CleanerCounts) -> set[bytes]:
        return set()


class DropsBranchesUnannounced(Cleaner):
    """Empties the partition of a deleted repository and forgets about the tokens."""

    def _empty_partition(
        self, owner: NamespaceOwner, deleted: pb.DeletedRepository, counts: CleanerCounts
    ) -> int:
        partition = repository_partition(owner.repository, owner.unique_id)
        return self._delete_keys(partition, counts)


class ScansOnce(Cleaner):
    """Removes an announcement after acting on it once."""

    def _retire(
        self, records: Records[MessageT], record: Record[MessageT], partition: bytes, found: int
    ) -> bool:
        records.delete(record.name)
        return True

    def _clean_repository(
        self, record: Record[pb.DeletedRepository], counts: CleanerCounts
    ) -> None:
        self._empty_partition(_owner(record), record.message, counts)
        self._retire(self._deleted, record, b"", 0)


def leave_tombstones(_repositories: Repositories, cleaner: Cleaner) -> None:
    """Let the Cleaner delete keys, and leave their tombstones to the database."""
    cleaner._store.drop_tombstones = lambda *_: None  # type: ignore[method-assign]


def _owner(record: Record[pb.DeletedRepository]) -> NamespaceOwner:
    repository, _, unique_id = record.name.decode().partition("/")
    return NamespaceOwner(RepositoryID(repository), UniqueID(unique_id))
