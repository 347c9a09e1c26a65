"""Objects in a cloud, by obstore: common base of the drivers for S3, Azure and Google.

The vendor's own library is used where obstore has no call or an inexact one: multipart uploads with
ids, copies between buckets, listings (obstore lists ``t/`` as ``t``).

**Conditional writes are sent once.** A retry after a lost reply would meet the object created by
the first attempt and wrongly report "already exists". So `create` and `replace` use a client
without retries: a response always belongs to this request, and without a response the outcome is
`StorageUnavailable`, which says that the write may have been applied.
"""

import logging
import re
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.block.address import Address, Namespace, StoreName
from lakebed.block.drivers.cloud.errors import Place, explained, panics_explained
from lakebed.block.drivers.cloud.streams import MeasuredChunks, body
from lakebed.block.errors import (
    AlreadyExists,
    BlockError,
    InvalidAddress,
    InvalidArgument,
    NotSupported,
    ObjectNotFound,
    PreconditionFailed,
    StorageClosed,
    StorageUnavailable,
)
from lakebed.block.ranges import Between, ByteRange, FromOffset, Suffix, resolve
from lakebed.block.store import BlockStore, ByteStream, DeleteResult, ETag, ObjectInfo, PutResult

if TYPE_CHECKING:  # these exist for type checkers only
    from obstore import GetOptions, ObjectMeta, PutMode, UpdateVersion
    from obstore import PutResult as Written
    from obstore.store import ClientConfig, RetryConfig

Client = S3Store | AzureStore | GCSStore

RETRIES: Final["RetryConfig"] = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
NO_RETRIES: Final["RetryConfig"] = {"max_retries": 0}
PRESIGN_SECONDS_MAX: Final = 7 * 24 * 3600

# A stream up to this size is sent in one request; a longer one in parts of this size, a few at a
# time. Clouds take at most 10,000 parts from obstore, which bounds the size of a stream.
PART_BYTES: Final = 8 << 20
PARTS_AT_A_TIME: Final = 4
_STREAM_BYTES_MAX: Final = 10_000 * PART_BYTES
_DELETES_AT_A_TIME: Final = 16
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_ENDPOINT: Final = re.compile(r"https?://[\w.:\[\]-]+(/\S*)?")

_LOGGER: Final = logging.getLogger(__name__)


