"""FoundationDB, by a model of its client: no server could be had."""

import pytest

from lakebed.kv import Store
from lakebed.kv.drivers import foundationdb
from lakebed.testing.conformance.kv import StoreConformance
from lakebed.testing.conformance.kv_concurrency import increment_with
from tests.kit.fdb_model import Client

pytestmark = pytest.mark.slow

CLIENT = Client()


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foundationdb, "fdb", CLIENT)


class TestFoundationDBStore(StoreConformance):
    bulk = 4_000
    racers = 4

    @pytest.fixture
    def url(self) -> str:
        return "foundationdb:///model"

    def test_a_counter_ends_exact(self, url: str, store: Store, partition: bytes) -> None:
        """In threads: another process has another model."""
        store.set(partition, b"counter", b"0")
        increment_with(store, partition, rounds=25, threads=self.racers)
        assert int(store.get(partition, b"counter").value) == 25 * self.racers
