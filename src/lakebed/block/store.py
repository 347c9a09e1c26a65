"""The block storage interface: all bytes that Lakebed keeps for its users go through these calls.

A `BlockStore` is one configured storage: a folder of this machine, an account at a cloud. It serves
every address of its scheme that it can reach with its settings. Addresses are `Address` values; an
address of another scheme is refused with `InvalidAddress`.

**Visible whole or not at all.** An object appears, or replaces the one before, in one step, after
its last byte was stored. A stream that breaks off leaves nothing new, and what was there stays.
When a write returns, the object is as durable as the storage makes it.

**Read after write.** Every call sees the writes and deletes that returned before it began.

**Streams.** Bodies go in and out in chunks; nothing holds a whole object in memory, but the calls
for small metadata files (`read`, `create`, `replace`), which take and return bytes.

**Errors.** Each call may raise `Forbidden`, `StorageUnavailable`, `InvalidAddress` and
`StorageClosed`; the docstrings name what else it raises. See `lakebed.block.errors` for what a
caller may assume afterwards.
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

ETag = NewType("ETag", str)
"""The mark of one content of an object, without quotes; a later write of other bytes changes it."""

UploadId = NewType("UploadId", str)
"""The name of a multipart upload, given by the storage."""

PART_NUMBER_MAX: Final = 10_000
"""Parts of an upload are numbered from 1 to this."""

PART_BYTES_MAX: Final = 5 << 30
"""The size of the largest part of an upload, as with S3."""

# Sorts after every character that a name can hold.
_LAST: Final = "\U0010ffff"

LIST_SCHEMA: Final = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("etag", pa.string(), nullable=False),
    ]
)
"""The columns of `BlockStore.list_objects`; an address is the text of an `Address`, an
ETag what `BlockStore.head` would say."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a storage knows of an object."""

    address: Address
    size: int
    mtime: datetime
    """When it was written, by the clock of the storage; in UTC."""
    etag: ETag

    def as_listed(self) -> pa.RecordBatch:
        """Return this as a listing would have it: one row with the columns of `LIST_SCHEMA`."""
        row = [str(self.address)], [self.size], [self.mtime], [self.etag]
        return pa.record_batch(list(row), schema=LIST_SCHEMA)


class Stray(NamedTuple):
    """A file in a storage that is no object: no listing has it, and no address reads it."""

    place: str
    """Like an address; bytes that are not UTF-8 are escaped."""
    kind: str
    """In the plural, as in "symbolic links"."""


@dataclass(frozen=True, slots=True)
class PutResult:
    """What was written by a streaming put, as counted on the way."""

    size: int
    md5: str
    """In hexadecimal."""
    etag: ETag


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """What became of one of the addresses of `delete_many` or `delete_versions`."""

    address: Address
    error: BlockError | None
    """None: there is no object at the address now, whether or not there was one before."""
    leaves_versions: bool = False
    """Whether the storage keeps what was deleted as an older version; of `delete_many`."""
    versions: int = 0
    """How many versions were deleted, delete markers among them; of `delete_versions`."""
    bytes: int = 0
    """Their size, together."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a multipart upload, as its uploader names it."""

    number: int
    etag: ETag


@dataclass(frozen=True, slots=True)
class WrittenPart(Part):
    """A part that was just written, as counted on the way."""

    md5: str
    """In hexadecimal."""


