from pathlib import Path

import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestRocksDBStore(StoreConformance):
    over_a_network = False
    one_handle = True

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"rocksdb:///{tmp_path}/kv"
