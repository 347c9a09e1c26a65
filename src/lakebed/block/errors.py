"""What can go wrong with block storage, the same for every driver.

    LakebedError
    └── BlockError
        ├── ObjectNotFound          there is no object at the address   (also a FileNotFoundError)
        ├── UploadNotFound          there is no such multipart upload   (also a LookupError)
        ├── AlreadyExists           create: there is an object already  (also a FileExistsError)
        ├── PreconditionFailed      replace: the object is another one by now, or is gone
        ├── Forbidden               the storage refuses these credentials (also a PermissionError)
        ├── Locked                  object lock of the storage protects the object from deletion
        ├── StorageUnavailable      the storage failed or did not answer; try again later
        │   └── StorageFull         there is no room; waiting alone does not help
        ├── InvalidArgument         refused before anything was done    (also a ValueError)
        │   ├── InvalidAddress      the address is malformed, or the driver cannot spell it
        │   ├── InvalidPart         complete_upload: a part is missing, changed, or out of order
        │   └── RangeNotSatisfiable the object holds none of the bytes asked for
        ├── NotSupported            the storage has no such call; see the `supports_` members
        └── StorageClosed           the storage was closed              (also a ValueError)

No exception of a vendor's library leaves a driver; it is the ``__cause__`` of one of these. An
exception raised by the caller's own iterable of chunks goes through unchanged.

Every error but `StorageUnavailable` means that the call changed nothing. After
`StorageUnavailable` a write may have been applied, whole and never in part: the caller looks.
"""

from datetime import datetime
from typing import ClassVar, Final

from lakebed.base.errors import LakebedError

LOCKED: Final = "locked until "
"""The beginning of the message of `Locked`, in reports too."""


class BlockError(LakebedError):
    """Any error of block storage."""

    kind: ClassVar[str] = "block"


class ObjectNotFound(BlockError, FileNotFoundError):
    """There is no object at the address."""

    kind = "object_not_found"

    def __init__(self, address: object) -> None:
        super().__init__(f"there is no object at {address}")


class UploadNotFound(BlockError, LookupError):
    """There is no such multipart upload: never begun, completed or aborted."""

    kind = "upload_not_found"

    def __init__(self, address: object, upload_id: str) -> None:
        super().__init__(f"there is no multipart upload '{upload_id}' of {address}")


class AlreadyExists(BlockError, FileExistsError):
    """There is an object at the address already; it was left as it is."""

    kind = "already_exists"

    def __init__(self, address: object) -> None:
        super().__init__(f"there is an object at {address} already")


class PreconditionFailed(BlockError):
    """The object is not the one the caller read, or is gone; nothing was written."""

    kind = "precondition_failed"

    def __init__(self, address: object) -> None:
        super().__init__(f"the object at {address} was replaced or deleted since it was read")


class Forbidden(BlockError, PermissionError):
    """The storage refuses this call to these credentials, or to this user of the machine."""

    kind = "forbidden"


class Locked(BlockError):
    """Object lock of the storage protects the object from deletion."""

    kind = "locked"

    def __init__(self, address: object, until: datetime | None) -> None:
        self.until: Final = "the end of its legal hold" if until is None else until.isoformat()
        super().__init__(f"{LOCKED}{self.until} by object lock of the storage: {address}")


class StorageUnavailable(BlockError):
    """The storage failed, throttled the call or did not answer. A write may have been applied."""

    kind = "storage_unavailable"
    public_message = "the storage does not answer; try again"


class StorageFull(StorageUnavailable):
    """There is no room left for the write; nothing was written. Free space, then try again."""

    kind = "storage_full"
    public_message = "the storage has no room left"


class InvalidArgument(BlockError, ValueError):
    """An argument was refused; nothing was done."""

    kind = "block_invalid_argument"


class InvalidAddress(InvalidArgument):
    """The address is malformed, belongs to another storage, or cannot be spelled on this one."""

    kind = "invalid_address"


class InvalidPart(InvalidArgument):
    """The parts named to complete an upload are not parts it has, or not in ascending order."""

    kind = "invalid_part"


class RangeNotSatisfiable(InvalidArgument):
    """The byte range begins at or after the end of the object, or the object is empty."""

    kind = "range_not_satisfiable"


class NotSupported(BlockError):
    """The storage has no such call."""

    kind = "not_supported"


class StorageClosed(BlockError, ValueError):
    """The storage was closed; open it again to use it."""

    kind = "storage_closed"

    def __init__(self) -> None:
        super().__init__("the storage is closed; open it again with open_block()")
