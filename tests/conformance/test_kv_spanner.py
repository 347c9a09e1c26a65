"""Spanner, by Google's in-memory server for tests."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.more_databases import spanner_server, spanner_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


class TestSpannerStore(StoreConformance):
    bulk = 1_200  # the server goes through the whole table for each statement
    racers = 4
    share = 10

    @pytest.fixture
    def url(self) -> Iterator[str]:
        with spanner_server() as server:
            yield spanner_url(server.port)
