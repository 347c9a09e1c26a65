"""The block storage interface, used for all objects and metadata files.

A `BlockStore` is one configured storage: a local folder or a cloud account. It serves every address
of its scheme that its settings can reach, and refuses an `Address` of another scheme with
`InvalidAddress`.

**Atomic visibility.** An object appears, or replaces the previous one, in a single step, after its
last byte was stored. A stream that breaks off changes nothing. When a write returns, the object is
as durable as the storage makes it.

**Read after write.** Every call sees the writes and deletes that returned before it began.

**Streams.** Bodies are transferred in chunks. Only the calls for small metadata files (`read`,
`create`, `replace`) load a whole object into memory.

**Errors.** Each call may raise `Forbidden`, `StorageUnavailable`, `InvalidAddress` and
`StorageClosed`; docstrings list further errors. See `lakebed.block.errors` for the guarantees after
an error.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple, NewType, Self

import pyarrow as pa

from lakebed.block.address import Address, Namespace
from lakebed.block.errors import (
    AlreadyExists,
    BlockError,
    InvalidAddress,
    NotSupported,
    ObjectNotFound,
    StorageClosed,
)
from lakebed.block.ranges import ByteRange, FileSection
from lakebed.block.settings import Encryption

ETag = NewType("ETag", str)
"""Identifies a content of an object; without quotes. Writing other bytes changes it."""

UploadId = NewType("UploadId", str)
"""Id of a multipart upload, assigned by the storage."""

PART_NUMBER_MAX: Final = 10_000
"""Parts of an upload are numbered from 1 to this."""

PART_BYTES_MAX: Final = 5 << 30
"""Maximum size of a part, as with S3."""

# Sorts after every character of a name.
_LAST: Final = "\U0010ffff"

LIST_SCHEMA: Final = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
    ]
)
"""Columns of `BlockStore.list_objects`: addresses as text, ETags as in `BlockStore.head`."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Metadata of an object."""

    address: Address
    size: int
    mtime: datetime
    """Time of the write by the storage's clock, in UTC."""
    etag: ETag

    def as_listed(self) -> pa.RecordBatch:
        """Return a row of a listing, with the columns of `LIST_SCHEMA`."""
        row = [str(self.address)], [self.size], [self.mtime], [self.etag]
        return pa.record_batch(list(row), schema=LIST_SCHEMA)


class Stray(NamedTuple):
    """A file in a storage that is not an object: not listed, and without an address."""

    place: str
    """Path in the form of an address; bytes that are not UTF-8 are escaped."""
    kind: str
    """Kind in the plural, such as "symbolic links"."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """Result of a streaming put, measured on the way."""

    size: int
    md5: str
    """MD5 in hexadecimal."""
    etag: ETag


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """Result of `delete_many` or `delete_versions` for an address."""

    address: Address
    error: BlockError | None
    """None if no object exists now, whether or not it existed before."""
    leaves_versions: bool = False
    """Whether the storage keeps the deleted object as an older version; for `delete_many`."""
    versions: int = 0
    """Number of deleted versions, including delete markers; for `delete_versions`."""
    bytes: int = 0
    """Total size of the deleted versions."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart upload, as given by its uploader."""

    number: int
    etag: ETag


@dataclass(frozen=True, slots=True)
class WrittenPart(Part):
    """A part just written, measured on the way."""

    md5: str
    """MD5 in hexadecimal."""


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part of a multipart upload, as recorded by the storage."""

    number: int
    etag: ETag
    size: int
    mtime: datetime
    """Time of the write, in UTC."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was neither completed nor aborted."""

    address: Address
    upload_id: UploadId
    created: datetime
    """Start of the upload, in UTC."""


