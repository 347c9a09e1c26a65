import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestPostgreSQLStore(StoreConformance):
    over_a_network = None

    @pytest.fixture
    def url(self, postgresql_shared_url: str) -> str:
        return postgresql_shared_url
