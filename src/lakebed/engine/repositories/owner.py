"""The owner object of a storage namespace, and the id of this installation.

Claims separate the repositories of one key-value store. The owner object, `_lakebed/owner` in the
namespace itself, also separates installations, and tells a reader of the storage alone (garbage
collection) the owner of a namespace. The owner object of an active repository contains its unique
id.

A creator whose record was removed long ago may resume when another has replaced it. So the object
is never simply overwritten: it is created only if absent, and replaced only over the exact content
that references a removed repository. No content ever returns, because of its unique id. As with
claims, the object is read first, and the referenced repository's record after it.

The object of a deleted repository stays, like its data, until the next owner replaces it.
"""

from contextlib import suppress
from typing import Final

from lakebed.base.ids import UniqueID
from lakebed.base.runtime import Runtime
from lakebed.block import (
    AlreadyExists,
    BlockStore,
    ETag,
    Namespace,
    ObjectNotFound,
    PreconditionFailed,
    StorageFull,
    StorageUnavailable,
)
from lakebed.engine.errors import NamespaceTaken, TooManyTries
from lakebed.engine.keys import INSTALLATION_KEY
from lakebed.engine.model import RepositoryID
from lakebed.engine.repositories.claims import Claimant, IsLive
from lakebed.formats import OWNER_PATH, FormatError, FormatTooNew, Owner, decode_owner, encode_owner
from lakebed.kv import ABSENT, KeyNotFound, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.schema import METADATA_PARTITION

_INSTALLATION_ID_BYTES: Final = 16
_TRIES: Final = 10


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


class Owners:
    """The owner objects of namespaces."""

    def __init__(self, store: Store, block: BlockStore, runtime: Runtime) -> None:
        self._store = store
        self._block = block
        self._runtime = runtime

    def take(self, namespace: Namespace, claimant: Claimant, is_live: IsLive) -> None:
        """Make a repository, which has the claim, the owner of its namespace.

        Raises:
            NamespaceTaken: It belongs to another installation or to a live repository.
            StorageUnavailable: The object may have been written.
        """
        installation = installation_id(self._store, self._runtime)
        wanted = Owner(installation, claimant.repository, claimant.unique_id)
        for _ in range(_TRIES):
            found, etag = self._read(namespace)
            if found == wanted:
                return
            if found is not None:
                _refuse_live(namespace, found, installation, is_live)
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


def _refuse_live(namespace: Namespace, found: Owner, installation: str, is_live: IsLive) -> None:
    address = namespace.address(OWNER_PATH)
    if found.installation_id != installation:
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} names repository"
            f" {found.repository} of another installation of Lakebed ({found.installation_id})"
            " as its owner; remove that file if the installation no longer uses the namespace"
        )
    if is_live(Claimant(RepositoryID(found.repository), UniqueID(found.unique_id))):
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} names repository"
            f" {found.repository} as its owner"
        )
