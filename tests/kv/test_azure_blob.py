"""What only the driver of Azure Blob Storage does: names in order, old tombstones, its URLs."""

from collections.abc import Iterator

import pytest
from azure.storage.blob import BlobServiceClient
from hypothesis import given
from hypothesis import strategies as st

from lakebed.kv import ForeignStore, InvalidArgument, open_store
from lakebed.kv.drivers.azure_blob import AzureBlobCells
from lakebed.kv.fenced import FencedStore
from lakebed.kv.objects import TOMBSTONE_SECONDS, decode, encode
from lakebed.testing.servers.databases import DatabaseServer, azurite_server, azurite_url
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT, AZURE_ACCOUNT_KEY
from tests.kit.lake import TurnableClock


@given(st.lists(st.binary(max_size=9)))
def test_names_are_in_the_order_of_what_they_stand_for(texts: list[bytes]) -> None:
    names = [encode(text) for text in texts]
    assert [decode(name) for name in sorted(names)] == sorted(texts)


@pytest.mark.parametrize(
    "url",
    [
        "azblob://",
        "azblob://account",
        "azblob://account/",
        "azblob://Account/lake",
        "azblob://account:secret@host/lake",
        "azblob://account/one/two",
        "azblob://account/two--dashes",
    ],
)
def test_a_url_names_an_account_and_a_container(url: str) -> None:
    with pytest.raises(InvalidArgument, match="does not name an account and a container") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


@pytest.fixture(scope="module")
def server(azure_key: None) -> Iterator[DatabaseServer]:
    with azurite_server() as server:
        yield server


@pytest.fixture
def service(server: DatabaseServer) -> Iterator[BlobServiceClient]:
    url = f"http://127.0.0.1:{server.port}/{AZURE_ACCOUNT}"
    with BlobServiceClient(url, AZURE_ACCOUNT_KEY) as client:
        yield client


@pytest.mark.slow
def test_old_tombstones_go_when_their_partition_is_listed(
    server: DatabaseServer, service: BlobServiceClient
) -> None:
    clock = TurnableClock()
    container = service.get_container_client("tombstones")
    cells = AzureBlobCells(azurite_url(server.port, "tombstones"), clock)
    with FencedStore(cells, clock) as store:
        version = store.set(b"p", b"deleted", b"value")
        store.delete(b"p", b"deleted", version)
        store.set(b"p", b"there", b"value")
        assert [item.key for item in store.scan(b"p")] == [b"there"]
        assert len(list(container.list_blobs())) == 2
        clock.ahead_seconds = TOMBSTONE_SECONDS + 1
        store.set(b"p", b"deleted", b"again")
        store.delete(b"p", b"there")
        assert [item.key for item in store.scan(b"p")] == [b"deleted"]
        assert len(list(container.list_blobs())) == 2
        clock.ahead_seconds *= 2
        assert [item.key for item in store.scan(b"p")] == [b"deleted"]
        assert len(list(container.list_blobs())) == 1


@pytest.mark.slow
def test_a_container_of_others_is_refused(
    server: DatabaseServer, service: BlobServiceClient
) -> None:
    container = service.create_container("others")
    open_store(azurite_url(server.port, "others")).close()  # it is empty, so nobody's
    container.set_container_metadata({})
    container.upload_blob("notes", b"mine")
    with pytest.raises(ForeignStore, match="others is not empty, and not a Lakebed store"):
        open_store(azurite_url(server.port, "others"))
