"""Bigtable, by Google's emulator."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.more_databases import bigtable_server, bigtable_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with bigtable_server() as server:
        yield bigtable_url(server.port)


class TestBigtableStore(StoreConformance):
    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
