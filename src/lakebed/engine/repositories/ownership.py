"""Ownership of storage namespaces: no two repositories keep their data in the same place.

A claim is a record under the canonical text of a namespace. It references a repository by its
unique id.

Nested namespaces exclude each other too, which no single write can ensure. Hence the rule: *first
claim, then scan*. Of two creators with nested namespaces, at least one scans after both have
claimed, sees the other, and gives up. If both see each other, the creator with the smaller unique
id waits for the other to give up (`Repositories._retains`).

**Dead claims.** The record of a repository is written before its claim and, once removed, never
returns: each unique id is drawn once. So if a repository's record lacks the unique id of a claim,
the claim is dead for ever, and any creator may take it over. To find out, the claim is read first
and the record after it.

A claim is written only by its own creator, and removed only by `NamespaceClaims.release`, after the
repository was removed: `delete_if` compares the record with the unique id. So a slow process never
removes the claim of a later creator.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lakebed.base.runtime import Runtime, UniqueID
from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    ETag,
    Namespace,
    ObjectNotFound,
    PreconditionFailed,
    StorageFull,
    StorageUnavailable,
)
from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import NamespaceTaken, TooManyTries
from lakebed.engine.keys import CLAIMS, CLOSED, GRAVELER, INSTALLATION_KEY
from lakebed.engine.model import RepositoryID
from lakebed.formats import OWNER_PATH, FormatError, FormatTooNew, Owner, decode_owner, encode_owner
from lakebed.kv import (
    ABSENT,
    KeyNotFound,
    OutcomeUnknown,
    Predicate,
    PredicateFailed,
    Store,
    StoreUnavailable,
)
from lakebed.kv.records import Record, Records
from lakebed.kv.schema import METADATA_PARTITION

_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class NamespaceOwner:
    """The repository that owns a namespace, as created once."""

    repository: RepositoryID
    unique_id: UniqueID


RepositoryRecord = Record[pb.Repository]


def owner_of(record: RepositoryRecord) -> NamespaceOwner:
    """Return the creation of a repository that a record is about."""
    return NamespaceOwner(RepositoryID(record.name.decode()), UniqueID(record.message.unique_id))


def deleted_name(owner: NamespaceOwner) -> bytes:
    """Return the name of the entry of a deleted repository."""
    return f"{owner.repository}/{owner.unique_id}".encode()


def owner_named(name: bytes) -> NamespaceOwner:
    """Return the creation whose entry has this name; the inverse of `deleted_name`."""
    repository, _, unique_id = name.decode().partition("/")
    return NamespaceOwner(RepositoryID(repository), UniqueID(unique_id))


IsLive = Callable[[NamespaceOwner], bool]
"""Whether the repository's record has this unique id and will not be removed."""


