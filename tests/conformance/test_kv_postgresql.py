import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestPostgreSQLStore(StoreConformance):
    @pytest.fixture
    def url(self, postgresql_shared_url: str) -> str:
        return postgresql_shared_url
