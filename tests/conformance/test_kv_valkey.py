"""Valkey, by a real server, with the settings that it needs."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import valkey_server, valkey_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with valkey_server() as server:
        yield valkey_url(server.port)


class TestValkeyStore(StoreConformance):
    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
