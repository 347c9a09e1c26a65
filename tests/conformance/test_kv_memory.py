import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def url(self) -> str:
        return "memory://"
