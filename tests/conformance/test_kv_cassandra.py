"""Cassandra, by a real one of one node."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.java_databases import cassandra_server, cassandra_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with cassandra_server() as server:
        yield cassandra_url(server.port)


class TestCassandraStore(StoreConformance):
    bulk = 1_200
    racers = 4
    share = 10

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