class CloudBlockStore(BlockStore):
    """Objects of all buckets that one set of credentials can access."""

    shared_between_processes = True
    supports_presign = True
    path_bytes_max: ClassVar[int] = 1024
    """Longer paths are refused."""
    reads_suffixes: ClassVar[bool] = True
    """Whether the cloud supports suffix ranges."""
    reads_empty_segments: ClassVar[bool] = False
    """Whether objects with empty segments in their paths can be read and deleted."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._clients: dict[tuple[str, bool], Client] = {}
        self._closed = False

    @abstractmethod
    def _connect(self, store: StoreName, retries: "RetryConfig") -> Client:
        """Return a client for a bucket without sending a request."""

    def _etag(self, result: "Written | ObjectMeta") -> ETag:
        """Return the ETag of an object, without quotes."""
        return ETag((result["e_tag"] or "").strip('"'))

    def _version(self, etag: ETag) -> "UpdateVersion":
        """Return obstore's form of an ETag; inverse of `_etag`."""
        return {"e_tag": f'"{etag}"'}

    def _if_match(self, etag: ETag) -> "GetOptions":
        """Return the options to read only content with this ETag."""
        return {"if_match": f'"{etag}"'}

    def check_address(self, address: Address) -> None:
        self._check(address)

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        client = self._client(address)
        source = MeasuredChunks(chunks, size_max=_STREAM_BYTES_MAX)
        try:
            with source.reraising():
                first, is_all = source.take(PART_BYTES)
                if is_all:
                    with explained(address):
                        etag = self._etag(
                            obstore.put(client, address.path, first, use_multipart=False)
                        )
                else:
                    etag = self._put_in_parts(address, source.after(first))
        except ObjectNotFound as error:
            # A retried completion after a lost reply does not find the upload it completed.
            raise StorageUnavailable(f"the upload of {address} may have been completed") from error
        return PutResult(source.size, source.md5, etag)

    def _put_in_parts(self, address: Address, chunks: Iterator[bytes]) -> ETag:
        """Write an object too long for one request; return its ETag."""
        client = self._client(address)
        with explained(address):
            result = obstore.put(
                client,
                address.path,
                chunks,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=PARTS_AT_A_TIME,
            )
        return self._etag(result)

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        if has_empty_segment(address.path):
            return self._get_by_sdk(address, byte_range, etag)
        client = self._client(address)
        conditional = etag is not None
        if isinstance(byte_range, Suffix) and not self.reads_suffixes:
            info = self.head(address)
            start, length = resolve(byte_range, info.size)
            byte_range, etag = Between(start, start + length), etag or info.etag
        options = _range_options(byte_range)
        if etag is not None:
            options |= self._if_match(etag)
        try:
            with explained(address, conditional=conditional):
                result = obstore.get(client, address.path, options=options)
        except (InvalidArgument, StorageUnavailable):
            # Servers report an unsatisfiable range in several ways; the size is reliable.
            if byte_range is not None:
                resolve(byte_range, self.head(address).size)
            raise
        if conditional and self._etag(result.meta) != etag:
            raise PreconditionFailed(address)  # some servers ignore the condition
        chunks = body(result, address)
        return ByteStream(chunks, chunks.close, object_size=result.meta["size"])

    def _get_by_sdk(
        self, address: Address, byte_range: ByteRange | None, etag: ETag | None
    ) -> ByteStream:
        info = self.head(address)
        if etag not in {None, info.etag}:
            raise PreconditionFailed(address)
        start, length = resolve(byte_range, info.size)
        if not length:
            return ByteStream(iter(()), lambda: None, object_size=info.size)
        chunks = self._chunks_by_sdk(info, start, length)
        return ByteStream(chunks, chunks.close, object_size=info.size)

    def _chunks_by_sdk(
        self,
        info: ObjectInfo,
        start: int,  # noqa: ARG002 - drivers that have the call use it
        length: int,  # noqa: ARG002 - as this
    ) -> Generator[bytes, None, None]:
        """Return bytes of exactly the content in `info`, by the vendor's library."""
        raise _empty_segment(info.address)

    def _head_by_sdk(self, address: Address) -> ObjectInfo:
        """Return information about an object, by the vendor's library."""
        raise _empty_segment(address)

    def head(self, address: Address) -> ObjectInfo:
        if has_empty_segment(address.path):
            self._check(address)
            return self._head_by_sdk(address)
        client = self._client(address)
        with explained(address):
            meta = obstore.head(client, address.path)
        return ObjectInfo(address, meta["size"], meta["last_modified"], self._etag(meta))

    def delete(self, address: Address) -> None:
        client = self._client(address)
        try:
            with explained(address):
                obstore.delete(client, address.path)
        except ObjectNotFound:
            pass

    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        # Not by obstore's bulk calls, which do not report a result per address.
        self._check_open()
        return self._runtime.map_parallel(self._delete_result, addresses, limit=_DELETES_AT_A_TIME)

    def delete_versions(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        self._check_open()
        return self._runtime.map_parallel(self._delete_last, addresses, limit=_DELETES_AT_A_TIME)

    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        self._check(namespace)
        return _in_order(self._pages(namespace, self._start(namespace, start_after)))

    @abstractmethod
    def _pages(self, namespace: Namespace, after: str) -> Iterator[pa.RecordBatch]:
        """Yield the objects of a namespace whose paths sort after `after`; see `list_objects`."""

    def create(self, address: Address, data: bytes) -> ETag:
        try:
            return self._put_once(address, data, "create")
        except AlreadyExists as error:
            # S3 answers a create that raced with a delete as if the object existed.
            if self.exists(address):
                raise
            _LOGGER.warning("%s was deleted while being created", address)
            raise StorageUnavailable(f"{address} was deleted while being created") from error

    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        return self._runtime.map_parallel(lambda each: self._is_created(*each), objects)

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        try:
            return self._put_once(address, data, self._version(etag))
        except ObjectNotFound as error:
            raise PreconditionFailed(address) from error
        except AlreadyExists as error:
            raise StorageUnavailable(f"{address} was written concurrently") from error

    def _put_once(self, address: Address, data: bytes, mode: "PutMode") -> ETag:
        client = self._client(address, once=True)
        with explained(address, conditional=True):
            return self._etag(obstore.put(client, address.path, data, mode=mode))

    def _head_completed(self, address: Address) -> ObjectInfo:
        """Return information about an object whose upload was just completed.

        Raises:
            StorageUnavailable: Any failure: an error that means "nothing was changed" would be
                wrong.
        """
        try:
            return self.head(address)
        except BlockError as error:
            raise StorageUnavailable(
                f"the upload of {address} was completed, but the object cannot be read"
            ) from error

    def presign_get(self, address: Address, *, expires_seconds: int) -> str:
        return self._presign("GET", address, expires_seconds)

    def presign_put(self, address: Address, *, expires_seconds: int) -> str:
        return self._presign("PUT", address, expires_seconds)

    def _presign(
        self, method: Literal["GET", "PUT"], address: Address, expires_seconds: int
    ) -> str:
        client = self._client(address)
        check_expiry(expires_seconds)
        with explained(address):
            return obstore.sign(client, method, address.path, timedelta(seconds=expires_seconds))

    def close(self) -> None:
        self._closed = True
        with self._lock:
            self._clients.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise StorageClosed

    def _check(self, place: Place) -> None:
        """Refuse addresses of another storage and paths that the cloud would alter.

        Every call begins with this check and then waits for the network.
        """
        about_to_wait()
        self._check_open()
        if place.parts.scheme != self.scheme:
            raise InvalidAddress(f"{place} is not an address of {self.scheme} storage")
        if isinstance(place, Address):
            check_spelling(place.path, length_max=self.path_bytes_max)
            if has_empty_segment(place.path) and not self.reads_empty_segments:
                raise _empty_segment(place)

    def _client(self, place: Place, *, once: bool = False) -> Client:
        """Return the client for the bucket of a place; with `once`, a client without retries.

        Raises:
            InvalidAddress: The place is not of this storage, or obstore cannot represent it.
        """
        self._check(place)
        if isinstance(place, Address) and has_empty_segment(place.path):
            raise _empty_segment(place)
        with self._lock:
            client = self._clients.get((place.store, once))
            if client is None:
                try:
                    with panics_explained(place):
                        client = self._connect(place.parts, NO_RETRIES if once else RETRIES)
                except BaseError as error:
                    raise InvalidArgument(
                        f"cannot create a client for {place.store} with these settings"
                    ) from error
                self._clients[place.store, once] = client
                _LOGGER.debug("created a client for %s", place.store)
        return client


def has_empty_segment(path: str) -> bool:
    """Return whether a path begins or ends with a slash or contains ``//``."""
    return "" in path.split("/")


def _empty_segment(address: Address) -> InvalidAddress:
    return InvalidAddress(
        f"the path {address.path!r} has an empty segment, which"
        f" {address.parts.scheme} storage cannot write; only S3 and Azure can read such paths"
    )


def check_spelling(path: str, *, length_max: int) -> None:
    """Refuse a path that would not arrive unchanged.

    obstore refuses dot segments and control characters; vendors' libraries resolve dot segments.
    (obstore also strips slashes at both ends of a path and refuses empty segments, see `_client`.)

    Raises:
        InvalidAddress: The path contains a dot segment or a control character, or has more than
            `length_max` bytes.
    """
    if _CONTROL.search(path):
        raise InvalidAddress(
            f"the path {path!r} contains a control character, which clouds do not preserve"
        )
    if not {".", ".."}.isdisjoint(path.split("/")):
        raise InvalidAddress(
            f"the path {path!r} has a segment '.' or '..', which clouds do not preserve"
        )
    if len(path.encode()) > length_max:
        raise InvalidAddress(f"the path {path!r} has more than {length_max} bytes")


def check_endpoint(endpoint: str | None) -> None:
    """Raise `InvalidArgument` unless the endpoint is a URL with a scheme and a host."""
    if endpoint is not None and not _ENDPOINT.fullmatch(endpoint):
        raise InvalidArgument(
            f"{endpoint!r} is not an endpoint: use a URL such as http://127.0.0.1:9000"
        )


def client_options(endpoint: str | None) -> "ClientConfig":
    """Return the options of a client for an endpoint; None is the cloud's default endpoint."""
    return {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=60),
        # Total time of a request, which can be long for a large object.
        "timeout": timedelta(days=1),
    }


