from pathlib import Path

import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestSqliteStore(StoreConformance):
    over_a_network = False

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/lakebed.db"
