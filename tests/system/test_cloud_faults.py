"""Replies that are lost, broken off or made up: what S3 did is never told wrongly."""

import os
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from lakebed.block import (
    Address,
    AlreadyExists,
    BlockStore,
    Namespace,
    PreconditionFailed,
    S3Settings,
    StorageUnavailable,
    open_block,
)
from tests.kit.object_stores import BUCKET
from tests.kit.unruly_proxy import UnrulyProxy, unruly_proxy

pytestmark = pytest.mark.extended

MIB = 1 << 20


@pytest.fixture
def direct(seaweedfs_settings: S3Settings) -> Iterator[BlockStore]:
    with open_block(seaweedfs_settings) as store:
        yield store


@pytest.fixture
def proxy(seaweedfs_settings: S3Settings) -> Iterator[UnrulyProxy]:
    assert seaweedfs_settings.endpoint is not None
    with unruly_proxy(seaweedfs_settings.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(seaweedfs_settings: S3Settings, proxy: UnrulyProxy) -> Iterator[BlockStore]:
    with open_block(replace(seaweedfs_settings, endpoint=proxy.endpoint)) as store:
        yield store


@pytest.fixture
def address() -> Address:
    return Address(f"s3://{BUCKET}", f"faults/{uuid4().hex}")


def test_a_create_whose_reply_is_lost_is_not_sent_again(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    proxy.lose_reply("PUT")
    with pytest.raises(StorageUnavailable):
        store.create(address, b"mine")
    assert proxy.seen == ["PUT"]
    assert direct.read(address) == b"mine"
    with pytest.raises(AlreadyExists):
        store.create(address, b"again")


@pytest.mark.parametrize("status", [500, 503])
def test_a_create_that_failed_after_all_is_not_sent_again(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address, status: int
) -> None:
    proxy.answer("PUT", status, "SlowDown")
    with pytest.raises(StorageUnavailable, match=f"{status} SlowDown"):
        store.create(address, b"mine")
    assert proxy.seen == ["PUT"]
    assert direct.read(address) == b"mine"


def test_a_replace_whose_reply_is_lost_is_not_sent_again(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    etag = store.create(address, b"old")
    proxy.lose_reply("PUT")
    with pytest.raises(StorageUnavailable):
        store.replace(address, b"new", etag)
    assert proxy.seen == ["PUT", "PUT"]
    assert direct.read(address) == b"new"
    with pytest.raises(PreconditionFailed):
        store.replace(address, b"newer", etag)


def test_a_create_that_met_a_delete_does_not_say_that_there_is_an_object(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    proxy.answer("PUT", 409, "ConditionalRequestConflict", lambda: direct.delete(address))
    with pytest.raises(StorageUnavailable):
        store.create(address, b"mine")


def test_a_replace_that_met_another_write_may_be_tried_again(
    store: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    etag = store.create(address, b"old")
    proxy.answer("PUT", 409, "ConditionalRequestConflict")
    with pytest.raises(StorageUnavailable):
        store.replace(address, b"new", etag)


def test_a_plain_put_is_sent_again(store: BlockStore, proxy: UnrulyProxy, address: Address) -> None:
    proxy.answer("PUT", 503, "SlowDown")
    store.put(address, [b"data"])
    proxy.lose_reply("GET")
    assert store.read(address) == b"data"
    assert proxy.seen == ["PUT", "PUT", "GET", "GET"]


def test_a_completion_whose_reply_is_lost_is_not_sent_again(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [b"da", b"ta"], size=4)
    proxy.lose_reply("POST")
    with pytest.raises(StorageUnavailable):
        store.complete_upload(address, upload_id, [part])
    assert proxy.seen.count("POST") == 2
    assert direct.read(address) == b"data"


def test_a_long_put_whose_completion_loses_its_reply_does_not_say_that_nothing_is_there(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    proxy.after("POST", lambda: None)
    proxy.lose_reply("POST")
    proxy.answer("POST", 404, "NoSuchUpload")  # SeaweedFS would answer like the first time
    with pytest.raises(StorageUnavailable):
        store.put(address, [b"x" * MIB] * 20)
    assert proxy.seen.count("POST") == 3
    assert direct.head(address).size == 20 * MIB


def test_a_copy_in_parts_whose_completion_loses_its_reply_may_be_there(
    store: BlockStore,
    direct: BlockStore,
    proxy: UnrulyProxy,
    address: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lakebed.block.drivers.s3.store._COPY_BYTES_MAX", MIB)
    copy = Address(address.store, f"{address.path}-copy")
    direct.put(address, [b"x" * MIB] * 10)
    proxy.after("POST", lambda: None)
    proxy.lose_reply("POST")
    proxy.answer("POST", 404, "NoSuchUpload")
    with pytest.raises(StorageUnavailable):
        store.copy(address, copy)
    assert direct.head(copy).size == 10 * MIB


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchKey")])
def test_a_completed_upload_that_cannot_be_looked_at_may_be_there(
    store: BlockStore,
    direct: BlockStore,
    proxy: UnrulyProxy,
    address: Address,
    status: int,
    code: str,
) -> None:
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [b"data"], size=4)
    proxy.answer("HEAD", status, code)
    with pytest.raises(StorageUnavailable, match="was completed"):
        store.complete_upload(address, upload_id, [part])
    assert direct.read(address) == b"data"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "IncompleteBody"),
        (400, "RequestTimeout"),
        (409, "OperationAborted"),
        (412, "PreconditionFailed"),
    ],
)
def test_a_plain_put_that_was_refused_for_now_may_be_tried_again(
    store: BlockStore, proxy: UnrulyProxy, address: Address, status: int, code: str
) -> None:
    proxy.answer("PUT", status, code)
    with pytest.raises(StorageUnavailable, match=f"{status} {code}"):
        store.put(address, [b"data"])


def test_a_part_whose_reply_is_lost_is_not_sent_again(
    store: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    upload_id = store.create_upload(address)
    proxy.lose_reply("PUT")
    with pytest.raises(StorageUnavailable) as caught:
        store.put_part(address, upload_id, 1, [b"data"], size=4)
    assert proxy.seen.count("PUT") == 1
    # urllib3 quotes the URL, which is signed.
    assert caught.value.__cause__ is None
    store.abort_upload(address, upload_id)


def test_a_listing_is_asked_for_again(
    store: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    store.put(address, [b"data"])
    namespace = Namespace(address.store, "faults/")
    proxy.answer("GET", 503, "SlowDown")
    proxy.lose_reply("GET")
    listed = [
        text for batch in store.list_objects(namespace) for text in batch["address"].to_pylist()
    ]
    assert str(address) in listed


def test_reading_goes_on_where_it_broke_off(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    data = os.urandom(4 * MIB)
    direct.put(address, [data])
    proxy.break_off("GET", after=MIB, then=lambda: None)
    assert store.read(address) == data


def test_reading_does_not_go_on_with_another_content(
    store: BlockStore, direct: BlockStore, proxy: UnrulyProxy, address: Address
) -> None:
    for change in (
        lambda: direct.put(address, [os.urandom(4 * MIB)]),
        lambda: direct.delete(address),
    ):
        direct.put(address, [os.urandom(4 * MIB)])
        proxy.break_off("GET", after=MIB, then=change)
        with pytest.raises(StorageUnavailable, match="broke off"):
            store.read(address)


def test_a_stream_that_breaks_off_leaves_no_upload(store: BlockStore, address: Address) -> None:
    def broken() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * MIB
        raise FileNotFoundError("the caller's own")

    with pytest.raises(FileNotFoundError, match="the caller's own"):
        store.put(address, broken())
    assert not store.exists(address)
    assert [
        upload
        for upload in store.list_uploads(Namespace(address.store, "faults/"))
        if upload.address == address
    ] == []