def check_expiry(seconds: int) -> None:
    """Raise `InvalidArgument` unless the lifetime is in 1 to `PRESIGN_SECONDS_MAX`."""
    if not 0 < seconds <= PRESIGN_SECONDS_MAX:
        raise InvalidArgument(
            f"a presigned request is valid for 1 to {PRESIGN_SECONDS_MAX} seconds, not {seconds}"
        )


def _range_options(byte_range: ByteRange | None) -> "GetOptions":
    match byte_range:
        case None:
            return {}
        case Between(start, end):
            return {"range": (start, end)}
        case FromOffset(start):
            return {"range": {"offset": start}}
        case Suffix(length):
            return {"range": {"suffix": length}}


def _in_order(pages: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the pages unchanged, checking their order: merging sorted lists relies on it.

    Raises:
        NotSupported: The storage does not list in path order.
    """
    last = ""
    for page in pages:
        addresses = [last, *page.column("address").to_pylist()]
        for before, after in pairwise(addresses):
            if before >= after:
                raise NotSupported(f"the storage lists out of order: {after} after {before}")
        last = addresses[-1]
        yield page


def folders_in_order(prefixes: Iterator[str], namespace: Namespace) -> Iterator[str]:
    """Yield folder names relative to the namespace from full prefixes that end in a slash.

    Raises:
        NotSupported: The storage does not list in path order.
    """
    last = ""
    for prefix in prefixes:
        if prefix <= last:
            raise NotSupported(f"the storage lists out of order: {prefix} after {last}")
        last = prefix
        yield prefix[len(namespace.prefix) :].removesuffix("/")
