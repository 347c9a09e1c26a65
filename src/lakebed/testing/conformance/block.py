"""The conformance suite of block storage.

To test a driver, subclass `BlockConformance` in a test module and provide the settings of the
storage and a namespace in which the tests may write:

    class TestMyStorage(BlockConformance):
        @pytest.fixture
        def settings(self, tmp_path: Path) -> BlockSettings:
            return LocalSettings(tmp_path)

        @pytest.fixture
        def place(self) -> str:
            return "local://data/somewhere"

Where a storage cannot do what a test asks, the class overrides that one test and says why. Every
test uses a namespace of its own, so a storage may be shared between tests.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.block import (
    Address,
    Between,
    BlockSettings,
    BlockStore,
    ByteRange,
    ETag,
    FromOffset,
    InvalidAddress,
    InvalidArgument,
    Namespace,
    NotSupported,
    ObjectNotFound,
    PreconditionFailed,
    RangeNotSatisfiable,
    StorageClosed,
    StorageUnavailable,
    Suffix,
    UploadId,
    open_block,
)
from lakebed.testing.conformance.block_conditional import ConditionalConformance
from lakebed.testing.conformance.block_listing import (
    ORDERED_PATHS,
    ListingConformance,
    addresses_of,
)
from lakebed.testing.conformance.block_multipart import MultipartConformance

MIB = 1 << 20
LONG = "LAKEBED_TEST_LONG" in os.environ


class BrokenOffError(ConnectionResetError):
    """Error of the caller's stream, with the error number of a lost connection."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the caller's own connection is lost")


