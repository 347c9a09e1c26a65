import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestMemoryStore(StoreConformance):
    over_a_network = False

    @pytest.fixture
    def url(self) -> str:
        return "memory://"


class TestNamespacedStore(StoreConformance):
    """The same in a namespace: nothing that a caller sees changes."""

    over_a_network = False

    @pytest.fixture
    def url(self) -> str:
        return "memory://?namespace=tenant-1"
