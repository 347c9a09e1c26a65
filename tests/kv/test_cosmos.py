"""What only the driver of Cosmos DB does: its URLs, and what an account and a container must be."""

from typing import Any

import pytest
from azure.cosmos import CosmosClient

from lakebed.kv import ForeignStore, InvalidArgument, UnsafeStore, open_store
from lakebed.kv.drivers.cosmos import TOMBSTONE_SECONDS, check_container
from lakebed.testing.servers.more_databases import cosmos_server, cosmos_url


@pytest.mark.parametrize(
    "url",
    [
        "cosmos://",
        "cosmos://account/database",
        "cosmos://account/database/container/more",
        "cosmos://user:secret@account/database/container",
        "cosmos://account/database/a b",
    ],
)
def test_a_url_names_an_account_a_database_and_a_container(url: str) -> None:
    with pytest.raises(InvalidArgument, match="does not name an account, a database") as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def container(path: str, ttl: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"id": "kv", "partitionKey": {"paths": [path]}}
    return found if ttl is None else found | {"defaultTtl": ttl}


def test_a_container_of_another_shape_is_refused() -> None:
    check_container(container("/p", -1))
    with pytest.raises(
        ForeignStore, match="kv is not a Lakebed store: its partition key is /customer"
    ):
        check_container(container("/customer", -1))


@pytest.mark.parametrize(("ttl", "shown"), [(3600, "3600"), (None, "off")])
def test_a_container_must_remove_what_is_deleted_and_nothing_else(
    ttl: int | None, shown: str
) -> None:
    with pytest.raises(UnsafeStore, match=f"time to live of the container kv is {shown}"):
        check_container(container("/p", ttl))


@pytest.mark.slow
@pytest.mark.fetched
@pytest.mark.usefixtures("cosmos_key")
def test_an_account_that_is_not_strongly_consistent_is_refused() -> None:
    refused = pytest.raises(UnsafeStore, match="is Session and must be Strong")
    with cosmos_server(consistency="Session") as server, refused:
        open_store(cosmos_url(server.port))


@pytest.mark.slow
@pytest.mark.fetched
@pytest.mark.usefixtures("cosmos_key")
def test_deleted_cells_have_a_time_to_live() -> None:
    with cosmos_server() as server:
        with open_store(cosmos_url(server.port)) as store:
            store.set(b"p", b"key", b"value")
            store.delete(b"p", b"key")
        client = CosmosClient(
            f"http://127.0.0.1:{server.port}", "a2V5", enable_endpoint_discovery=False
        )
        items = client.get_database_client("lakebed").get_container_client("kv").read_all_items()
        (tombstone,) = (item for item in items if item["p"] == b"p".hex())
        assert tombstone["ttl"] == TOMBSTONE_SECONDS
        assert "v" not in tombstone
