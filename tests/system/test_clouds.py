"""What the drivers for clouds do beyond the conformance suite."""

import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import boto3
import pytest
from azure.storage.blob import BlobServiceClient

from lakebed.block import (
    Address,
    AzureSettings,
    BlockSettings,
    BlockStore,
    Forbidden,
    GCSSettings,
    InvalidAddress,
    InvalidArgument,
    Namespace,
    NotSupported,
    S3Settings,
    StorageUnavailable,
    UploadId,
    open_block,
)
from lakebed.block.drivers.azure import store as azure_store
from lakebed.block.streams import Meter
from lakebed.testing.conformance.block_listing import addresses_of
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT, free_ports
from tests.kit.object_stores import BUCKET, OTHER_BUCKET
from tests.kit.rounds import rounds
from tests.kit.unruly_proxy import unruly_proxy

pytestmark = pytest.mark.extended

MIB = 1 << 20
AZURE = f"https://{AZURE_ACCOUNT}.blob.core.windows.net"
WRONG_SECRET = "d3JvbmctYnV0LXdlbGwtZm9ybWVk"


@pytest.fixture(params=["s3", "azure"])
def cloud(request: pytest.FixtureRequest) -> tuple[BlockSettings, str]:
    """The settings of a cloud, and what its buckets' names follow."""
    if request.param == "s3":
        return request.getfixturevalue("seaweedfs_settings"), "s3://"
    return request.getfixturevalue("azure_settings"), f"{AZURE}/"


@pytest.fixture
def settings(cloud: tuple[BlockSettings, str]) -> BlockSettings:
    return cloud[0]


@pytest.fixture
def store(settings: BlockSettings) -> Iterator[BlockStore]:
    with open_block(settings) as store:
        yield store


@pytest.fixture
def namespace(cloud: tuple[BlockSettings, str]) -> Namespace:
    return Namespace.parse(f"{cloud[1]}{BUCKET}/{uuid4().hex}")


@pytest.fixture
def other_namespace(cloud: tuple[BlockSettings, str]) -> Namespace:
    return Namespace.parse(f"{cloud[1]}{OTHER_BUCKET}/{uuid4().hex}")


@pytest.fixture
def missing_namespace(cloud: tuple[BlockSettings, str]) -> Namespace:
    return Namespace.parse(f"{cloud[1]}no-such-bucket/{uuid4().hex}")


def calls(store: BlockStore, namespace: Namespace) -> dict[str, Callable[[], object]]:
    """Return calls that reach the storage by every way that a driver has."""
    address = namespace.address("object")
    return {
        "put": lambda: store.put(address, [b"data"]),
        "get": lambda: store.get(address),
        "delete": lambda: store.delete(address),
        "create": lambda: store.create(address, b"data"),
        "list": lambda: list(store.list_objects(namespace)),
        "create_upload": lambda: store.create_upload(address),
        "list_uploads": lambda: list(store.list_uploads(namespace)),
    }


def test_wrong_credentials_are_forbidden_and_not_told(
    settings: BlockSettings, namespace: Namespace
) -> None:
    if isinstance(settings, S3Settings):
        settings = replace(settings, secret_access_key=WRONG_SECRET)
    if isinstance(settings, AzureSettings):
        settings = replace(settings, account_key=WRONG_SECRET)
    with open_block(settings) as store:
        for call in calls(store, namespace).values():
            with pytest.raises(Forbidden, match=BUCKET) as caught:
                call()
            assert isinstance(caught.value, PermissionError)
            assert WRONG_SECRET not in "".join(traceback.format_exception(caught.value))
        assert WRONG_SECRET not in repr(settings) + repr(store) + repr(vars(store))


def test_a_missing_bucket_is_named(store: BlockStore, missing_namespace: Namespace) -> None:
    for call in calls(store, missing_namespace).values():
        with pytest.raises(InvalidAddress, match=r"no bucket or container .*no-such-bucket"):
            call()


def test_a_storage_that_is_not_there_is_unavailable(
    settings: BlockSettings, namespace: Namespace
) -> None:
    (port,) = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    if isinstance(settings, S3Settings):
        settings = replace(settings, endpoint=endpoint)
    if isinstance(settings, AzureSettings):
        settings = replace(settings, endpoint=f"{endpoint}/{AZURE_ACCOUNT}")
    with open_block(settings) as store:
        with pytest.raises(StorageUnavailable, match=BUCKET):
            store.create(namespace.address("object"), b"data")
        with pytest.raises(StorageUnavailable, match=BUCKET):
            store.get(namespace.address("object"))


def test_one_store_serves_all_buckets(
    store: BlockStore, namespace: Namespace, other_namespace: Namespace
) -> None:
    here, there = namespace.address("object"), other_namespace.address("object")
    store.put(here, [b"here"])
    store.put(there, [b"there"])
    assert store.read(here) == b"here"
    store.copy(here, there)
    assert store.read(there) == b"here"
    assert all(result.error is None for result in store.delete_many([here, there]))


