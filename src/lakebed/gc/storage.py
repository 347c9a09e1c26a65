"""The storage of one repository, as the driver and every executor open it."""

from dataclasses import dataclass, replace
from functools import cache

from lakebed.block import (
    Address,
    BlockSettings,
    BlockStore,
    Namespace,
    ObjectNotFound,
    open_block,
)
from lakebed.formats import OWNER_PATH, decode_owner
from lakebed.formats.gc_files import GCRunID, gc_path
from lakebed.gc.errors import NotTheOwner, WrongStorage
from lakebed.gc.server import Server


@dataclass(frozen=True, slots=True)
class Storage:
    """Where the objects of a repository are; goes to executors as it is."""

    settings: BlockSettings
    namespace: Namespace
    repository_uid: str

    @property
    def block(self) -> BlockStore:
        """The storage, opened once in each process."""
        return _opened(self.settings)

    def file(self, run_id: GCRunID, name: str) -> Address:
        """Where a file of a run lies."""
        return self.namespace.address(gc_path(self.repository_uid, run_id, name))

    def check_owner(self) -> None:
        """Make sure that the namespace still belongs to this creation of the repository.

        Raises:
            NotTheOwner: It was deleted, and perhaps made again.
            BlockError: The storage refused or failed.
        """
        address = self.namespace.address(OWNER_PATH)
        owner = decode_owner(self.block.read(address), file=str(address))
        if owner.unique_id != self.repository_uid:
            raise NotTheOwner(str(self.namespace), self.repository_uid, owner.unique_id)


def open_storage(server: Server, settings: BlockSettings) -> Storage:
    """Return the storage of the server's repository.

    Raises:
        WrongStorage: The settings lead elsewhere.
        ServerError: The server refused, or did not answer.
        BlockError: The storage refused or failed.
    """
    namespace = Namespace.parse(server.storage_namespace())
    storage = Storage(settings, namespace, "")
    address = namespace.address(OWNER_PATH)
    try:
        owner = decode_owner(storage.block.read(address), file=str(address))
    except ObjectNotFound as error:
        raise WrongStorage(
            f"there is no {address} here: this is not the storage that the server writes to"
        ) from error
    return replace(storage, repository_uid=owner.unique_id)


@cache
def _opened(settings: BlockSettings) -> BlockStore:
    return open_block(settings)
