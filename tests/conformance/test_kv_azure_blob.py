"""Azure Blob Storage, by Azurite."""

from collections.abc import Iterator

import pytest

from lakebed.kv.store import Limits
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.databases import azurite_server, azurite_url

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with azurite_server() as server:
        yield azurite_url(server.port)


@pytest.mark.usefixtures("azure_key")
class TestAzureBlobStore(StoreConformance):
    bulk = 300
    least = Limits(partition_bytes=255, key_bytes=510, value_bytes=1 << 20)

    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
