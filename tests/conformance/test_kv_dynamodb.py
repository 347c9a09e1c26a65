"""DynamoDB, by Amazon's own local server."""

from collections.abc import Iterator

import pytest

from lakebed.kv import Store, open_store
from lakebed.kv.store import Limits
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import dynamodb_server, dynamodb_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url(aws_credentials: None) -> Iterator[str]:
    with dynamodb_server(durable=False) as server:
        yield dynamodb_url(server.port)


@pytest.fixture(scope="module")
def shared_store(shared_url: str) -> Iterator[Store]:
    """One for all tests: to make its client takes longer than most of them."""
    with open_store(shared_url) as store:
        yield store


class TestDynamoDBStore(StoreConformance):
    bulk = 1_200
    least = Limits(partition_bytes=2_048, key_bytes=1_024, value_bytes=400_000)

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url

    @pytest.fixture
    def store(self, shared_store: Store) -> Store:
        return shared_store