def broken(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks, then raise `BrokenOffError`."""
    yield from chunks
    raise BrokenOffError


def memory_bytes() -> int:
    """Return the resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class BlockConformance(ListingConformance, ConditionalConformance, MultipartConformance):
    """Conformance suite of block storage. Subclasses override `settings` and `place`."""

    large_mib = 300
    """Size of an object that must be streamed: well above the memory allowed for a driver."""

    @pytest.fixture
    def settings(self) -> BlockSettings:
        """Settings of the storage."""
        raise NotImplementedError("override `settings` with the settings of the storage")

    @pytest.fixture
    def place(self) -> str:
        """URL of a namespace in which the tests may write."""
        raise NotImplementedError("override `place` with a URL for the tests")

    @pytest.fixture
    def store(self, settings: BlockSettings) -> Iterator[BlockStore]:
        """The open storage."""
        with open_block(settings) as store:
            yield store

    @pytest.fixture
    def namespace(self, place: str) -> Namespace:
        """Namespace of a single test."""
        return Namespace.parse(place).folder(f"test-{uuid4().hex}")

    # Objects

    @pytest.mark.parametrize("chunks", [[], [b""], [b"data"], [b"a", b"", b"b" * MIB, b"c"]])
    def test_reading_returns_the_bytes_written(
        self, store: BlockStore, namespace: Namespace, chunks: list[bytes]
    ) -> None:
        address = namespace.address("folder/object")
        data = b"".join(chunks)
        before = datetime.now(UTC)
        result = store.put(address, iter(chunks))
        assert (result.size, result.md5) == (len(data), md5(data).hexdigest())
        assert store.read(address) == data
        assert b"".join(store.get(address)) == data
        info = store.head(address)
        assert (info.address, info.size, info.etag) == (address, len(data), result.etag)
        assert abs(info.mtime - before) < timedelta(minutes=1)
        assert info.mtime.utcoffset() == timedelta(0)
        assert store.exists(address)

    def test_a_missing_object_is_named(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/missing")
        for call in (
            lambda: store.get(address),
            lambda: store.read(address),
            lambda: store.head(address),
            lambda: store.copy(address, namespace.address("copy")),
        ):
            with pytest.raises(ObjectNotFound, match=str(address)) as caught:
                call()
            assert isinstance(caught.value, FileNotFoundError)
        assert not store.exists(address)

    def test_the_parent_of_an_object_is_no_object(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        store.put(namespace.address("folder/object"), [b"data"])
        assert not store.exists(namespace.address("folder"))
        with pytest.raises(ObjectNotFound):
            store.read(namespace.address("folder"))
        store.delete(namespace.address("folder"))
        assert store.read(namespace.address("folder/object")) == b"data"

    def test_no_object_is_stored_below_another(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        store.put(namespace.address("object"), [b"data"])
        below = namespace.address("object/below")
        assert not store.exists(below)
        with pytest.raises(ObjectNotFound):
            store.read(below)
        store.delete(below)
        assert addresses_of(store.list_objects(namespace.folder("object"))) == []

    def test_an_object_is_replaced(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        first = store.put(address, [b"long old content"])
        second = store.put(address, [b"new"])
        assert store.read(address) == b"new"
        assert first.etag != second.etag == store.head(address).etag

    @pytest.mark.parametrize("path", ORDERED_PATHS)
    def test_paths_are_raw(self, store: BlockStore, namespace: Namespace, path: str) -> None:
        address = namespace.address(path)
        store.put(address, [path.encode()])
        assert store.read(address) == path.encode()
        assert addresses_of(store.list_objects(namespace)) == [str(address)]
        store.delete(address)
        assert not store.exists(address)

    def test_long_paths(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("/".join(["p" * 99] * 8))
        store.put(address, [b"data"])
        assert store.read(address) == b"data"

    def test_an_interrupted_stream_writes_nothing(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        for count in (0, 1, 12):
            with pytest.raises(BrokenOffError):
                store.put(namespace.address("folder/new"), broken([b"x" * MIB] * count))
        assert not store.exists(namespace.address("folder/new"))
        assert addresses_of(store.list_objects(namespace)) == []

    def test_an_interrupted_stream_keeps_the_old_object(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        old = store.put(address, [b"old"])
        with pytest.raises(BrokenOffError):
            store.put(address, broken([b"x" * MIB] * 12))
        assert store.read(address) == b"old"
        assert store.head(address).etag == old.etag

    def test_large_objects_stream(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("large")
        count = 5 * 1024 if LONG else self.large_mib
        chunk = os.urandom(MIB)
        before = memory_bytes()
        most = before

        def chunks() -> Iterator[bytes]:
            nonlocal most
            for _ in range(count):
                most = max(most, memory_bytes())
                yield chunk

        result = store.put(address, chunks())
        assert result.size == count * MIB == store.head(address).size
        digest = md5()
        with store.get(address) as stream:
            for piece in stream:
                digest.update(piece)
                most = max(most, memory_bytes())
        assert digest.hexdigest() == result.md5
        assert most - before < 100 * MIB
        store.delete(address)

    def test_a_stream_reads_one_version_of_an_object(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        old = os.urandom(8 * MIB)
        store.put(address, [old])
        for change in (lambda: store.put(address, [b"new" * MIB]), lambda: store.delete(address)):
            store.put(address, [old])
            with store.get(address) as stream:
                pieces = [next(stream)]
                change()
                try:
                    pieces += stream
                except StorageUnavailable:
                    continue
            assert b"".join(pieces) == old

    def test_a_stream_may_be_closed_early(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        store.put(address, [b"x" * MIB] * 8)
        for chunks_read in (0, 1):
            for _ in range(20):
                stream = store.get(address)
                for _ in range(chunks_read):
                    next(stream)
                stream.close()
                stream.close()
                assert list(stream) == []

    # Byte ranges

    @pytest.mark.parametrize(
        "byte_range",
        [
            Between(0, 1),
            Between(5, 2 * MIB + 7),
            Between(MIB - 1, MIB + 1),
            Between(3 * MIB - 1, 4 * MIB),
            FromOffset(0),
            FromOffset(3 * MIB - 1),
            Suffix(1),
            Suffix(2 * MIB + 1),
            Suffix(4 * MIB),
        ],
    )
    def test_byte_ranges_of_a_large_object(
        self, store: BlockStore, namespace: Namespace, byte_range: ByteRange
    ) -> None:
        address = namespace.address("object")
        data = os.urandom(3 * MIB)
        store.put(address, [data])
        assert b"".join(store.get(address, byte_range=byte_range)) == sliced(data, byte_range)

    def test_byte_ranges_agree_with_slices(self, store: BlockStore, namespace: Namespace) -> None:
        contents = {namespace.address(f"{size}"): bytes(range(size)) for size in (0, 1, 10)}
        for address, data in contents.items():
            store.put(address, [data])

        @given(address=st.sampled_from(list(contents)), byte_range=_byte_ranges())
        def check(address: Address, byte_range: ByteRange) -> None:
            expected = sliced(contents[address], byte_range)
            if expected:
                assert b"".join(store.get(address, byte_range=byte_range)) == expected
            else:
                with pytest.raises(RangeNotSatisfiable):
                    store.get(address, byte_range=byte_range)

        check()

    # Deletes and copies

    def test_deleting_a_missing_object_succeeds(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("folder/object")
        store.delete(address)
        store.put(address, [b"data"])
        store.delete(address)
        store.delete(address)
        assert not store.exists(address)

    def test_a_deleted_folder_is_no_obstacle(self, store: BlockStore, namespace: Namespace) -> None:
        store.put(namespace.address("a/b/c"), [b"data"])
        store.delete(namespace.address("a/b/c"))
        store.put(namespace.address("a"), [b"object"])
        assert store.read(namespace.address("a")) == b"object"
        store.delete(namespace.address("a"))
        store.put(namespace.address("a/b"), [b"below"])
        assert store.read(namespace.address("a/b")) == b"below"

    def test_deleting_many(self, store: BlockStore, namespace: Namespace) -> None:
        addresses = [namespace.address(f"{number % 3}/{number}") for number in range(30)]
        for address in addresses[::2]:
            store.put(address, [b"data"])
        kept = namespace.address("kept")
        store.put(kept, [b"data"])
        foreign = Address.parse("mem://elsewhere/x" if store.scheme != "mem" else "s3://other/x")
        results = store.delete_many([*addresses, foreign])
        assert [result.address for result in results] == [*addresses, foreign]
        assert [result.error for result in results[:-1]] == [None] * 30
        assert isinstance(results[-1].error, InvalidAddress)
        assert addresses_of(store.list_objects(namespace)) == [str(kept)]
        assert store.delete_many([]) == []

    def test_deleting_all_versions(self, store: BlockStore, namespace: Namespace) -> None:
        address, beside = namespace.address("object"), namespace.address("object-2")
        for body in (b"1", b"2"):
            store.put(address, [body])
        store.put(beside, [b"kept"])
        missing = namespace.address("missing")
        deleted, absent = store.delete_versions([address, missing])
        assert (deleted.address, deleted.error, absent.address) == (address, None, missing)
        assert deleted.versions >= 1
        assert deleted.bytes >= 1
        assert (absent.error, absent.versions, absent.bytes) == (None, 0, 0)
        assert store.delete_versions([address])[0].versions == 0
        assert addresses_of(store.list_objects(namespace)) == [str(beside)]

    def test_copies(self, store: BlockStore, namespace: Namespace) -> None:
        source, target = namespace.address("source é/ü"), namespace.address("a/b/target")
        data = os.urandom(2 * MIB + 1)
        store.put(source, [data])
        store.put(target, [b"old"])
        store.copy(source, target)
        store.delete(source)
        assert store.read(target) == data
        store.copy(target, target)
        assert store.read(target) == data

    def test_empty_segments_are_kept_or_refused(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        """Other programs create such objects in clouds (``in//x``, ``dir/``); `put` does not."""
        plain = namespace.address("plain")
        for path in ("a//b", "/a", "a/", "a//"):
            odd = namespace.address(path)
            if store.scheme in {"mem", "local", "gs"}:
                if store.scheme != "mem":
                    for call in (store.check_address, store.head, store.get, store.delete):
                        with pytest.raises(InvalidAddress):
                            call(odd)
                continue
            store.check_address(odd)
            with pytest.raises(InvalidAddress, match="empty segment"):
                store.put(odd, [b"data"])
            assert not store.exists(odd)
            with pytest.raises(ObjectNotFound):
                store.get(odd)
            upload_id = store.create_upload(odd)
            part = store.put_part(odd, upload_id, 1, [b"0123456789"], size=10)
            info = store.complete_upload(odd, upload_id, [part])
            assert (info.address, info.size) == (odd, 10)
            assert store.head(odd) == info
            assert store.read(odd) == b"0123456789"
            assert not store.exists(namespace.address("a/b"))
            with store.get(odd, byte_range=Between(2, 5), etag=info.etag) as stream:
                assert (b"".join(stream), stream.object_size) == (b"234", 10)
            with pytest.raises(PreconditionFailed):
                store.get(odd, etag=ETag("other"))
            with pytest.raises(RangeNotSatisfiable):
                store.get(odd, byte_range=FromOffset(10))
            assert str(odd) in addresses_of(store.list_objects(namespace))
            if store.scheme == "s3":
                store.copy(odd, plain)
                assert store.read(plain) == b"0123456789"
                with closing(urlopen(store.presign_get(odd, expires_seconds=60))) as response:
                    assert response.read() == b"0123456789"
            store.delete(odd)
            store.delete(odd)
            assert not store.exists(odd)
            assert store.delete_versions([odd])[0].versions == 0

    # Presigned requests

    def test_presigned_requests(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/an object é")
        if not store.supports_presign:
            for presign in (store.presign_get, store.presign_put):
                with pytest.raises(NotSupported):
                    presign(address, expires_seconds=60)
            return
        url = store.presign_put(address, expires_seconds=60)
        request = Request(url, b"data", {"x-ms-blob-type": "BlockBlob"}, method="PUT")
        with closing(urlopen(request)) as response:
            assert response.status in {200, 201}
        assert store.read(address) == b"data"
        url = store.presign_get(address, expires_seconds=60)
        with closing(urlopen(url)) as response:
            assert response.read() == b"data"
        with pytest.raises(HTTPError):
            urlopen(url.replace("object", "0bject")).close()
        with pytest.raises(InvalidArgument):
            store.presign_get(address, expires_seconds=0)

    # Refused calls

    def test_addresses_of_other_storages_are_refused(self, store: BlockStore) -> None:
        schemes = [
            "local://x",
            "mem://x",
            "s3://x",
            "gs://x",
            "https://x.blob.core.windows.net/y",
        ]
        for place in schemes:
            namespace = Namespace.parse(place)
            if namespace.parts.scheme == store.scheme:
                continue
            for call in _calls(store, namespace):
                with pytest.raises(InvalidAddress):
                    call()

    def test_a_closed_storage_refuses_calls(
        self, settings: BlockSettings, namespace: Namespace
    ) -> None:
        store = open_block(settings)
        store.close()
        store.close()
        for call in _calls(store, namespace):
            with pytest.raises(StorageClosed):
                call()
        with pytest.raises(StorageClosed):
            store.delete_many([namespace.address("x")])


def sliced(data: bytes, byte_range: ByteRange) -> bytes:
    """Return the bytes of a range."""
    match byte_range:
        case Between(start, end):
            return data[start:end]
        case FromOffset(start):
            return data[start:]
        case Suffix(length):
            return data[-length:]


def _byte_ranges() -> st.SearchStrategy[ByteRange]:
    offsets = st.integers(0, 12)
    return st.one_of(
        st.tuples(offsets, st.integers(1, 12)).map(lambda pair: Between(pair[0], sum(pair))),
        offsets.map(FromOffset),
        st.integers(1, 12).map(Suffix),
    )


def _calls(store: BlockStore, namespace: Namespace) -> list[Callable[[], object]]:
    """Return a call of every kind."""
    address = namespace.address("x")
    upload_id = UploadId("0" * 32)
    return [
        lambda: store.check_address(address),
        lambda: store.put(address, [b""]),
        lambda: store.get(address),
        lambda: store.read(address),
        lambda: store.head(address),
        lambda: store.exists(address),
        lambda: store.delete(address),
        lambda: store.copy(address, address),
        lambda: list(store.list_objects(namespace)),
        lambda: store.create(address, b""),
        lambda: store.replace(address, b"", ETag("x")),
        lambda: store.create_upload(address),
        lambda: store.put_part(address, upload_id, 1, [b""], size=0),
        lambda: store.complete_upload(address, upload_id, []),
        lambda: store.abort_upload(address, upload_id),
        lambda: store.list_parts(address, upload_id),
        lambda: list(store.list_uploads(namespace)),
    ]