def test_a_copy_onto_itself_renews_the_time(store: BlockStore, namespace: Namespace) -> None:
    address = namespace.address("object")
    store.put(address, [b"data"])
    before = store.head(address).mtime
    give_up_at = time.monotonic() + 60
    while store.head(address).mtime == before:  # the clouds tell the time in seconds
        assert time.monotonic() < give_up_at
        store.copy(address, address)
    assert store.head(address).mtime > before
    assert store.read(address) == b"data"


@pytest.mark.parametrize("path", ["a/./b", "../b", "a\nb", "\x7f", "x" * 1025])
def test_what_would_arrive_as_another_path_is_refused_by_name(
    store: BlockStore, namespace: Namespace, path: str
) -> None:
    address = Address(namespace.store, path)
    for call in (
        lambda: store.put(address, [b""]),
        lambda: store.get(address),
        lambda: store.delete(address),
        lambda: store.create_upload(address),
        lambda: store.presign_get(address, expires_seconds=60),
    ):
        with pytest.raises(InvalidAddress) as caught:
            call()
        assert repr(path) in str(caught.value)


def test_presigned_requests_live_at_most_a_week(store: BlockStore, namespace: Namespace) -> None:
    for presign in (store.presign_get, store.presign_put):
        for seconds in (-1, 0, 7 * 24 * 3600 + 1):
            with pytest.raises(InvalidArgument, match="seconds"):
                presign(namespace.address("object"), expires_seconds=seconds)


def test_a_part_without_bytes(store: BlockStore, namespace: Namespace) -> None:
    address = namespace.address("object")
    upload_id = store.create_upload(address)
    part = store.put_part(address, upload_id, 1, [], size=0)
    assert [info.size for info in store.list_parts(address, upload_id)] == [0]
    assert store.complete_upload(address, upload_id, [part]).size == 0
    assert store.read(address) == b""


def test_a_part_that_is_too_long_is_not_stored(store: BlockStore, namespace: Namespace) -> None:
    address = namespace.address("object")
    upload_id = store.create_upload(address)
    with pytest.raises(InvalidArgument):
        store.put_part(address, upload_id, 1, [b"data", b"more"], size=4)
    assert store.list_parts(address, upload_id) == []
    store.abort_upload(address, upload_id)


def test_foreign_keys_are_listed_as_they_are(moto_settings: S3Settings) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=moto_settings.endpoint,
        region_name=moto_settings.region,
        aws_access_key_id=moto_settings.access_key_id,
        aws_secret_access_key=moto_settings.secret_access_key,
    )
    namespace = Namespace.parse(f"s3://{BUCKET}/{uuid4().hex}")
    paths = ["/b", "a b+c%20", "a//b", "a/t", "a/t/", "a\x01b", "x<&>"]
    for path in ["", *paths]:
        client.put_object(Bucket=BUCKET, Key=namespace.prefix + path, Body=b"")
    client.close()
    with open_block(moto_settings) as store:
        expected = sorted(str(namespace.address(path)) for path in paths)
        assert addresses_of(store.list_objects(namespace)) == expected


def test_a_presigned_put_of_azure_does_not_replace(azure_settings: AzureSettings) -> None:
    address = Address.parse(f"{AZURE}/{BUCKET}/{uuid4().hex}")
    with open_block(azure_settings) as store:
        assert store.presigned_put_creates_only
        url = store.presign_put(address, expires_seconds=60)
        headers = {"x-ms-blob-type": "BlockBlob"}
        urlopen(Request(url, b"first", headers, method="PUT")).close()
        with pytest.raises(HTTPError) as caught:
            urlopen(Request(url, b"second", headers, method="PUT"))
        with closing(caught.value):
            assert caught.value.code == 403
        assert store.read(address) == b"first"


@pytest.fixture
def azure(azure_settings: AzureSettings) -> Iterator[BlockStore]:
    with open_block(azure_settings) as store:
        yield store


@pytest.fixture
def azure_address() -> Address:
    return Address.parse(f"{AZURE}/{BUCKET}/{uuid4().hex}")


@pytest.fixture
def azure_sdk(azure_settings: AzureSettings) -> Iterator[BlobServiceClient]:
    assert azure_settings.endpoint is not None
    with BlobServiceClient(azure_settings.endpoint, azure_settings.account_key) as client:
        yield client


def test_of_two_long_puts_that_race_on_azure_one_may_be_tried_again(
    azure: BlockStore, azure_address: Address
) -> None:
    def interrupted() -> Iterator[bytes]:
        for number in range(40):
            if number == 39:  # when some of what came before was sent
                azure.put(azure_address, [b"y" * MIB] * 20)
            yield b"x" * MIB

    with pytest.raises(StorageUnavailable, match="written concurrently"):
        azure.put(azure_address, interrupted())
    assert azure.read(azure_address) == b"y" * 20 * MIB


