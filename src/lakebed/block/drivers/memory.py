"""Storage in the memory of a process, for tests, experiments and the simulator."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, takewhile

import pyarrow as pa
from sortedcontainers import SortedDict

from lakebed.base.runtime import Runtime, now_us, to_datetime
from lakebed.block.address import Address, Namespace
from lakebed.block.errors import (
    AlreadyExists,
    InvalidAddress,
    ObjectNotFound,
    PreconditionFailed,
    StorageClosed,
    UploadNotFound,
)
from lakebed.block.ranges import ByteRange, resolve
from lakebed.block.settings import MemorySettings
from lakebed.block.store import (
    BlockStore,
    ByteStream,
    ETag,
    ObjectInfo,
    Part,
    PartInfo,
    PutResult,
    Upload,
    UploadId,
    WrittenPart,
)
from lakebed.block.streams import (
    CHUNK_BYTES,
    LIST_BATCH_ROWS,
    ListedObject,
    Meter,
    check_part_number,
    check_parts,
    exactly,
    list_batch,
)

_Key = tuple[str, str]  # store and path: ordered like addresses, and cheaper to create


def open_driver(_settings: MemorySettings, runtime: Runtime) -> BlockStore:
    """Open a new, empty storage; see `lakebed.block.open_block`."""
    return MemoryBlockStore(runtime)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    mtime_us: int
    etag: ETag

    @property
    def mtime(self) -> datetime:
        return to_datetime(self.mtime_us)

    def info(self, address: Address) -> ObjectInfo:
        return ObjectInfo(address, len(self.data), self.mtime, self.etag)

    def listed(self, store: str, path: str) -> ListedObject:
        return ListedObject(f"{store}/{path}", len(self.data), self.mtime_us, self.etag)


@dataclass(frozen=True, slots=True)
class _Upload:
    address: Address
    created: datetime
    parts: dict[int, _Object] = field(default_factory=dict)

    def infos(self) -> dict[int, PartInfo]:
        return {
            number: PartInfo(number, part.etag, len(part.data), part.mtime)
            for number, part in sorted(self.parts.items())
        }


class MemoryBlockStore(BlockStore):
    """Sorted map from addresses to bytes, under a lock."""

    scheme = "mem"
    shared_between_processes = False
    supports_presign = False
    presigned_put_creates_only = True
    part_bytes_min = 0

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self._objects: SortedDict[_Key, _Object] = SortedDict()
        self._uploads: dict[UploadId, _Upload] = {}
        self._closed = False

    def check_address(self, address: Address) -> None:
        self._check(address)

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        self._check(address)
        meter = Meter()
        new = self._new_object(b"".join(meter.through(chunks)))
        with self._lock:
            self._objects[_key(address)] = new
        return PutResult(meter.size, meter.md5, new.etag)

    def put_new(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        meter = Meter()
        etag = self.create(address, b"".join(meter.through(chunks)))
        return PutResult(meter.size, meter.md5, etag)

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        data = self._find(address, etag).data
        start, length = resolve(byte_range, len(data))
        end = start + length
        chunks = (
            data[offset : min(offset + CHUNK_BYTES, end)]
            for offset in range(start, end, CHUNK_BYTES)
        )
        return ByteStream(chunks, lambda: None, object_size=len(data))

    def head(self, address: Address) -> ObjectInfo:
        return self._find(address).info(address)

    def delete(self, address: Address) -> None:
        self._check(address)
        with self._lock:
            self._objects.pop(_key(address), None)

    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        self._check(destination)
        new = self._new_object(self._find(source, etag).data)
        with self._lock:
            self._objects[_key(destination)] = new

    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        self._check(namespace)
        return self._batches(namespace, self._start(namespace, start_after))

    def _batches(self, namespace: Namespace, after: str) -> Iterator[pa.RecordBatch]:
        while page := self._page(namespace, after):
            yield list_batch([row for _, row in page])
            after, _ = page[-1]

    def _page(self, namespace: Namespace, after: str) -> list[tuple[str, ListedObject]]:
        with self._lock:
            keys = self._objects.irange((namespace.store, after), inclusive=(False, True))
            inside = takewhile(lambda key: _lies_in(namespace, key), keys)
            return [
                (path, self._objects[store, path].listed(store, path))
                for store, path in islice(inside, LIST_BATCH_ROWS)
            ]

    def create(self, address: Address, data: bytes) -> ETag:
        self._check(address)
        new = self._new_object(data)
        with self._lock:
            if _key(address) in self._objects:
                raise AlreadyExists(address)
            self._objects[_key(address)] = new
        return new.etag

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        self._check(address)
        new = self._new_object(data)
        with self._lock:
            old = self._objects.get(_key(address))
            if old is None or old.etag != etag:
                raise PreconditionFailed(address)
            self._objects[_key(address)] = new
        return new.etag

    def create_upload(self, address: Address) -> UploadId:
        self._check(address)
        upload_id = UploadId(self._runtime.random_bytes(16).hex())
        created = to_datetime(self._now_us())
        with self._lock:
            self._uploads[upload_id] = _Upload(address, created)
        return upload_id

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        self._check(address)
        check_part_number(number)
        with self._lock:
            self._find_upload(address, upload_id)
        meter = Meter()
        data = b"".join(meter.through(exactly(size, chunks)))
        part = _Object(data, self._now_us(), ETag(meter.md5))
        with self._lock:
            self._find_upload(address, upload_id).parts[number] = part
        return WrittenPart(number, part.etag, meter.md5)

    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        self._check(address)
        with self._lock:
            upload = self._find_upload(address, upload_id)
            check_parts(parts, upload.infos())
            new = self._new_object(b"".join(upload.parts[part.number].data for part in parts))
            self._objects[_key(address)] = new
            del self._uploads[upload_id]
        return new.info(address)

    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        self._check(address)
        with self._lock:
            upload = self._uploads.get(upload_id)
            if upload is not None and upload.address == address:
                del self._uploads[upload_id]

    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        self._check(address)
        with self._lock:
            return list(self._find_upload(address, upload_id).infos().values())

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        self._check(namespace)
        with self._lock:
            uploads = [
                Upload(upload.address, upload_id, upload.created)
                for upload_id, upload in self._uploads.items()
                if upload.address in namespace
            ]
        return iter(sorted(uploads, key=lambda upload: (upload.address, upload.upload_id)))

    def close(self) -> None:
        self._closed = True

    def _check(self, place: Address | Namespace) -> None:
        if self._closed:
            raise StorageClosed
        if place.parts.scheme != self.scheme:
            raise InvalidAddress(f"{place} is not an address of memory storage")

    def _find(self, address: Address, etag: ETag | None = None) -> _Object:
        self._check(address)
        with self._lock:
            found = self._objects.get(_key(address))
        if found is None:
            raise ObjectNotFound(address)
        if etag not in {None, found.etag}:
            raise PreconditionFailed(address)
        return found

    def _find_upload(self, address: Address, upload_id: UploadId) -> _Upload:
        upload = self._uploads.get(upload_id)
        if upload is None or upload.address != address:
            raise UploadNotFound(address, upload_id)
        return upload

    def _new_object(self, data: bytes) -> _Object:
        return _Object(data, self._now_us(), ETag(self._runtime.random_bytes(16).hex()))

    def _now_us(self) -> int:
        return now_us(self._runtime)


def _key(address: Address) -> _Key:
    return address.store, address.path


def _lies_in(namespace: Namespace, key: _Key) -> bool:
    store, path = key
    return store == namespace.store and path.startswith(namespace.prefix)
