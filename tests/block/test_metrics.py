"""The metrics wrapper: it changes no call, and counts each once."""

import inspect
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from lakebed.base import tracing
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    ByteRange,
    ByteStream,
    DeleteResult,
    ETag,
    LocalSettings,
    MemorySettings,
    Namespace,
    ObjectNotFound,
    StorageUnavailable,
    Suffix,
    UploadNotFound,
    open_block,
)
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.block.store import UploadId
from lakebed.block.wrappers.metrics import MeteredBlockStore

NAMESPACE = Namespace.parse("mem://data/somewhere")
ADDRESS = NAMESPACE.address("object")


class HandClock(ThreadRuntime):
    """A clock that advances only on request."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class SlowStore(MemoryBlockStore):
    """Takes two seconds for every chunk, and may break off."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self._clock = clock
        self.breaks_off = False

    def get(
        self,
        address: Address,
        *,
        byte_range: ByteRange | None = None,
        etag: ETag | None = None,
    ) -> ByteStream:
        stream = super().get(address, byte_range=byte_range, etag=etag)

        def chunks() -> Iterator[bytes]:
            for chunk in stream:
                self._clock.seconds += 2
                yield chunk
            if self.breaks_off:
                raise StorageUnavailable("broke off")

        return ByteStream(chunks(), stream.close, object_size=stream.object_size)

    def delete_many(self, addresses: object) -> list[DeleteResult]:
        return [DeleteResult(ADDRESS, StorageUnavailable("down")), DeleteResult(ADDRESS, None)]


class Figures:
    """Metrics of a driver since the creation of this object."""

    def __init__(self, driver: str) -> None:
        self._driver = driver
        self._before: dict[tuple[str, tuple[str, ...]], float] = {}
        self._before = dict(self._all())

    def _all(self) -> Iterator[tuple[tuple[str, tuple[str, ...]], float]]:
        for metric in REGISTRY.collect():
            for sample in metric.samples:
                if sample.labels.get("driver") == self._driver and "le" not in sample.labels:
                    labels = sorted(
                        value for name, value in sample.labels.items() if name != "driver"
                    )
                    yield (sample.name, tuple(labels)), sample.value

    def of(self, metric: str, *labels: str) -> float:
        key = (f"lakebed_block_{metric}", tuple(sorted(labels)))
        return dict(self._all()).get(key, 0.0) - self._before.get(key, 0.0)


def test_every_call_is_counted_once() -> None:
    figures = Figures("memory")
    with open_block(MemorySettings()) as store:
        result = store.put(ADDRESS, [b"four", b"more"])
        assert b"".join(store.get(ADDRESS, byte_range=Suffix(4))) == b"more"
        assert store.read(ADDRESS) == b"fourmore"
        store.head(ADDRESS)
        store.replace(ADDRESS, b"other", result.etag)
        store.create(NAMESPACE.address("new"), b"new")
        store.copy(ADDRESS, NAMESPACE.address("folder/copy"))
        assert sum(batch.num_rows for batch in store.list_objects(NAMESPACE)) == 3
        assert list(store.list_folders(NAMESPACE)) == ["folder"]
        upload_id = store.create_upload(ADDRESS)
        assert [upload.upload_id for upload in store.list_uploads(NAMESPACE)] == [upload_id]
        part = store.put_part(ADDRESS, upload_id, 1, iter([b"part"]), size=4)
        assert len(store.list_parts(ADDRESS, upload_id)) == 1
        store.complete_upload(ADDRESS, upload_id, [part])
        store.abort_upload(ADDRESS, upload_id)
        store.delete(ADDRESS)
        store.delete_many([ADDRESS])
        store.delete_versions([ADDRESS])
    for operation in (
        "put", "get", "read", "head", "replace", "create", "copy", "list_objects", "list_folders",
        "create_upload", "list_uploads", "put_part", "list_parts", "complete_upload",
        "abort_upload", "delete", "delete_many", "delete_versions",
    ):  # fmt: skip
        assert figures.of("seconds_count", operation) == 1, operation
    assert figures.of("bytes_total", "in") == 8 + 5 + 3 + 4
    assert figures.of("bytes_total", "out") == 4 + 8


