"""MongoDB, by a server of others that speaks its protocol."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.more_databases import mongodb_server, mongodb_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with mongodb_server() as server:
        yield mongodb_url(server.port)


class TestMongoDBStore(StoreConformance):
    bulk = 1_200

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        # A database for each test: this server goes through all documents for each page.
        return f"{shared_url}-{uuid4().hex}"
