"""Parts of the cloud drivers that need no server."""

import errno
from collections.abc import Iterator
from typing import Any

import obstore
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
)
from obstore.store import MemoryStore

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import (
    LIST_SCHEMA,
    Address,
    AlreadyExists,
    Archived,
    Between,
    BlockError,
    ETag,
    Forbidden,
    InvalidAddress,
    InvalidArgument,
    InvalidPart,
    Namespace,
    ObjectNotFound,
    PreconditionFailed,
    RangeNotSatisfiable,
    S3Settings,
    StorageFull,
    StorageUnavailable,
    Suffix,
    UploadId,
)
from lakebed.block.address import StoreName
from lakebed.block.drivers.azure.blocks import AzureBlock, BlobUploads, BlockKind
from lakebed.block.drivers.cloud.errors import Answer, explain, refusal
from lakebed.block.drivers.cloud.streams import MeasuredChunks, delayed_by_one, in_sizes
from lakebed.block.drivers.gcs import _listed
from lakebed.block.drivers.s3.store import S3BlockStore

ADDRESS = Address.parse("s3://bucket/path")
MINE, OTHER = UploadId("11" * 16), UploadId("22" * 16)

blocks = st.builds(
    AzureBlock,
    upload_id=st.binary(min_size=16, max_size=16).map(lambda data: UploadId(data.hex())),
    kind=st.sampled_from(BlockKind),
    number=st.integers(0, 10_000),
    time_us=st.integers(0, 1 << 60),
    nonce=st.binary(min_size=8, max_size=8),
)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(0), StorageUnavailable),
        (Answer(400, "InvalidArgument"), InvalidArgument),
        (Answer(400, "ExpiredToken"), Forbidden),
        (Answer(400, "KeyTooLongError"), InvalidAddress),
        (Answer(400, "EntityTooSmall"), InvalidPart),
        (Answer(400, "IncompleteBody"), StorageUnavailable),
        (Answer(400, "RequestTimeout"), StorageUnavailable),
        (Answer(401), Forbidden),
        (Answer(403, "InvalidObjectState", "GLACIER"), Archived),
        (Answer(403, "SignatureDoesNotMatch"), Forbidden),
        (Answer(404), ObjectNotFound),
        (Answer(404, "NoSuchBucket"), InvalidAddress),
        (Answer(404, "ContainerNotFound"), InvalidAddress),
        (Answer(409, "BlobArchived"), Archived),
        (Answer(409, "BlobBeingRehydrated"), Archived),
        (Answer(409, "OperationAborted"), StorageUnavailable),
        (Answer(412, "LeaseIdMissing"), StorageUnavailable),
        (Answer(416), RangeNotSatisfiable),
        (Answer(429), StorageUnavailable),
        (Answer(500), StorageUnavailable),
        (Answer(503, "SlowDown"), StorageUnavailable),
        (Answer(507), StorageFull),
    ],
)
def test_errors_by_status(answer: Answer, error: type[BlockError]) -> None:
    meaning = refusal(answer, ADDRESS)
    assert type(meaning) is error
    assert ADDRESS.path in str(meaning)


def test_a_path_is_not_taken_for_an_answer() -> None:
    path = 'non-2xx status code: 403 <Code>NoSuchBucket</Code> code: "416'
    address = Address("s3://bucket", path)
    text = f"Object at location {path} not found"
    assert type(explain(FileNotFoundError(text), address)) is ObjectNotFound
    assert type(explain(GenericError(text), address)) is StorageUnavailable


def test_a_path_of_digits_takes_none_from_an_answer() -> None:
    error = GenericError("Error for path 4: Server returned non-2xx status code: 403")
    assert type(explain(error, Address("s3://bucket", "4"))) is Forbidden


@pytest.mark.parametrize(
    ("error", "meaning"),
    [(PreconditionError, PreconditionFailed), (AlreadyExistsError, AlreadyExists)],
)
def test_only_a_conditional_call_fails_by_its_condition(
    error: type[Exception], meaning: type[BlockError]
) -> None:
    assert type(explain(error("text"), ADDRESS, conditional=True)) is meaning
    assert type(explain(error("text"), ADDRESS)) is StorageUnavailable


def test_an_archived_object_is_no_failed_condition() -> None:
    error = AlreadyExistsError("non-2xx status code: 409 <Code>BlobArchived</Code>")
    assert type(explain(error, ADDRESS, conditional=True)) is Archived


class Careless(S3BlockStore):
    """A storage whose server ignores conditions."""

    def _connect(self, store: StoreName, retries: object) -> Any:
        return MemoryStore()

    def _if_match(self, etag: ETag) -> Any:
        return {}