class NamespaceClaims:
    """The namespace claims of all repositories."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = Records(store, CLAIMS, GRAVELER)
        self._closed = Records(store, CLOSED, GRAVELER)

    def check_size(self, namespace: Namespace) -> None:
        """Raise `LimitExceeded` if a namespace is too long to be claimed or closed."""
        for kind in (CLAIMS, CLOSED):
            self._store.limits.check(GRAVELER, kind.prefix + _name(namespace))

    def take(self, namespace: Namespace, owner: NamespaceOwner, is_live: IsLive) -> None:
        """Claim a namespace for a repository whose record exists.

        Raises:
            NamespaceTaken: A live repository keeps its data there, above or below. The claim may
                have been made: the caller releases it after its repository is removed.
            OutcomeUnknown: The claim may have been made.
        """
        self._claim(namespace, owner, is_live)
        for record in self._neighbours(namespace):
            _refuse_live(namespace, record, is_live)

    def release(self, namespace: Namespace, owner: NamespaceOwner) -> bool:
        """Free the namespace of a removed repository; return whether it had a claim.

        Raises:
            OutcomeUnknown: The claim may still exist; it is dead and excludes no repository.
        """
        record = self._records.find(_name(namespace))
        if record is None or _owner(record) != owner:
            return False
        try:
            self._records.delete_if(record.name, record.predicate)
        except PredicateFailed:
            return False  # taken over or freed concurrently
        return True

    def list(
        self, on_broken: Callable[[bytes], object]
    ) -> Iterator[tuple[Namespace, NamespaceOwner]]:
        """Iterate over all claims, dead or alive; as `Records.scan_readable`."""
        for record in self._records.scan_readable(on_broken):
            yield Namespace.parse(record.name.decode()), _owner(record)

    def owners_of(self, address: Address) -> tuple[Sequence[NamespaceOwner], NamespaceOwner | None]:
        """Return the owners, in one call, of the namespaces that contain an address.

        Returns:
            The claims, dead or alive; and the deleted repository with objects left there (see
                `close`), or None.
        """
        folder = address.path[: address.path.rfind("/", 0, -1) + 1]
        innermost = Namespace(address.store, folder)
        names = [_name(each) for each in (innermost, *_ancestors(innermost))]
        found = self._store.get_many(
            [(GRAVELER, kind.prefix + name) for kind in (CLAIMS, CLOSED) for name in names]
        )
        count = len(names)
        claimed = (self._records.decode(item) for item in found[:count] if item is not None)
        closed = (self._closed.decode(item) for item in found[count:] if item is not None)
        return [_owner(each) for each in claimed], next(map(_owner, closed), None)

    def overlapping(self, namespace: Namespace) -> Iterator[NamespaceOwner]:
        """Iterate over the claims, dead or alive, on a namespace, its ancestors and descendants."""
        yield from _overlapping(self._records, namespace)

    def closed_overlapping(self, namespace: Namespace) -> NamespaceOwner | None:
        """Return a deleted repository that left objects near a namespace, or None; see `close`."""
        return next(_overlapping(self._closed, namespace), None)

    def close(self, namespace: Namespace, owner: NamespaceOwner, closed_us: int) -> None:
        """Record that the objects of a deleted repository stay in its namespace.

        The record is permanent: a deletion removes the permissions to read the objects, but not the
        objects.

        Raises:
            OutcomeUnknown: The record may have been written, which does no harm.
        """

        def note(message: pb.NamespaceClaim) -> None:
            message.repository, message.unique_id = owner.repository, owner.unique_id
            message.closed_us = closed_us

        self._closed.change(_name(namespace), note)

    def _claim(self, namespace: Namespace, owner: NamespaceOwner, is_live: IsLive) -> None:
        message = pb.NamespaceClaim(repository=owner.repository, unique_id=owner.unique_id)
        for _ in range(_TRIES):
            found = self._records.find(_name(namespace))
            if found is not None:
                if _owner(found) == owner:
                    return  # an earlier write was applied, and its reply lost
                _refuse_live(namespace, found, is_live)
            predicate: Predicate = ABSENT if found is None else found.predicate
            # If the write fails, another creator was faster; if its outcome is unknown, read again.
            try:
                self._records.set_if(_name(namespace), message, predicate)
            except StoreUnavailable:
                raise
            except (PredicateFailed, OutcomeUnknown):
                continue
            return
        raise TooManyTries(f"the claim of namespace {namespace}", _TRIES)

    def _neighbours(self, namespace: Namespace) -> Iterator[Record[pb.NamespaceClaim]]:
        """Iterate over the claims on ancestors and descendants of a namespace."""
        for above in _ancestors(namespace):
            record = self._records.find(_name(above))
            if record is not None:
                yield record
        for record in self._records.scan(prefix=_name(namespace)):
            if record.name != _name(namespace):
                yield record


def _overlapping(
    records: Records[pb.NamespaceClaim], namespace: Namespace
) -> Iterator[NamespaceOwner]:
    """Yield the repositories with a namespace that equals, contains or lies in `namespace`."""
    for above in _ancestors(namespace):
        record = records.find(_name(above))
        if record is not None:
            yield _owner(record)
    yield from map(_owner, records.scan(prefix=_name(namespace)))


def _refuse_live(namespace: Namespace, record: Record[pb.NamespaceClaim], is_live: IsLive) -> None:
    owner = _owner(record)
    if is_live(owner):
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: repository {owner.repository} keeps its"
            f" data in {record.name.decode()}; use another namespace"
        )


def _owner(record: Record[pb.NamespaceClaim]) -> NamespaceOwner:
    message = record.message
    return NamespaceOwner(RepositoryID(message.repository), UniqueID(message.unique_id))


def _name(namespace: Namespace) -> bytes:
    """Return the canonical text, which ends in a slash: every ancestor's is a prefix of it."""
    return str(namespace).encode()


