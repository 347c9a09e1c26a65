"""etcd, by a real server of one member."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import etcd_server, etcd_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with etcd_server(durable=False) as server:
        yield etcd_url(server.port)


class TestEtcdStore(StoreConformance):
    bulk = 4_000

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
