"""Latency, errors and bytes of storage calls, by operation and driver, for Prometheus.

- ``lakebed_block_seconds``: time of a call in the storage, including failed calls. A stream or a
  listing counts once, when it ends. Waiting for the caller to send or request the next chunk or
  page is excluded: a slow client does not look like a slow storage. For bytes taken from a file
  (`FileSection`), the time of the calls that sent them counts.
- ``lakebed_block_errors_total``: failed calls, by kind of error. A missing object is not an error.
  For `delete_many`, every object not deleted counts.
- ``lakebed_block_bytes_total``: bytes of objects written (``in``) and read (``out``).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from prometheus_client import Counter, Histogram

from lakebed.base.runtime import Runtime
from lakebed.base.tracing import traced
from lakebed.block.address import Address, Namespace
from lakebed.block.errors import BlockError, ObjectNotFound
from lakebed.block.ranges import ByteRange
from lakebed.block.store import (
    BlockStore,
    ByteStream,
    DeleteResult,
    ETag,
    ObjectInfo,
    Part,
    PartInfo,
    PutResult,
    Stray,
    Upload,
    UploadId,
    WrittenPart,
)
from lakebed.block.streams import with_md5_of

ResultT = TypeVar("ResultT")
_Clock = Callable[[], float]

_SECONDS: Final = Histogram(
    "lakebed_block_seconds",
    "Duration of storage calls in seconds",
    ["operation", "driver"],
    buckets=(0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60),
)
_ERRORS: Final = Counter(
    "lakebed_block_errors",
    "Failed storage calls, by kind of error",
    ["operation", "driver", "kind"],
)
_BYTES: Final = Counter(
    "lakebed_block_bytes",
    "Bytes of objects written to and read from the storage",
    ["driver", "direction"],
)
_OPERATIONS: Final = (
    "put", "put_new", "get", "read", "head", "delete", "delete_many",
    "delete_versions", "copy", "list_objects",
    "list_folders", "list_strays", "probe", "create", "create_by_content", "replace",
    "create_upload", "put_part", "complete_upload", "abort_upload", "list_parts", "list_uploads",
    "presign_get", "presign_put", "presign_part",
)  # fmt: skip


class MeteredBlockStore(BlockStore):
    """Measures every call to the inner storage."""

    def __init__(self, inner: BlockStore, driver: str, runtime: Runtime) -> None:
        self.scheme = inner.scheme
        self.shared_between_processes = inner.shared_between_processes
        self.supports_presign = inner.supports_presign
        self.presigned_put_creates_only = inner.presigned_put_creates_only
        self.supports_presign_part = inner.supports_presign_part
        self.supports_uploads = inner.supports_uploads
        self.part_bytes_min = inner.part_bytes_min
        self.encryption = inner.encryption
        self._inner = inner
        self._driver = driver
        self._clock: _Clock = runtime.monotonic
        self._observe = {
            operation: _SECONDS.labels(operation, driver).observe for operation in _OPERATIONS
        }
        self._count_in = _BYTES.labels(driver, "in").inc
        self._count_out = _BYTES.labels(driver, "out").inc

    def check_address(self, address: Address) -> None:
        self._inner.check_address(address)

    @traced("block.put")
    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        return self._send("put", chunks, partial(self._inner.put, address))

    @traced("block.put")
    def put_unreferenced(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        return self._send("put", chunks, partial(self._inner.put_unreferenced, address))

    @traced("block.put_new")
    def put_new(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        return self._send("put_new", chunks, partial(self._inner.put_new, address))

    @traced("block.get")
    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        begun = self._clock()
        try:
            stream = self._inner.get(address, byte_range=byte_range, etag=etag)
        except BlockError as error:
            self._end("get", self._clock() - begun, error)
            raise
        outgoing = _Outgoing(stream, self._clock, self._end_get, self._clock() - begun)
        size, file = stream.object_size, stream.file
        return ByteStream(outgoing, outgoing.close, object_size=size, file=file)

    @traced("block.read")
    def read(self, address: Address) -> bytes:
        data = self._timed("read", lambda: self._inner.read(address))
        self._count_out(len(data))
        return data

    @traced("block.head")
    def head(self, address: Address) -> ObjectInfo:
        return self._timed("head", lambda: self._inner.head(address))

    @traced("block.delete")
    def delete(self, address: Address) -> None:
        self._timed("delete", lambda: self._inner.delete(address))

    @traced("block.delete_many")
    def delete_many(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        return self._delete("delete_many", lambda: self._inner.delete_many(addresses))

    @traced("block.delete_versions")
    def delete_versions(self, addresses: Sequence[Address]) -> list[DeleteResult]:
        return self._delete("delete_versions", lambda: self._inner.delete_versions(addresses))

    def _delete(self, name: str, call: Callable[[], list[DeleteResult]]) -> list[DeleteResult]:
        results = self._timed(name, call)
        for result in results:
            if result.error is not None:
                self._count_error(name, result.error)
        return results

    @traced("block.copy")
    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        self._timed("copy", lambda: self._inner.copy(source, destination, etag=etag))

    @traced("block.list_objects")
    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        return self._iterate(
            "list_objects", lambda: self._inner.list_objects(namespace, start_after=start_after)
        )

    @traced("block.list_folders")
    def list_folders(self, namespace: Namespace) -> Iterator[str]:
        return self._iterate("list_folders", lambda: self._inner.list_folders(namespace))

    @traced("block.list_strays")
    def list_strays(self, namespace: Namespace) -> Iterator[Stray]:
        return self._iterate("list_strays", lambda: self._inner.list_strays(namespace))

    @traced("block.probe")
    def probe(self, namespace: Namespace | None) -> None:
        self._timed("probe", lambda: self._inner.probe(namespace))

    @traced("block.create")
    def create(self, address: Address, data: bytes) -> ETag:
        etag = self._timed("create", lambda: self._inner.create(address, data))
        self._count_in(len(data))
        return etag

    @traced("block.create_by_content")
    def create_by_content(self, objects: Sequence[tuple[Address, bytes]]) -> list[bool]:
        new = self._timed("create_by_content", lambda: self._inner.create_by_content(objects))
        self._count_in(sum(len(data) for _, data in objects))
        return new

    @traced("block.replace")
    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        replaced = self._timed("replace", lambda: self._inner.replace(address, data, etag))
        self._count_in(len(data))
        return replaced

    @traced("block.create_upload")
    def create_upload(self, address: Address) -> UploadId:
        return self._timed("create_upload", lambda: self._inner.create_upload(address))

    @traced("block.put_part")
    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        put_part = partial(self._inner.put_part, address, upload_id, number, size=size)
        return self._send("put_part", chunks, put_part)

    @traced("block.complete_upload")
    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        return self._timed(
            "complete_upload", lambda: self._inner.complete_upload(address, upload_id, parts)
        )

    @traced("block.abort_upload")
    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        self._timed("abort_upload", lambda: self._inner.abort_upload(address, upload_id))

    @traced("block.list_parts")
    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        return self._timed("list_parts", lambda: self._inner.list_parts(address, upload_id))

    @traced("block.list_uploads")
    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        return self._iterate("list_uploads", lambda: self._inner.list_uploads(namespace))

    @traced("block.presign_get")
    def presign_get(self, address: Address, *, expires_seconds: int) -> str:
        return self._timed(
            "presign_get",
            lambda: self._inner.presign_get(address, expires_seconds=expires_seconds),
        )

    @traced("block.presign_put")
    def presign_put(self, address: Address, *, expires_seconds: int) -> str:
        return self._timed(
            "presign_put",
            lambda: self._inner.presign_put(address, expires_seconds=expires_seconds),
        )

    @traced("block.presign_part")
    def presign_part(
        self, address: Address, upload_id: UploadId, number: int, *, expires_seconds: int
    ) -> str:
        presign = partial(self._inner.presign_part, address, upload_id, number)
        return self._timed("presign_part", lambda: presign(expires_seconds=expires_seconds))

    def close(self) -> None:
        self._inner.close()

    def _timed(self, operation: str, call: Callable[[], ResultT]) -> ResultT:
        begun = self._clock()
        try:
            return call()
        except BlockError as error:
            self._count_error(operation, error)
            raise
        finally:
            self._observe[operation](self._clock() - begun)

    def _send(
        self,
        operation: str,
        chunks: Iterable[bytes],
        call: Callable[[Iterable[bytes]], ResultT],
    ) -> ResultT:
        """Make a call that reads a stream."""
        incoming = _Incoming(chunks, self._clock)
        begun = self._clock()
        try:
            return call(with_md5_of(chunks, incoming))
        except BlockError as error:
            self._count_error(operation, error)
            raise
        finally:
            self._observe[operation](self._clock() - begun - incoming.waited_seconds)
            self._count_in(incoming.size)

    def _iterate(self, operation: str, call: Callable[[], Iterator[ResultT]]) -> Iterator[ResultT]:
        """Make a call that returns an iterator, whose steps count too."""
        begun = self._clock()
        try:
            steps = call()
        except BlockError as error:
            self._end(operation, self._clock() - begun, error)
            raise
        return self._steps(operation, steps, self._clock() - begun)

    def _steps(
        self, operation: str, steps: Iterator[ResultT], took_seconds: float
    ) -> Iterator[ResultT]:
        failure: BlockError | None = None
        try:
            while True:
                begun = self._clock()
                try:
                    step = next(steps)
                except StopIteration:
                    return
                except BlockError as error:
                    failure = error
                    raise
                finally:
                    took_seconds += self._clock() - begun
                yield step
        finally:
            self._end(operation, took_seconds, failure)

    def _end_get(self, took_seconds: float, size: int, failure: BlockError | None) -> None:
        self._end("get", took_seconds, failure)
        self._count_out(size)

    def _end(self, operation: str, took_seconds: float, failure: BlockError | None) -> None:
        self._observe[operation](took_seconds)
        if failure is not None:
            self._count_error(operation, failure)

    def _count_error(self, operation: str, error: BlockError) -> None:
        if not isinstance(error, ObjectNotFound):
            _ERRORS.labels(operation, self._driver, error.kind).inc()


class _Incoming(Iterator[bytes]):
    """The caller's chunks, counting their bytes and the time the storage waited for them."""

    def __init__(self, chunks: Iterable[bytes], clock: _Clock) -> None:
        self.size = 0
        self.waited_seconds = 0.0
        self._chunks = iter(chunks)
        self._clock = clock

    def __next__(self) -> bytes:
        begun = self._clock()
        try:
            chunk = next(self._chunks)
        finally:
            self.waited_seconds += self._clock() - begun
        self.size += len(chunk)
        return chunk


class _Outgoing(Iterator[bytes]):
    """The chunks of an object, counting their bytes and the time of the storage."""

    def __init__(
        self,
        stream: ByteStream,
        clock: _Clock,
        end: Callable[[float, int, BlockError | None], None],
        took_seconds: float,
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._end = end
        self._took_seconds = took_seconds
        self._size = 0
        self._failure: BlockError | None = None

    def __next__(self) -> bytes:
        begun = self._clock()
        try:
            chunk = next(self._stream)
        except BlockError as error:
            self._failure = error
            raise
        finally:
            self._took_seconds += self._clock() - begun
        self._size += len(chunk)
        return chunk

    def close(self) -> None:
        """Close the stream and record its metrics."""
        file = self._stream.file
        if file is not None:
            self._took_seconds += file.took_seconds
            self._size += file.taken
        try:
            self._stream.close()
        finally:
            self._end(self._took_seconds, self._size, self._failure)
