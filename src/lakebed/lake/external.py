"""External objects: entries for objects outside of all repositories.

Garbage collection never deletes such objects; their owner manages them. Their addresses must not
lie in the namespace of a repository, where they could be collected as the object of another entry,
or of a deleted repository, whose policies limited access to its objects.
"""

from collections.abc import Mapping
from datetime import datetime

from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block import Address, BlockStore, InvalidAddress
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.staging.writer import Condition
from lakebed.formats import AddressType
from lakebed.lake.errors import AddressClosed, AddressTaken
from lakebed.lake.model import (
    ObjectStats,
    check_header,
    check_metadata,
    check_path,
    new_entry,
    stats_of,
)
from lakebed.lake.uploads import Stager


class ExternalObjects:
    """Stages entries for external objects."""

    def __init__(self, engine: Engine, block: BlockStore, runtime: Runtime, stager: Stager) -> None:
        self._engine = engine
        self._stager = stager
        self._block = block
        self._runtime = runtime

    @traced("catalog.stage_external")
    def stage(
        self,
        repository_id: RepositoryID,
        branch: BranchID,
        path: bytes,
        address: Address,
        *,
        checksum: str,
        size: int,
        mtime: datetime | None = None,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        condition: Condition | None = None,
    ) -> ObjectStats:
        """Stage an entry for an object without checking that the object exists.

        `mtime` defaults to now. `condition` decides, given the existing entry, whether to write.

        Raises:
            InvalidAddress: The storage of this installation has no such address.
            AddressTaken: The address is in the namespace of a repository.
            AddressClosed: The address is in the namespace of a deleted repository.
            Also the errors of `Uploads.upload`.
        """
        check_path(path)
        check_metadata(metadata or {})
        check_header("checksum", checksum)
        check_header("content type", content_type)
        if address.parts.scheme != self._block.scheme:
            raise InvalidAddress(
                f"{address} cannot be staged: the storage of this installation serves"
                f" {self._block.scheme}://, so copy the object there first"
            )
        owner, former_owner = self._engine.repositories.owners_of(address)
        if owner is not None:
            raise AddressTaken(address, owner)
        if former_owner is not None:
            raise AddressClosed(address, former_owner)
        entry = new_entry(
            path,
            str(address),
            address_type=AddressType.FULL,
            size=size,
            checksum=checksum,
            modified=self._runtime.now() if mtime is None else mtime.timestamp(),
            content_type=content_type,
            metadata=metadata or {},
        )
        known = self._engine.readings.to_write(repository_id, branch, path)
        self._stager.put(known, entry, condition=condition)
        return stats_of(known.repository.namespace, entry)