def test_other_content_is_not_read_though_the_server_gives_it() -> None:
    settings = S3Settings(access_key_id="id", secret_access_key="secret")
    with Careless(settings, ThreadRuntime()) as store:
        first = store.put(ADDRESS, [b"first"]).etag
        with store.get(ADDRESS, etag=first) as stream:
            assert b"".join(stream) == b"first"
        store.put(ADDRESS, [b"other"])
        for byte_range in (None, Between(1, 3), Suffix(2)):
            with pytest.raises(PreconditionFailed, match=str(ADDRESS)):
                store.get(ADDRESS, byte_range=byte_range, etag=first)


@given(chunks=st.lists(st.binary(max_size=7)), size=st.integers(1, 5))
def test_pieces_of_a_size(chunks: list[bytes], size: int) -> None:
    pieces = list(in_sizes(chunks, size))
    assert b"".join(pieces) == b"".join(chunks)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(0 < len(piece) <= size for piece in pieces)


def test_messages_hold_nothing_of_the_answer_but_its_code() -> None:
    text = "https://h/?sig=hush status: <Error><Code>AccessDenied</Code><Key>hush</Key></Error>"
    assert "hush" not in str(explain(PermissionDeniedError(text), ADDRESS))
    assert "AccessDenied" in str(explain(PermissionDeniedError(text), ADDRESS))


@given(chunks=st.lists(st.binary(max_size=3)))
def test_chunks_held_back_are_all_there(chunks: list[bytes]) -> None:
    assert list(delayed_by_one(chunks)) == chunks


def test_no_chunk_goes_before_the_next_one_came() -> None:
    def breaking() -> Iterator[bytes]:
        yield b"whole"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        next(iter(delayed_by_one(breaking())))


@given(chunks=st.lists(st.binary(max_size=5)), size=st.integers(0, 20))
def test_what_is_taken_comes_first(chunks: list[bytes], size: int) -> None:
    source = MeasuredChunks(chunks, size_max=1000)
    first, is_all = source.take(size)
    assert is_all == (sum(map(len, chunks)) <= size)
    assert b"".join(source.after(first)) == b"".join(chunks)
    assert source.size == sum(map(len, chunks))


def test_a_stream_may_be_too_long() -> None:
    source = MeasuredChunks([b"12", b"34"], size_max=3)
    with pytest.raises(InvalidArgument, match="more than 3 bytes"), source.reraising():
        list(source)


@pytest.mark.parametrize("swallowed", [False, True])
def test_no_library_sees_what_the_caller_raised(*, swallowed: bool) -> None:
    def broken() -> Iterator[bytes]:
        yield b"12"
        raise BrokenPipeError(errno.EPIPE, "the caller's own")

    def library() -> None:
        try:
            list(source)
        except OSError:
            pytest.fail("the library would take it for its own")
        except Exception:
            if not swallowed:
                raise

    source = MeasuredChunks(broken(), size_max=1000)
    with pytest.raises(BrokenPipeError, match="the caller's own"), source.reraising():
        library()


@given(blocks)
def test_the_name_of_a_block_tells_all(block: AzureBlock) -> None:
    assert AzureBlock.parse(block.name) == block
    assert len(block.name) <= 64


@given(st.text(max_size=80))
def test_blocks_of_others_are_left_alone(name: str) -> None:
    block = AzureBlock.parse(name)
    assert block is None or block.name == name


def test_the_newest_of_a_part_comes_last() -> None:
    def name(upload_id: UploadId, kind: BlockKind, number: int, time_us: int) -> str:
        return AzureBlock(upload_id, kind, number, time_us, bytes([time_us] * 8)).name

    stored = [
        (name(MINE, BlockKind.BEGUN, 0, 1), 1),
        (name(OTHER, BlockKind.BEGUN, 0, 2), 1),
        (name(MINE, BlockKind.PART, 7, 9), 90),
        (name(MINE, BlockKind.PART, 7, 8), 80),
        (name(MINE, BlockKind.EMPTY_PART, 3, 5), 1),
        (name(OTHER, BlockKind.PART, 1, 6), 60),
        ("MDAwMDAwMDAwMDAwMDAwMDAwMDA=", 5),
    ]
    parts = [info for _, info in BlobUploads(stored).parts(MINE)]
    assert [(part.number, part.size, part.etag) for part in parts] == [
        (3, 0, "05" * 8),
        (7, 80, "08" * 8),
        (7, 90, "09" * 8),
    ]
    assert set(BlobUploads(stored).begun) == {MINE, OTHER}
    aborted = (name(MINE, BlockKind.ABORTED, 0, 10), 1)
    assert set(BlobUploads([*stored, aborted]).begun) == {OTHER}


def test_listings_of_google_have_the_form_of_all() -> None:
    store = MemoryStore()
    obstore.put(store, "folder/é", b"12345")
    (batch,) = obstore.list(store, return_arrow=True)
    listed = _listed(Namespace.parse("gs://bucket"), pa.record_batch(batch))
    assert listed.schema == LIST_SCHEMA
    assert listed.column("address").to_pylist() == ["gs://bucket/folder/é"]
    assert listed.column("size").to_pylist() == [5]