def _ancestors(namespace: Namespace) -> Iterator[Namespace]:
    """Iterate over the ancestors of a namespace, innermost first."""
    prefix = namespace.prefix
    while prefix:
        prefix = prefix[: prefix.rfind("/", 0, -1) + 1]
        yield Namespace(namespace.store, prefix)


_INSTALLATION_ID_BYTES: Final = 16


def installation_id(store: Store, runtime: Runtime) -> str:
    """Return the id of a store's installation; the first caller draws it."""
    drawn = runtime.random_bytes(_INSTALLATION_ID_BYTES).hex().encode()
    for _ in range(_TRIES):
        with suppress(KeyNotFound):
            return store.get(METADATA_PARTITION, INSTALLATION_KEY).value.decode()
        # If the write fails, another process was first; if its outcome is unknown, read again.
        try:
            store.set(METADATA_PARTITION, INSTALLATION_KEY, drawn, ABSENT)
        except StoreUnavailable:
            raise
        except (PredicateFailed, OutcomeUnknown):
            continue
    raise TooManyTries("writing the id of the installation", _TRIES)


class OwnerObjects:
    """The owner objects of namespaces.

    Claims separate the repositories of one key-value store. The owner object, `_lakebed/owner` in
    the namespace itself, also separates installations, and tells a reader of the storage alone
    (garbage collection) the owner of a namespace. The owner object of an active repository contains
    its unique id.

    A creator whose record was removed long ago may resume when another has replaced it. So the
    object is never simply overwritten: it is created only if absent, and replaced only over the
    exact content that references a removed repository. No content ever returns, because of its
    unique id. As with claims, the object is read first, and the referenced repository's record
    after it.

    The object of a deleted repository stays, like its data, until the next owner replaces it.
    """

    def __init__(self, store: Store, block: BlockStore, runtime: Runtime) -> None:
        self._store = store
        self._block = block
        self._runtime = runtime

    def take(self, namespace: Namespace, owner: NamespaceOwner, is_live: IsLive) -> None:
        """Make a repository, which has the claim, the owner of its namespace.

        Raises:
            NamespaceTaken: It belongs to another installation or to a live repository.
            StorageUnavailable: The object may have been written.
        """
        installation = installation_id(self._store, self._runtime)
        wanted = Owner(installation, owner.repository, owner.unique_id)
        for _ in range(_TRIES):
            found, etag = self._read(namespace)
            if found == wanted:
                return
            if found is not None:
                _refuse_live_owner(namespace, found, installation, is_live)
            if self._write(namespace, wanted, etag):
                return
        raise TooManyTries(f"writing the owner of namespace {namespace}", _TRIES)

    def _read(self, namespace: Namespace) -> tuple[Owner | None, ETag | None]:
        address = namespace.address(OWNER_PATH)
        # Read the ETag first: if the object changes in between, replacing it fails.
        try:
            etag = self._block.head(address).etag
            data = self._block.read(address)
        except ObjectNotFound:
            return None, None
        try:
            return decode_owner(data, file=str(address)), etag
        except FormatTooNew:
            raise
        except FormatError as error:
            raise NamespaceTaken(
                f"storage namespace {namespace} is in use: {error}; remove that file if the"
                " namespace is no longer needed"
            ) from error

    def _write(self, namespace: Namespace, owner: Owner, etag: ETag | None) -> bool:
        """Write the object over the content read; return whether the write certainly succeeded."""
        address = namespace.address(OWNER_PATH)
        try:
            if etag is None:
                self._block.create(address, encode_owner(owner))
            else:
                self._block.replace(address, encode_owner(owner), etag)
        except StorageFull:
            raise
        except (AlreadyExists, PreconditionFailed, StorageUnavailable):
            return False  # the next read shows the current content
        return True


def _refuse_live_owner(
    namespace: Namespace, found: Owner, installation: str, is_live: IsLive
) -> None:
    address = namespace.address(OWNER_PATH)
    if found.installation_id != installation:
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} names repository"
            f" {found.repository} of another installation of Lakebed ({found.installation_id})"
            " as its owner; remove that file if the installation no longer uses the namespace"
        )
    if is_live(NamespaceOwner(RepositoryID(found.repository), UniqueID(found.unique_id))):
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} names repository"
            f" {found.repository} as its owner"
        )
