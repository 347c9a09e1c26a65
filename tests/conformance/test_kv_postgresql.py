import pytest

from lakebed.testing.kv import StoreConformance


class TestPostgreSQLStore(StoreConformance):
    @pytest.fixture
    def url(self, postgresql_url: str) -> str:
        return postgresql_url
