from pathlib import Path

import pytest

from lakebed.block import BlockSettings, LocalSettings
from lakebed.testing.conformance.block import BlockConformance


class TestLocalBlockStore(BlockConformance):
    @pytest.fixture
    def settings(self, tmp_path: Path) -> BlockSettings:
        return LocalSettings(tmp_path / "root")

    @pytest.fixture
    def place(self) -> str:
        return "local://data/somewhere"
