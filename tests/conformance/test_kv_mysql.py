"""MySQL, by a real MariaDB."""

from collections.abc import Iterator

import pytest

from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    with mariadb_server() as server:
        yield mariadb_url(server.port)


class TestMySQLStore(StoreConformance):
    @pytest.fixture
    def url(self, shared_url: str) -> str:
        return shared_url
