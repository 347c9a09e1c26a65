"""Azure Blob Storage, by Azurite."""

from collections.abc import Iterator

import pytest

from lakebed.kv import Store, open_store
from lakebed.kv.store import Limits
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import azurite_server, azurite_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url(azure_key: None) -> Iterator[str]:
    with azurite_server() as server:
        yield azurite_url(server.port)


@pytest.fixture(scope="module")
def shared_store(shared_url: str) -> Iterator[Store]:
    """One for all tests: to make its client takes longer than most of them."""
    with open_store(shared_url) as store:
        yield store


class TestAzureBlobStore(StoreConformance):
    bulk = 100  # Azurite takes its time for each; what depends on more is shown with DynamoDB
    racers = 4
    share = 10
    least = Limits(partition_bytes=255, key_bytes=510, value_bytes=1 << 20)

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url

    @pytest.fixture
    def store(self, shared_store: Store) -> Store:
        return shared_store
