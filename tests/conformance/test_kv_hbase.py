"""HBase, by a real one of one node, with its Thrift server."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.java_databases import hbase_server, hbase_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with hbase_server() as server:
        yield hbase_url(server.port)


class TestHBaseStore(StoreConformance):
    bulk = 1_200

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
