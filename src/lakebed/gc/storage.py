"""The storage of one repository, as the driver and every executor open it."""

from dataclasses import dataclass
from functools import cache

from lakebed.block import Address, BlockSettings, BlockStore, Namespace, open_block
from lakebed.formats import OWNER_PATH, decode_owner
from lakebed.formats.gc_files import GCRunID, gc_path
from lakebed.gc.errors import NotTheOwner


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


@cache
def _opened(settings: BlockSettings) -> BlockStore:
    return open_block(settings)
