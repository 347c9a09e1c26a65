"""Google Cloud Storage, by a server of others."""

from collections.abc import Iterator

import pytest

from lakebed.kv import Store, open_store
from lakebed.kv.store import Limits
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.more_databases import gcs_server, gcs_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with gcs_server(durable=False) as server:
        yield gcs_url(server.port)


@pytest.fixture(scope="module")
def shared_store(shared_url: str) -> Iterator[Store]:
    with open_store(shared_url) as store:
        yield store


class TestGCSStore(StoreConformance):
    bulk = 100  # the server takes its time for each
    racers = 4
    share = 10
    least = Limits(partition_bytes=255, key_bytes=510, value_bytes=1 << 20)

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url

    @pytest.fixture
    def store(self, shared_store: Store) -> Store:
        return shared_store
