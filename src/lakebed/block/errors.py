"""Errors of block storage, the same for every driver.

    LakebedError
    └── BlockError
        ├── ObjectNotFound          no object at the address            (also a FileNotFoundError)
        ├── UploadNotFound          no such multipart upload            (also a LookupError)
        ├── AlreadyExists           create: the object already exists   (also a FileExistsError)
        ├── PreconditionFailed      replace: the object was changed or deleted
        ├── Forbidden               the storage refuses the credentials (also a PermissionError)
        ├── Archived                an archived object must be restored before it is read
        ├── Locked                  an object lock protects the object from deletion
        ├── StorageUnavailable      the storage failed or did not answer; try again later
        │   └── StorageFull         out of space; waiting alone does not help
        ├── InvalidArgument         refused before any change           (also a ValueError)
        │   ├── InvalidAddress      malformed, or not representable by the driver
        │   ├── InvalidPart         complete_upload: a part is missing, changed, or out of order
        │   └── RangeNotSatisfiable the object has no bytes in the range
        ├── NotSupported            the storage has no such call; see the `supports_` members
        └── StorageClosed           the storage was closed              (also a ValueError)

No exception of a vendor's library leaves a driver except as the ``__cause__`` of these. Exceptions
of the caller's own iterable of chunks pass through unchanged.

Every error but `StorageUnavailable` means that the call changed nothing. After `StorageUnavailable`
a write may have been applied, whole and never in part: the caller must check.
"""

from datetime import datetime
from typing import ClassVar, Final

from lakebed.base.errors import LakebedError

LOCKED: Final = "locked until "
"""Start of the message of `Locked`, in reports too."""


class BlockError(LakebedError):
    """Any error of block storage."""

    kind: ClassVar[str] = "block"


class ObjectNotFound(BlockError, FileNotFoundError):
    """No object exists at the address."""

    kind = "object_not_found"

    def __init__(self, address: object) -> None:
        super().__init__(f"no object exists at {address}")


class UploadNotFound(BlockError, LookupError):
    """The multipart upload does not exist: never begun, completed or aborted."""

    kind = "upload_not_found"

    def __init__(self, address: object, upload_id: str) -> None:
        super().__init__(f"no multipart upload '{upload_id}' of {address} exists")


class AlreadyExists(BlockError, FileExistsError):
    """An object exists at the address; it was not changed."""

    kind = "already_exists"

    def __init__(self, address: object) -> None:
        super().__init__(f"an object already exists at {address}")


class PreconditionFailed(BlockError):
    """The object was changed or deleted since it was read; nothing was written."""

    kind = "precondition_failed"

    def __init__(self, address: object) -> None:
        super().__init__(f"the object at {address} was changed or deleted since it was read")


class Forbidden(BlockError, PermissionError):
    """The storage refuses these credentials, or the system refuses this user."""

    kind = "forbidden"


class Archived(BlockError):
    """The object is in a class of storage that cannot be read before a restore."""

    kind = "archived"

    def __init__(self, address: object, why: str) -> None:
        self.why: Final = why
        super().__init__(f"the object at {address} is archived: {why}")


class Locked(BlockError):
    """An object lock of the storage protects the object from deletion."""

    kind = "locked"

    def __init__(self, address: object, until: datetime | None) -> None:
        self.until: Final = "the end of its legal hold" if until is None else until.isoformat()
        super().__init__(f"{LOCKED}{self.until} by object lock of the storage: {address}")


class StorageUnavailable(BlockError):
    """The storage failed, throttled the call or did not answer. A write may have been applied."""

    kind = "storage_unavailable"
    public_message = "the storage does not answer; try again"


class StorageFull(StorageUnavailable):
    """The storage is full; nothing was written. Free space, then try again."""

    kind = "storage_full"
    public_message = "the storage is full"


class InvalidArgument(BlockError, ValueError):
    """An argument was refused; nothing was changed."""

    kind = "block_invalid_argument"


class InvalidAddress(InvalidArgument):
    """The address is malformed, of another storage, or not representable on this storage."""

    kind = "invalid_address"


class InvalidPart(InvalidArgument):
    """The parts to complete an upload are missing, changed or out of order."""

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
