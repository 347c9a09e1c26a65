"""Simulated block storage: one storage shared by the handles of all actors.

A call is a single step, including its whole stream: a body is read to its end before the storage
receives any of it, and a returned stream is already complete. So the storage only ever shows whole
objects, as its contract says, and faults happen between calls.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa

from lakebed.block import (
    Address,
    BlockStore,
    ByteRange,
    ByteStream,
    ETag,
    Namespace,
    ObjectInfo,
    Part,
    PartInfo,
    PutResult,
    StorageUnavailable,
    Upload,
    UploadId,
    WrittenPart,
)
from lakebed.testing.simulation.scheduler import SimulatedProcess
from lakebed.testing.simulation.simulator import Simulation

ResultT = TypeVar("ResultT")


class SimulatedBlock:
    """Shares a storage among actors; each call may meet any fault.

    If modification times matter, give the storage the runtime of its own actor: then its clock is
    wrong like all others.
    """

    def __init__(self, simulation: Simulation, inner: BlockStore) -> None:
        self.inner = inner
        self._simulation = simulation

    def handle(self, actor: SimulatedProcess) -> BlockStore:
        """Return the storage as seen by an actor; the handle dies with the actor."""
        return _Handle(self._simulation, actor, self.inner)


class _Handle(BlockStore):
    def __init__(self, simulation: Simulation, actor: SimulatedProcess, inner: BlockStore) -> None:
        self.scheme = inner.scheme
        self.shared_between_processes = inner.shared_between_processes
        self.supports_presign = False
        self.presigned_put_creates_only = inner.presigned_put_creates_only
        self.part_bytes_min = inner.part_bytes_min
        self._simulation = simulation
        self._actor = actor
        self._inner = inner

    def check_address(self, address: Address) -> None:
        self._inner.check_address(address)

    def put(self, address: Address, chunks: Iterable[bytes]) -> PutResult:
        body = list(chunks)
        return self._call("put", address, lambda: self._inner.put(address, body))

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        def apply() -> tuple[list[bytes], int]:
            with self._inner.get(address, byte_range=byte_range, etag=etag) as stream:
                return list(stream), stream.object_size

        chunks, size = self._call("get", address, apply)
        return ByteStream(iter(chunks), lambda: None, object_size=size)

    def head(self, address: Address) -> ObjectInfo:
        return self._call("head", address, lambda: self._inner.head(address))

    def delete(self, address: Address) -> None:
        self._call("delete", address, lambda: self._inner.delete(address))

    def copy(self, source: Address, destination: Address, *, etag: ETag | None = None) -> None:
        copy = partial(self._inner.copy, source, destination, etag=etag)
        self._call("copy", destination, copy)

    def list_objects(
        self, namespace: Namespace, *, start_after: Address | None = None
    ) -> Iterator[pa.RecordBatch]:
        listing = partial(self._inner.list_objects, namespace, start_after=start_after)
        return iter(self._call("list_objects", namespace, lambda: list(listing())))

    def create(self, address: Address, data: bytes) -> ETag:
        return self._call("create", address, lambda: self._inner.create(address, data))

    def replace(self, address: Address, data: bytes, etag: ETag) -> ETag:
        return self._call("replace", address, lambda: self._inner.replace(address, data, etag))

    def create_upload(self, address: Address) -> UploadId:
        return self._call("create_upload", address, lambda: self._inner.create_upload(address))

    def put_part(
        self,
        address: Address,
        upload_id: UploadId,
        number: int,
        chunks: Iterable[bytes],
        *,
        size: int,
    ) -> WrittenPart:
        body = list(chunks)
        put_part = partial(self._inner.put_part, address, upload_id, number, body, size=size)
        return self._call("put_part", address, put_part)

    def complete_upload(
        self, address: Address, upload_id: UploadId, parts: Sequence[Part]
    ) -> ObjectInfo:
        complete = partial(self._inner.complete_upload, address, upload_id, parts)
        return self._call("complete_upload", address, complete)

    def abort_upload(self, address: Address, upload_id: UploadId) -> None:
        abort = partial(self._inner.abort_upload, address, upload_id)
        self._call("abort_upload", address, abort)

    def list_parts(self, address: Address, upload_id: UploadId) -> list[PartInfo]:
        list_parts = partial(self._inner.list_parts, address, upload_id)
        return self._call("list_parts", address, list_parts)

    def list_uploads(self, namespace: Namespace) -> Iterator[Upload]:
        uploads = partial(self._inner.list_uploads, namespace)
        return iter(self._call("list_uploads", namespace, lambda: list(uploads())))

    def close(self) -> None:
        """Keep the shared storage open."""

    def _call(
        self, operation: str, place: Address | Namespace, apply: Callable[[], ResultT]
    ) -> ResultT:
        return self._simulation.call(
            self._actor,
            (operation, str(place)),
            apply,
            lambda _known: StorageUnavailable(f"injected: no reply to {operation} of {place}"),
        )