class ByteStream(Iterator[bytes]):
    """The bytes of an object, in chunks of bounded size.

    Callers read the stream to its end or close it, for example using ``with``. Not a plain
    generator: closing one that was never started skips its ``finally``.
    """

    def __init__(
        self,
        chunks: Iterator[bytes],
        close: Callable[[], None],
        *,
        object_size: int,
        file: FileSection | None = None,
    ) -> None:
        self.object_size: Final = object_size
        """Size of the whole object; the stream may be a range of it."""
        self.file: Final = file
        """Position of the bytes, if they are in an open file."""
        self._chunks = chunks
        self._close: Callable[[], None] | None = close

    def __next__(self) -> bytes:
        if self._close is None:
            raise StopIteration
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the resources of the stream; closing twice is allowed."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class BlockStore(ABC):
    """Interface of the drivers.

    Thread-safe. A store must be opened in the process that uses it: it does not survive ``fork``.
    """

    scheme: str
    """Scheme of the addresses."""

    shared_between_processes: bool
    """Whether other processes that open the same settings see the same objects."""

    supports_presign: bool
    """Whether `presign_get` and `presign_put` work."""

    presigned_put_creates_only: bool = False
    """Whether a presigned URL for writing can create an object but not replace it. If the server
    signs in place of the storage, `put_new` ensures this."""

    supports_presign_part: bool = False
    """Whether `presign_part` works."""

    supports_uploads: bool = True
    """Whether multipart uploads work; otherwise their calls raise `NotSupported`."""

    part_bytes_min: int
    """Minimum size of all parts of an upload but the last; `complete_upload` raises `InvalidPart`
    for smaller parts."""

    encryption: Encryption | None = None
    """Encryption requested with every write except presigned PUTs of whole objects; None: the
    storage decides."""

    @abstractmethod
    def check_address(self, address: Address) -> None:
        """Check that an object of this storage can have this address, without a request.

        Raises:
            InvalidAddress: The address is of another storage or not representable.
        """

    # Objects

    @abstractmethod
    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        """Write an object from a stream, replacing any existing object.

        An exception of the iterable passes through, and nothing is written.

        Raises:
            InvalidArgument: The stream is too long for one `put`; nothing was written. The clouds
                accept 78 GiB; larger objects need multipart uploads.
        """

    def put_unreferenced(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        """Write an object like `put`, to an address not referenced before this returns.

        The address is never written again. May be cheaper than `put`: if the process or the machine
        fails before this returns, a partial object may remain as garbage.
        """
        return self.put(address, chunks)

    def put_new(
        self,
        address: Address,
        chunks: Iterable[bytes],  # noqa: ARG002 - drivers that have the call use it
    ) -> PutResult:
        """Write an object from a stream, unless an object exists when the stream ends.

        Of several concurrent calls, the one whose stream ends first wins. A storage that signs
        requests itself need not support this call.

        Raises:
            AlreadyExists: An object exists; it was not changed.
            NotSupported: The storage has no such call.
        """
        raise NotSupported(f"{self.scheme} storage cannot write a stream conditionally: {address}")

    @abstractmethod
    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        """Return a stream of an object or a range of it; with `etag`, only of that content.

        The object is found before this returns, so the call itself raises the errors below, and all
        chunks belong to the same content, even if it is replaced or deleted meanwhile. Reading
        raises `StorageUnavailable` if the storage breaks off or can no longer serve the same
        content; a stream that ends without an error is complete.

        Raises:
            ObjectNotFound: The object does not exist.
            PreconditionFailed: The object has another ETag; on Azure also if it does not exist.
            RangeNotSatisfiable: The object has no bytes in the range.
        """

    def read(self, address: Address) -> bytes:
        """Return all bytes of a small object.

        Raises:
            ObjectNotFound: The object does not exist.
        """
        with self.get(address) as stream:
            return b"".join(stream)

    @abstractmethod
    def head(self, address: Address) -> ObjectInfo:
        """Return the metadata of an object.

        Raises:
            ObjectNotFound: The object does not exist.
        """

    def exists(self, address: Address) -> bool:
        try:
            self.head(address)
        except ObjectNotFound:
            return False
        return True

    @abstractmethod
    def delete(self, address: Address) -> None:
        """Delete an object; a missing object is not an error."""

    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        """Delete many objects, each like `delete`; return the results in order.

        Only a closed store makes the call itself raise.
        """
        return [self._delete_result(address) for address in addresses]

    def _delete_result(self, address: Address) -> DeleteResult:
        try:
            self.delete(address)
        except StorageClosed:
            raise
        except BlockError as error:
            return DeleteResult(address, error)
        return DeleteResult(address, None)

    def delete_versions(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        """Delete objects with all older versions in the storage; otherwise like `delete_many`.

        An object with a locked version gets the error `Locked`; its other versions may be deleted.
        Copies beyond versions are out of reach: soft deletion, disk snapshots, replicas.
        """
        return [self._delete_last(address) for address in addresses]

    def _delete_last(self, address: Address) -> DeleteResult:
        """Delete an object in a storage without versions."""
        try:
            size = self.head(address).size
        except ObjectNotFound:
            return DeleteResult(address, None)
        except StorageClosed:
            raise
        except BlockError as error:
            return DeleteResult(address, error)
        deleted = self._delete_result(address)
        return deleted if deleted.error else replace(deleted, versions=1, bytes=size)

    @abstractmethod
    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        """Copy an object, replacing the destination; inside the storage where possible.

        With `etag`, only that content of the source is copied. The destination's `mtime` is the
        time of the copy, even if it is the source: copying an object onto itself makes it as recent
        as a new object.

        Raises:
            ObjectNotFound: The source does not exist.
            PreconditionFailed: The source has another ETag.
        """

    @abstractmethod
    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the objects in a namespace, ordered by the UTF-8 bytes of their paths.

        Batches have the columns of `LIST_SCHEMA` and are not empty. `start_after`, which need not
        exist, skips all paths up to and including its own. Objects that exist throughout are listed
        exactly once; objects created or deleted meanwhile, once or not at all. An empty namespace
        is not an error. Errors are raised by the call or during iteration.

        Raises:
            InvalidAddress: `start_after` belongs to another store.
        """

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        """Iterate over the names of the folders in a namespace, in the order of their paths.

        A folder is a common prefix of paths up to the next slash. A storage with real folders may
        include empty ones. Errors are raised by the call or during iteration.
        """
        # One listing per folder works on any storage; drivers override this method with faster
        # calls.
        after = None
        while True:
            batch = next(iter(self.list_objects(namespace, start_after=after)), None)
            if batch is None:
                return
            path = batch.column("address")[0].as_py()[len(str(namespace)) :]
            name, slash, _ = path.partition("/")
            if slash:
                yield name
            after = namespace.address(f"{name}/{_LAST}" if slash else name)

    def list_strays(self, namespace: Namespace) -> Iterator[Stray]:  # noqa: ARG002 - see below
        """Iterate over the files in a namespace that are not objects, in any order.

        Clouds have none. Errors are raised by the call or during iteration.
        """
        return iter(())

    @staticmethod
    def _start(namespace: Namespace, start_after: Address | None) -> str:
        """Return the path after which a listing starts.

        Raises:
            InvalidAddress: `start_after` belongs to another store.
        """
        if start_after is None:
            return namespace.prefix
        if start_after.store != namespace.store:
            raise InvalidAddress(f"{start_after} is not in the store of {namespace}")
        # The prefix itself sorts before all paths in the namespace, and is not one of them.
        return max(namespace.prefix, start_after.path)

    def probe(self, namespace: Namespace | None) -> None:
        """Send a signed request to the storage, to check endpoint and credentials.

        Args:
            namespace: Namespace to list; None if unknown, then a driver may send nothing.

        Raises:
            BlockError: The storage refused the request or did not answer.
        """
        if namespace is not None:
            next(self.list_objects(namespace), None)

    # Small metadata files

    @abstractmethod
    def create(self, address: Address, data: bytes) -> ETag:
        """Write a small object only if none exists; of concurrent calls, one wins.

        Raises:
            AlreadyExists: An object exists, as durable as if this call had written it; it was not
                changed.
        """

    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        """Write small objects whose addresses follow from their contents; return which are new.

        All writers of such an address write equivalent content. Existing objects are as durable as
        if this call had written them. Objects are written in parallel, which may cost less than
        `create`; after an error some of them may have been written.
        """
        return [self._is_created(address, data) for address, data in objects]

    def _is_created(self, address: Address, data: bytes) -> bool:
        try:
            self.create(address, data)
        except AlreadyExists:
            return False
        return True

    @abstractmethod
    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        """Write a small object only over the object with this ETag; of concurrent calls, one wins.

        An ETag may identify a content, not a single write of it: to detect "changed and changed
        back", put a unique value into the content.

        Raises:
            PreconditionFailed: The object has another ETag or was deleted; nothing was written.
        """

    # Multipart uploads

    @abstractmethod
    def create_upload(self, address: Address) -> UploadId:
        """Begin an upload in parts; the object appears when the upload is completed."""

    @abstractmethod
    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        """Write a part from a stream of `size` bytes, replacing any part with the same number.

        Parts may be written in any order and concurrently. An exception of the iterable passes
        through, and an existing part is unchanged. Storages need `size` before the first byte.

        Raises:
            UploadNotFound: The upload does not exist.
            InvalidArgument: The number is not in 1 to `PART_NUMBER_MAX`, or the stream does not
                have `size` bytes; nothing was written.
        """

    @abstractmethod
    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        """Join the given parts, in ascending order, into the object; drop all other parts.

        The upload is over when this returns. After an error the upload can still be completed or
        aborted; after `StorageUnavailable` it may also have been completed. Azure also accepts the
        ETag of an older write of a part.

        Raises:
            UploadNotFound: The upload does not exist.
            InvalidPart: A part is missing or has another ETag, or is smaller than `part_bytes_min`
                and not the last; the numbers do not ascend; or no part is given.
        """

    @abstractmethod
    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        """Drop an upload and its parts; a missing upload is not an error."""

    @abstractmethod
    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        """Return the parts of an upload by ascending number.

        Some servers also list earlier writes of a part, in any order.

        Raises:
            UploadNotFound: The upload does not exist.
        """

    @abstractmethod
    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        """Iterate over the active uploads in a namespace, by path, then by id."""

    # Presigned requests: a driver overrides the first two, or none

    def presign_get(self, address: Address, *, expires_seconds: int) -> str:
        """Return a URL that allows reading the object for a limited time; it need not exist.

        Raises:
            NotSupported: `supports_presign` is False.
            InvalidArgument: The time is not positive, or longer than the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot presign requests ({address}, {expires_seconds} seconds):"
            " transfer through the server"
        )

    def presign_put(self, address: Address, *, expires_seconds: int) -> str:
        """Return a URL that allows writing the object by a PUT for a limited time.

        If the storage can enforce this by the URL alone, the URL can create the object but not
        replace an existing one: see `presigned_put_creates_only`.

        Raises:
            NotSupported: `supports_presign` is False.
            InvalidArgument: The time is not positive, or longer than the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot presign requests ({address}, {expires_seconds} seconds):"
            " transfer through the server"
        )

    def presign_part(
        self, address: Address, upload_id: UploadId, number: int, *, expires_seconds: int
    ) -> str:
        """Return a URL that allows writing a part of an upload by PUT for a limited time.

        The response to the PUT contains the ETag of the part. Once the upload was completed or
        aborted, the URL writes nothing.

        Raises:
            NotSupported: `supports_presign_part` is False.
            InvalidArgument: The part number is invalid, or the time is not positive or longer than
                the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot presign requests (part {number} of upload {upload_id} of"
            f" {address}, {expires_seconds} seconds): transfer through the server"
        )

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the store; later calls raise `StorageClosed`. Idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
