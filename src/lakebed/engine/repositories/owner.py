"""The owner object of a storage namespace, and the id of this installation.

Claims keep repositories of one key-value store apart. The owner object, `_lakebed/owner` in the
namespace itself, also keeps installations apart. It shows those who see only the storage (garbage
collection) whose namespace it is. The owner object of an active repository names its unique id.

A creator that others ended long ago may wake up here when another has taken its place. So the
object is never simply overwritten: it is created only if there is none, and replaced only over the
very content that names a repository which is gone. A content never comes back, since it holds a
unique id. As with claims, the object is read first, and then the record of the repository it names.

The object of a deleted repository stays, like its data, until the next one replaces it.
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
from lakebed.engine.repositories.claims import Claimant, Lives
from lakebed.formats import (
    OWNER_PATH,
    FormatError,
    FormatTooNew,
    Owner,
    decode_owner,
    encode_owner,
)
from lakebed.kv import ABSENT, KeyNotFound, OutcomeUnknown, PredicateFailed, Store, StoreUnavailable
from lakebed.kv.schema import METADATA_PARTITION

_INSTALLATION_ID_BYTES: Final = 16
_TRIES: Final = 10


def installation_id(store: Store, runtime: Runtime) -> str:
    """Return the id of the installation that a store belongs to; the first caller draws it."""
    drawn = runtime.random_bytes(_INSTALLATION_ID_BYTES).hex().encode()
    for _ in range(_TRIES):
        with suppress(KeyNotFound):
            return store.get(METADATA_PARTITION, INSTALLATION_KEY).value.decode()
        # If it fails, someone else was first; if that is unknown, the next read shows it.
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

    def take(self, namespace: Namespace, claimant: Claimant, lives: Lives) -> None:
        """Make a repository, which holds the claim, the owner of its namespace.

        Raises:
            NamespaceTaken: It belongs to another installation, or to a repository that lives.
            StorageUnavailable: The object may have been written.
        """
        installation = installation_id(self._store, self._runtime)
        wanted = Owner(installation, claimant.repository, claimant.unique_id)
        for _ in range(_TRIES):
            found, etag = self._read(namespace)
            if found == wanted:
                return
            if found is not None:
                _refuse_if_alive(namespace, found, installation, lives)
            if self._write(namespace, wanted, etag):
                return
        raise TooManyTries(f"writing the owner of namespace {namespace}", _TRIES)

    def _read(self, namespace: Namespace) -> tuple[Owner | None, ETag | None]:
        address = namespace.address(OWNER_PATH)
        # The ETag is read first: if the object changes between the two, replacing it fails.
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
                f"storage namespace {namespace} is in use: {error}. If nothing there is needed any"
                " more, remove that file"
            ) from error

    def _write(self, namespace: Namespace, owner: Owner, etag: ETag | None) -> bool:
        """Write the object over what was read; return whether that is known to have worked."""
        address = namespace.address(OWNER_PATH)
        try:
            if etag is None:
                self._block.create(address, encode_owner(owner))
            else:
                self._block.replace(address, encode_owner(owner), etag)
        except StorageFull:
            raise
        except (AlreadyExists, PreconditionFailed, StorageUnavailable):
            return False  # the next read shows what is there
        return True


def _refuse_if_alive(namespace: Namespace, found: Owner, installation: str, lives: Lives) -> None:
    address = namespace.address(OWNER_PATH)
    if found.installation_id != installation:
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} says that it belongs to repository"
            f" {found.repository} of another installation of Lakebed ({found.installation_id}). If"
            " that one does not use it any more, remove that file"
        )
    if lives(Claimant(RepositoryID(found.repository), UniqueID(found.unique_id))):
        raise NamespaceTaken(
            f"storage namespace {namespace} is in use: {address} says that it belongs to repository"
            f" {found.repository}"
        )
