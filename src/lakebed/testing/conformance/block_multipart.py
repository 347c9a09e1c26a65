"""Conformance suite of block storage: multipart uploads."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from lakebed.block import (
    PART_NUMBER_MAX,
    BlockSettings,
    BlockStore,
    ETag,
    InvalidArgument,
    InvalidPart,
    Namespace,
    NotSupported,
    Part,
    UploadId,
    UploadNotFound,
    open_block,
)


class PartBrokenOffError(ConnectionResetError):
    """Error of the caller's stream, with the error number of a lost connection."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNRESET, "the caller's own connection is lost")


def _long_stream() -> Iterator[bytes]:
    """Yield more than a driver sends in one request."""
    for _ in range(20):
        yield b"x" * (1 << 20)


class MultipartConformance:
    """Multipart uploads. Applied by `lakebed.testing.conformance.block.BlockConformance`."""

    def test_parts_are_joined_by_number(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/object")
        store.put(address, [b"old"])
        upload_id = store.create_upload(address)
        contents = {number: _content(store) for number in (7, 1, 3)}
        parts = {
            number: store.put_part(
                address, upload_id, number, [data[:100], data[100:]], size=len(data)
            )
            for number, data in contents.items()
        }
        assert store.read(address) == b"old"
        info = store.complete_upload(address, upload_id, [parts[1], parts[3], parts[7]])
        data = contents[1] + contents[3] + contents[7]
        assert store.read(address) == data
        assert info == store.head(address)
        assert info.size == len(data)
        assert list(store.list_uploads(namespace)) == []
        with pytest.raises(UploadNotFound):
            store.complete_upload(address, upload_id, [parts[1]])

    def test_a_part_is_replaced_and_one_is_dropped(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        first, second, last = (_content(store) for _ in range(3))
        old = store.put_part(address, upload_id, 1, [first], size=len(first))
        new = store.put_part(address, upload_id, 1, [second], size=len(second))
        store.put_part(address, upload_id, 2, [first], size=len(first))
        end = store.put_part(address, upload_id, 3, [last], size=len(last))
        assert old.etag != new.etag
        with pytest.raises(InvalidPart):
            store.complete_upload(address, upload_id, [old, end])
        store.complete_upload(address, upload_id, [new, end])
        assert store.read(address) == second + last

    def test_an_object_of_one_small_part(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, PART_NUMBER_MAX, [b"x"], size=1)
        assert part.md5 == hashlib.md5(b"x").hexdigest()
        assert store.complete_upload(address, upload_id, [part]).size == 1
        assert store.read(address) == b"x"

    def test_parts_are_listed(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        assert store.list_parts(address, upload_id) == []
        numbers = [12, 2, 9]
        parts = [
            store.put_part(address, upload_id, number, [b"x" * number], size=number)
            for number in numbers
        ]
        listed = store.list_parts(address, upload_id)
        assert [(info.number, info.size) for info in listed] == [(2, 2), (9, 9), (12, 12)]
        assert {(info.number, info.etag) for info in listed} == {
            (part.number, part.etag) for part in parts
        }
        assert all(_is_recent(info.mtime) for info in listed)
        store.abort_upload(address, upload_id)

    def test_uploads_are_listed(self, store: BlockStore, namespace: Namespace) -> None:
        folder = namespace.folder("dev")
        addresses = [folder.address("b"), folder.address("a/x"), folder.address("b")]
        begun = [(address, store.create_upload(address)) for address in addresses]
        store.create_upload(namespace.address("dev-2/a"))
        listed = list(store.list_uploads(folder))
        assert [(upload.address, upload.upload_id) for upload in listed] == sorted(begun)
        assert all(_is_recent(upload.created) for upload in listed)
        for address, upload_id in begun:
            store.abort_upload(address, upload_id)
        assert list(store.list_uploads(folder)) == []

    def test_an_aborted_upload_does_not_exist(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("folder/object")
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        store.abort_upload(address, upload_id)
        store.abort_upload(address, upload_id)
        assert not store.exists(address)
        _refuses(store, namespace, upload_id, part)

    @pytest.mark.parametrize("upload_id", ["", "..", "0" * 32, "../uploads", "a/b"])
    def test_an_unknown_upload_is_refused(
        self, store: BlockStore, namespace: Namespace, upload_id: str
    ) -> None:
        unknown = UploadId(upload_id)
        store.abort_upload(namespace.address("folder/object"), unknown)
        _refuses(store, namespace, unknown, Part(1, ETag("0" * 32)))

    def test_an_upload_belongs_to_its_address(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("other")
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        _refuses(store, namespace, upload_id, part)
        store.abort_upload(namespace.address("folder/object"), upload_id)
        store.complete_upload(address, upload_id, [part])
        assert store.read(address) == b"data"

    def test_missing_parts_are_refused(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        data = _content(store)
        one = store.put_part(address, upload_id, 1, [data], size=len(data))
        two = store.put_part(address, upload_id, 2, [data], size=len(data))
        wrong = Part(2, ETag("0" * 32))
        for parts in ([], [two, one], [one, one], [one, wrong], [one, two, Part(3, two.etag)]):
            with pytest.raises(InvalidPart):
                store.complete_upload(address, upload_id, parts)
        assert not store.exists(address)
        store.complete_upload(address, upload_id, [one, two])
        assert store.read(address) == data + data

    def test_an_interrupted_part_keeps_the_old_part(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        def broken() -> Iterator[bytes]:
            yield b"n"
            yield b"ew"
            raise PartBrokenOffError

        address = namespace.address("object")
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"old"], size=3)
        for number in (1, 2):
            with pytest.raises(PartBrokenOffError):
                store.put_part(address, upload_id, number, broken(), size=6)
        listed = store.list_parts(address, upload_id)
        assert [(info.number, info.etag) for info in listed] == [(1, part.etag)]
        store.complete_upload(address, upload_id, [part])
        assert store.read(address) == b"old"

    def test_a_long_put_where_parts_of_uploads_lie(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        for upload_id in (store.create_upload(address), store.create_upload(address)):
            store.put_part(address, upload_id, 1, [b"part"], size=4)
        store.abort_upload(address, upload_id)
        assert store.put(address, _long_stream()).size == 20 << 20
        assert store.head(address).size == 20 << 20

    def test_an_upload_after_an_interrupted_long_put(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        def broken() -> Iterator[bytes]:
            yield from _long_stream()
            raise PartBrokenOffError

        address = namespace.address("object")
        with pytest.raises(PartBrokenOffError):
            store.put(address, broken())
        assert not store.exists(address)
        upload_id = store.create_upload(address)
        part = store.put_part(address, upload_id, 1, [b"data"], size=4)
        assert [info.etag for info in store.list_parts(address, upload_id)] == [part.etag]
        store.complete_upload(address, upload_id, [part])
        assert store.read(address) == b"data"

    @pytest.mark.parametrize("size", [0, 3, 5])
    def test_a_part_of_another_size_is_refused(
        self, store: BlockStore, namespace: Namespace, size: int
    ) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        with pytest.raises(InvalidArgument):
            store.put_part(address, upload_id, 1, [b"da", b"ta"], size=size)
        assert store.list_parts(address, upload_id) == []
        store.abort_upload(address, upload_id)

    @pytest.mark.parametrize("number", [-1, 0, PART_NUMBER_MAX + 1])
    def test_a_part_has_a_number_within_bounds(
        self, store: BlockStore, namespace: Namespace, number: int
    ) -> None:
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        with pytest.raises(InvalidArgument):
            store.put_part(address, upload_id, number, [b"x"], size=1)
        store.abort_upload(address, upload_id)

    def test_parts_by_presigned_requests(self, store: BlockStore, namespace: Namespace) -> None:
        address = namespace.address("folder/an object é")
        upload_id = store.create_upload(address)
        if not store.supports_presign_part:
            with pytest.raises(NotSupported):
                store.presign_part(address, upload_id, 1, expires_seconds=60)
            store.abort_upload(address, upload_id)
            return
        url = store.presign_part(address, upload_id, 1, expires_seconds=60)
        first, last = _content(store), b"end"
        _send(url, b"replaced")
        parts = [Part(1, _send(url, first))]
        parts.append(
            Part(2, _send(store.presign_part(address, upload_id, 2, expires_seconds=60), last))
        )
        listed = {Part(info.number, info.etag) for info in store.list_parts(address, upload_id)}
        assert listed >= set(parts)
        store.complete_upload(address, upload_id, parts)
        assert store.read(address) == first + last
        with pytest.raises(HTTPError):
            _send(url, b"too late")
        assert store.read(address) == first + last
        _refuses_parts_of_an_aborted_upload(store, namespace)
        with pytest.raises(InvalidArgument):
            store.presign_part(address, upload_id, 0, expires_seconds=60)
        with pytest.raises(InvalidArgument):
            store.presign_part(address, upload_id, 1, expires_seconds=0)

    def test_a_presigned_request_is_for_one_part(
        self, store: BlockStore, namespace: Namespace
    ) -> None:
        if not store.supports_presign_part:
            return
        address = namespace.address("object")
        upload_id = store.create_upload(address)
        url = store.presign_part(address, upload_id, 1, expires_seconds=60)
        for changed in (
            url.replace("partNumber=1", "partNumber=2"),
            url.replace("/object?", "/objec?"),
        ):
            assert changed != url
            with pytest.raises(HTTPError):
                _send(changed, b"not signed for")
        assert store.list_parts(address, upload_id) == []
        store.abort_upload(address, upload_id)

    def test_an_upload_survives_closing_the_storage(
        self, settings: BlockSettings, store: BlockStore, namespace: Namespace
    ) -> None:
        address = namespace.address("object")
        with open_block(settings) as other:
            upload_id = other.create_upload(address)
            if not store.shared_between_processes:
                assert list(store.list_uploads(namespace)) == []
                return
            data = _content(other)
            other.put_part(address, upload_id, 1, [data], size=len(data))
        assert [upload.upload_id for upload in store.list_uploads(namespace)] == [upload_id]
        parts = [Part(info.number, info.etag) for info in store.list_parts(address, upload_id)]
        parts.append(store.put_part(address, upload_id, 2, [b"end"], size=3))
        store.complete_upload(address, upload_id, parts)
        assert store.read(address) == data + b"end"


def _send(url: str, data: bytes) -> ETag:
    """Send a part to a presigned URL; return its ETag."""
    headers = {"Content-Type": "application/octet-stream"}
    with closing(urlopen(Request(url, data, headers, method="PUT"))) as response:
        return ETag(response.headers["ETag"].strip('"'))


def _refuses_parts_of_an_aborted_upload(store: BlockStore, namespace: Namespace) -> None:
    address = namespace.address("aborted")
    upload_id = store.create_upload(address)
    url = store.presign_part(address, upload_id, 1, expires_seconds=60)
    _send(url, b"in time")
    store.abort_upload(address, upload_id)
    with pytest.raises(HTTPError):
        _send(url, b"too late")
    with pytest.raises(UploadNotFound):
        store.list_parts(address, upload_id)
    assert not store.exists(address)


def _content(store: BlockStore) -> bytes:
    """Return unique bytes, enough for a part that is not the last."""
    return os.urandom(max(200, store.part_bytes_min))


def _is_recent(moment: datetime) -> bool:
    return abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


def _refuses(store: BlockStore, namespace: Namespace, upload_id: UploadId, part: Part) -> None:
    """Check that no call finds the upload at an address."""
    address = namespace.address("folder/object")
    with pytest.raises(UploadNotFound):
        store.put_part(address, upload_id, 1, [b"data"], size=4)
    with pytest.raises(UploadNotFound):
        store.list_parts(address, upload_id)
    with pytest.raises(UploadNotFound):
        store.complete_upload(address, upload_id, [part])
