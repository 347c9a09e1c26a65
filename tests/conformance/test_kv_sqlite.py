from pathlib import Path

import pytest

from lakebed.testing.conformance.kv import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/lakebed.db"