@pytest.mark.parametrize(
    ("size_mib", "limit_mib"), rounds([(1, 256), (9, 4)], long=[(1, 256), (9, 4), (300, 256)])
)
def test_a_copy_on_azure_is_there_whole(
    azure: BlockStore,
    azure_address: Address,
    size_mib: int,
    limit_mib: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Up to the limit by one request, above in blocks.
    monkeypatch.setattr(azure_store, "_COPY_BYTES_MAX", limit_mib * MIB)
    copy = Address(azure_address.store, azure_address.path + "-copy")
    azure.put(azure_address, (bytes([number % 256]) * MIB for number in range(size_mib)))
    azure.put(copy, [b"old"])
    azure.copy(azure_address, copy)
    with azure.get(azure_address) as expected, azure.get(copy) as copied:
        assert _md5(copied) == _md5(expected)


def test_a_copy_on_azure_of_what_is_replaced_meanwhile_leaves_the_old_one(
    azure_settings: AzureSettings, azure: BlockStore, azure_address: Address
) -> None:
    copy = Address(azure_address.store, azure_address.path + "-copy")
    azure.put(copy, [b"old"])
    azure.put(azure_address, [b"first"])
    assert azure_settings.endpoint is not None
    with unruly_proxy(azure_settings.endpoint) as proxy:
        endpoint = f"{proxy.endpoint}/{AZURE_ACCOUNT}"
        with open_block(replace(azure_settings, endpoint=endpoint)) as store:
            proxy.after("HEAD", lambda: azure.put(azure_address, [b"second"]))
            with pytest.raises(StorageUnavailable):
                store.copy(azure_address, copy)
    assert azure.read(copy) == b"old"


def test_a_blob_of_azure_with_snapshots_is_deleted(
    azure: BlockStore, azure_address: Address, azure_sdk: BlobServiceClient
) -> None:
    azure.put(azure_address, [b"data"])
    azure_sdk.get_blob_client(BUCKET, azure_address.path).create_snapshot()
    azure.delete(azure_address)
    assert not azure.exists(azure_address)


def _md5(chunks: Iterable[bytes]) -> str:
    meter = Meter()
    for _ in meter.through(chunks):
        pass
    return meter.md5


@pytest.mark.parametrize(
    "address",
    [
        "https://another.blob.core.windows.net/lake/x",
        "https://devstoreaccount1.blob.core.chinacloudapi.cn/lake/x",
        f"{AZURE}/lake/a\\b",
        f"{AZURE}/lake/a./b",
    ],
)
def test_what_azure_would_take_for_another_address_is_refused(
    azure_settings: AzureSettings, address: str
) -> None:
    with open_block(azure_settings) as store, pytest.raises(InvalidAddress):
        store.exists(Address.parse(address))


def test_half_an_access_key_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="needs both an id and a secret"):
        open_block(S3Settings(access_key_id="id"))


@pytest.mark.parametrize(
    "endpoint", ["", "127.0.0.1:9000", "ftp://127.0.0.1", "http://", "http://a b"]
)
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    for settings in (
        S3Settings(endpoint=endpoint, access_key_id="id", secret_access_key="secret"),
        AzureSettings(AZURE_ACCOUNT, WRONG_SECRET, endpoint),
    ):
        with pytest.raises(InvalidArgument, match="endpoint"):
            open_block(settings)


def test_a_malformed_key_of_azure_is_refused_and_not_told() -> None:
    key = "malformed" + "!"  # a traceback quotes the code
    with pytest.raises(InvalidArgument, match="account key") as caught:
        open_block(AzureSettings(AZURE_ACCOUNT, key))
    assert key not in "".join(traceback.format_exception(caught.value))


def test_a_missing_key_file_of_google_is_refused(tmp_path: Path) -> None:
    with open_block(GCSSettings(tmp_path / "none")) as store:
        for call in (
            lambda: store.exists(Address.parse("gs://bucket/object")),
            lambda: list(store.list_objects(Namespace.parse("gs://bucket"))),
        ):
            with pytest.raises(InvalidArgument, match="gs://bucket"):
                call()


def test_a_profile_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nope")
    with pytest.raises(InvalidArgument, match="nope"):
        open_block(S3Settings())


def test_google_has_no_uploads() -> None:
    address = Address.parse("gs://bucket/object")
    with open_block(GCSSettings()) as store:
        assert not store.supports_uploads
        for call in (
            lambda: store.create_upload(address),
            lambda: store.list_parts(address, UploadId("id")),
        ):
            with pytest.raises(NotSupported):
                call()
        with pytest.raises(InvalidAddress):
            store.exists(Address.parse("s3://bucket/object"))