@dataclass(frozen=True, slots=True)
class PartInfo:
    """A part of a multipart upload, as the storage knows it."""

    number: int
    etag: ETag
    size: int
    mtime: datetime
    """When it was written, in UTC."""


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was neither completed nor aborted."""

    address: Address
    upload_id: UploadId
    created: datetime
    """When it was begun, in UTC."""


class ByteStream(Iterator[bytes]):
    """The bytes of an object, in chunks of bounded size.

    Whoever gets one reads it to its end or closes it; ``with`` does. A plain generator would not
    do: closing one that was never started skips its ``finally``.
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
        """How many bytes the whole object has, of which these may be some."""
        self.file: Final = file
        """Where the bytes lie, if that is an open file."""
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
        """Free what the stream holds; closing twice is fine."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class BlockStore(ABC):
    """The interface that drivers implement and everything above uses.

    A store may be used by many threads. It must be opened in the process that uses it: an open
    store does not survive ``fork``.
    """

    scheme: str
    """The scheme of the addresses that it serves."""

    shared_between_processes: bool
    """Whether other processes that open the same settings see the same objects."""

    supports_presign: bool
    """Whether `presign_get` and `presign_put` work."""

    presigned_put_creates_only: bool = False
    """Whether the holder of a URL to write an object can create it but not replace it. Where the
    storage does not sign and the server does, `put_new` sees to that."""

    supports_presign_part: bool = False
    """Whether `presign_part` works."""

    supports_uploads: bool = True
    """Whether the calls for multipart uploads work; if not, they raise `NotSupported`."""

    part_bytes_min: int
    """The least size of every part of an upload but the last; smaller ones make `complete_upload`
    raise `InvalidPart`."""

    @abstractmethod
    def check_address(self, address: Address) -> None:
        """Refuse an address that no object of this storage can have; nothing is asked.

        Raises:
            InvalidAddress: It is of another storage, or this one cannot spell it.
        """

    # Objects

    @abstractmethod
    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        """Write an object from a stream, replacing any that was there.

        If the iterable raises, its exception goes through and nothing was written.

        Raises:
            InvalidArgument: The stream is longer than the storage takes by one `put`; nothing was
                written. The clouds take 78 GiB; larger objects are written by multipart uploads.
        """

    def put_unnamed(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        """Write an object as `put` does, to an address that nothing names before this returns.

        Nothing is written there again afterwards. It may cost less: if the process or the machine
        fails before this has returned, part of the object may be left there, as garbage.
        """
        return self.put(address, chunks)

    def put_new(
        self,
        address: Address,
        chunks: Iterable[bytes],  # noqa: ARG002 - drivers that have the call use it
    ) -> PutResult:
        """Write an object from a stream, unless there is one when the stream ends.

        Of several that race, the one whose stream ends first wins. A storage that signs requests
        itself need not have this call.

        Raises:
            AlreadyExists: There is an object by now; it was left as it is.
            NotSupported: The storage has no such call.
        """
        raise NotSupported(f"{self.scheme} storage cannot write a stream only if absent: {address}")

    @abstractmethod
    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        """Return the bytes of an object, or some of them; with `etag`, only of that content.

        The object is found before this returns: errors of finding it are raised by the call itself,
        and all chunks are of that one content, even if it is replaced or deleted meanwhile. Reading
        on raises `StorageUnavailable` where the storage breaks off, and where it cannot go on with
        the same content; a stream that ends without an error is whole.

        Raises:
            ObjectNotFound: There is no object.
            PreconditionFailed: The object has another ETag; Azure says this also if there is none.
            RangeNotSatisfiable: The object holds none of the bytes asked for.
        """

    def read(self, address: Address) -> bytes:
        """Return all bytes of a small object.

        Raises:
            ObjectNotFound: There is no object.
        """
        with self.get(address) as stream:
            return b"".join(stream)

    @abstractmethod
    def head(self, address: Address) -> ObjectInfo:
        """Return what is known of an object.

        Raises:
            ObjectNotFound: There is no object.
        """

    def exists(self, address: Address) -> bool:
        """Whether there is an object at the address."""
        try:
            self.head(address)
        except ObjectNotFound:
            return False
        return True

    @abstractmethod
    def delete(self, address: Address) -> None:
        """Delete an object; deleting what is not there is fine."""

    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        """Delete many objects, each as by `delete`; return a result for each, in their order.

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
        """Delete objects with all older versions that the storage keeps; as `delete_many`.

        An object of which a version is locked gets the error `Locked`; its other versions may be
        deleted. What the storage keeps beyond versions, by its own rules and for a time, cannot be
        reached: soft deletion, snapshots of disks, replicas.
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
        """Copy an object, replacing any at the destination; inside the storage where it can.

        With `etag`, only that content of the source is copied. The destination's `mtime` is the
        time of the copy, also where it is the source: an object that is copied onto itself keeps
        its bytes and is as new as one just written.

        Raises:
            ObjectNotFound: There is no object at the source.
            PreconditionFailed: The source has another ETag.
        """

    @abstractmethod
    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the objects in a namespace, in order of their paths as UTF-8 bytes.

        Batches have the columns of `LIST_SCHEMA`; none is empty. `start_after` leaves out all
        paths up to and including its own; it need not exist. Objects there throughout come exactly
        once; those that come or go meanwhile come once or not at all. A namespace with nothing in
        it is empty, not an error. Errors come from the call or from iterating.

        Raises:
            InvalidAddress: `start_after` belongs to another store.
        """

    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        """Iterate over the names of the folders in a namespace, in order of the paths in them.

        A folder is what objects have in common up to the next slash. A storage that has folders of
        its own may also show empty ones. Errors come from the call or from iterating.
        """
        # One look for each, which any storage can do; drivers override it with what is faster.
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
        """Iterate over the files in a namespace that are no objects, in any order.

        Clouds have none. Errors come from the call or from iterating.
        """
        return iter(())

    @staticmethod
    def _start(namespace: Namespace, start_after: Address | None) -> str:
        """Return the path that all paths of a listing sort after.

        Raises:
            InvalidAddress: `start_after` belongs to another store.
        """
        if start_after is None:
            return namespace.prefix
        if start_after.store != namespace.store:
            raise InvalidAddress(f"{start_after} lies in another store than {namespace}")
        # The prefix itself sorts before every path that it begins, and does not lie in it.
        return max(namespace.prefix, start_after.path)

    def probe(self, namespace: Namespace | None) -> None:
        """Send one signed request to the storage, to see that endpoint and credentials are right.

        Args:
            namespace: Where to list; None: no place is known. Then a driver may have no request.

        Raises:
            BlockError: What is wrong.
        """
        if namespace is not None:
            next(self.list_objects(namespace), None)

    # Small metadata files

    @abstractmethod
    def create(self, address: Address, data: bytes) -> ETag:
        """Write a small object only if there is none; of several that race, one wins.

        Raises:
            AlreadyExists: There is an object, as durable as if this call had written it; it was
                left as it is.
        """

    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        """Write small objects whose addresses follow from their contents; return which are new.

        Whoever writes to such an address writes the same, or what stands for the same. What is
        there already is as durable as if this call had written it. All are written side by side,
        which may cost less than `create`; if this raises, some of them may have been.
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
        """Write a small object only over the one whose ETag is given; of several, one wins.

        An ETag may stand for a content, not for one write of it: a caller to whom "changed and
        changed back" matters puts something unique into the content.

        Raises:
            PreconditionFailed: The object has another ETag, or is gone; nothing was written.
        """

    # Multipart uploads

    @abstractmethod
    def create_upload(self, address: Address) -> UploadId:
        """Begin an upload in parts; nothing appears at the address until it is completed."""

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
        """Write one part from a stream of `size` bytes, replacing any with the same number.

        Parts may come in any order and at the same time. If the iterable raises, its exception goes
        through and the part, if there was one, is as before. The size is asked for because storages
        want to know it before the first byte.

        Raises:
            UploadNotFound: There is no such upload.
            InvalidArgument: The number is not within 1 to `PART_NUMBER_MAX`, or the stream holds
                more or fewer bytes than `size`; nothing was written.
        """

    @abstractmethod
    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        """Join the parts named, in ascending order, into the object; parts not named are dropped.

        The upload is over when this returns. After an error it is still there to be completed or
        aborted; after `StorageUnavailable` it may also have been completed. Of a part that was
        written more than once, Azure also accepts an older one, if its ETag is named.

        Raises:
            UploadNotFound: There is no such upload.
            InvalidPart: A part named is not there with that ETag, is smaller than `part_bytes_min`
                and not the last; the numbers do not ascend; or no part is named.
        """

    @abstractmethod
    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        """Drop an upload and its parts; what is already gone counts as dropped."""

    @abstractmethod
    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        """Return the parts of an upload by ascending number.

        Of a part that was sent again, some servers list the earlier ones too, in any order.

        Raises:
            UploadNotFound: There is no such upload.
        """

    @abstractmethod
    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        """Iterate over the uploads in a namespace that are not over, by path, then by id."""

    # Presigned requests: a driver overrides the first two, or none

    def presign_get(self, address: Address, *, expires_seconds: int) -> str:
        """Return a URL that lets its holder read the object for a while; it need not exist.

        Raises:
            NotSupported: `supports_presign` is false.
            InvalidArgument: The time is not positive, or longer than the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot sign requests: {address} cannot be opened to others for"
            f" {expires_seconds} seconds"
        )

    def presign_put(self, address: Address, *, expires_seconds: int) -> str:
        """Return a URL that lets its holder write the object by one PUT, for a while.

        Where the storage can tie it to the URL alone, the holder can create the object but not
        replace it: see `presigned_put_creates_only`.

        Raises:
            NotSupported: `supports_presign` is false.
            InvalidArgument: The time is not positive, or longer than the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot sign requests: {address} cannot be opened to others for"
            f" {expires_seconds} seconds"
        )

    def presign_part(
        self, address: Address, upload_id: UploadId, number: int, *, expires_seconds: int
    ) -> str:
        """Return a URL that lets its holder write one part of an upload by PUT, for a while.

        The answer to the PUT has the ETag of the part. Once the upload was completed or aborted,
        the URL writes nothing.

        Raises:
            NotSupported: `supports_presign_part` is false.
            InvalidArgument: There is no part of this number; or the time is not positive, or longer
                than the storage allows.
        """
        raise NotSupported(
            f"{self.scheme} storage cannot sign requests for parts: part {number} of upload"
            f" {upload_id} of {address} cannot be opened to others for {expires_seconds} seconds"
        )

    @abstractmethod
    def close(self) -> None:
        """Give back what the store holds; later calls raise `StorageClosed`; twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
