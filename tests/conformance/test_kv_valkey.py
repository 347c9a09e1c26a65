"""Valkey, by a real server and a real cluster, with the settings that they need."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import valkey_cluster, valkey_server, valkey_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with valkey_server() as server:
        yield valkey_url(server.port)


class TestValkeyStore(StoreConformance):
    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url


@pytest.fixture(scope="module")
def cluster_url() -> Iterator[str]:
    with valkey_cluster() as servers:
        yield valkey_url(servers[0].port)


@pytest.mark.extended
class TestValkeyCluster(StoreConformance):
    @pytest.fixture
    def url(self, cluster_url: str) -> str:
        return cluster_url
