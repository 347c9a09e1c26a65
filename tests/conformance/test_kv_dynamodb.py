"""DynamoDB, by Amazon's own local server, and a little of it by moto."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from lakebed.kv import Store, fenced, open_store
from lakebed.kv.store import Limits
from lakebed.testing.conformance.kv import SequentialConformance, StoreConformance
from lakebed.testing.servers.databases import dynamodb_server, dynamodb_url
from lakebed.testing.servers.object_stores import moto

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
    racers = 8  # each that fails costs a request, and of 16 nearly all do
    least = Limits(partition_bytes=2_048, key_bytes=1_024, value_bytes=400_000)

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url

    @pytest.fixture
    def store(self, shared_store: Store) -> Store:
        return shared_store


@pytest.fixture(scope="module")
def moto_url(aws_credentials: None) -> Iterator[str]:
    with moto() as server:
        yield dynamodb_url(urlsplit(server.endpoint).port or 0)


@pytest.fixture(scope="module")
def moto_store(moto_url: str) -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as patched, open_store(moto_url) as store:
        # Of two requests at the same time, moto may forget one.
        patched.setattr(fenced, "BULK_PARALLEL", 1)
        yield store


class TestDynamoDBStoreOnMoto(SequentialConformance):
    """Another reading of the same protocol. It compares and writes in two steps: no races here."""

    bulk = 40
    least = TestDynamoDBStore.least

    @pytest.fixture
    def store(self, moto_store: Store) -> Store:
        return moto_store

    @pytest.fixture
    def url(self, moto_url: str) -> str:
        return moto_url