def test_errors_are_counted_by_kind_and_a_missing_object_is_none() -> None:
    figures = Figures("memory")
    with open_block(MemorySettings()) as store:
        store.create(ADDRESS, b"")
        with pytest.raises(AlreadyExists):
            store.create(ADDRESS, b"")
        with pytest.raises(UploadNotFound):
            store.put_part(ADDRESS, UploadId("x"), 1, [b""], size=0)
        missing = NAMESPACE.address("missing")
        for call in (store.get, store.read, store.head):
            with pytest.raises(ObjectNotFound):
                call(missing)
        assert not store.exists(missing)
    assert figures.of("errors_total", "create", "already_exists") == 1
    assert figures.of("errors_total", "put_part", "upload_not_found") == 1
    for operation in ("get", "read", "head"):
        assert figures.of("errors_total", operation, "object_not_found") == 0
        assert figures.of("seconds_count", operation) == (2 if operation == "head" else 1)


def test_only_the_time_of_the_storage_counts() -> None:
    clock = HandClock()
    store = MeteredBlockStore(SlowStore(clock), "slow", clock)
    figures = Figures("slow")

    def slow_sender() -> Iterator[bytes]:
        clock.seconds += 100
        yield b"data"

    store.put(ADDRESS, slow_sender())
    with store.get(ADDRESS) as stream:
        for _ in stream:
            clock.seconds += 100
    assert figures.of("seconds_sum", "put") == 0
    assert figures.of("seconds_sum", "get") == 2


def test_what_is_taken_of_a_file_counts_with_what_is_read(tmp_path: Path) -> None:
    with open_block(LocalSettings(tmp_path)) as store:
        address = Address.parse("local://data/a")
        store.put(address, [bytes(5 << 20)])
        figures = Figures("local")
        with store.get(address) as stream:
            assert stream.file is not None
            stream.file.take(3 << 20, 60.0)
            assert len(b"".join(stream)) == 2 << 20
        assert figures.of("bytes_total", "out") == 5 << 20
        assert 60 <= figures.of("seconds_sum", "get") < 120
        with store.get(address) as stream:  # whose client goes away
            assert stream.file is not None
            stream.file.take(1 << 20, 60.0)
        assert figures.of("bytes_total", "out") == 6 << 20
        assert figures.of("seconds_count", "get") == 2


def test_a_stream_that_breaks_off_is_an_error_of_get() -> None:
    clock = HandClock()
    slow = SlowStore(clock)
    slow.breaks_off = True
    store = MeteredBlockStore(slow, "broken", clock)
    figures = Figures("broken")
    store.put(ADDRESS, [b"data"])
    with pytest.raises(StorageUnavailable):
        list(store.get(ADDRESS))
    store.get(ADDRESS).close()
    assert figures.of("errors_total", "get", "storage_unavailable") == 1
    assert figures.of("seconds_count", "get") == 2
    assert figures.of("bytes_total", "out") == 4


def test_every_object_that_was_not_deleted_counts() -> None:
    clock = HandClock()
    store = MeteredBlockStore(SlowStore(clock), "undeleted", clock)
    figures = Figures("undeleted")
    assert len(store.delete_many([ADDRESS, ADDRESS])) == 2
    assert figures.of("errors_total", "delete_many", "storage_unavailable") == 1


def test_every_default_method_is_overridden() -> None:
    # A driver may override a default, so the wrapper must call it. `exists` calls `head`.
    public = {
        name
        for name, _ in inspect.getmembers(BlockStore, inspect.isfunction)
        if not name.startswith("_")
    }
    assert public - vars(MeteredBlockStore).keys() == {"exists"}
    inner = MemoryBlockStore(ThreadRuntime())
    inner.supports_presign = inner.presigned_put_creates_only = True
    inner.supports_uploads = False
    inner.part_bytes_min = 7
    wrapped = MeteredBlockStore(inner, "memory", ThreadRuntime())
    for name in inspect.get_annotations(BlockStore):
        assert getattr(wrapped, name) == getattr(inner, name), name


def test_calls_are_spans() -> None:
    spans: list[str] = []

    def begin(name: str) -> AbstractContextManager[object]:
        spans.append(name)
        return nullcontext()

    tracing.turn_on(begin)
    try:
        with open_block(MemorySettings()) as store:
            store.put(ADDRESS, [b"data"])
            store.read(ADDRESS)
    finally:
        tracing.turn_off()
    assert spans == ["block.put", "block.read"]
