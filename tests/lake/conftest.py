from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.lake import Lake, open_lake
from tests.kit.rounds import stores


@pytest.fixture(params=stores("memory", "disk"))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with open_lake(request.param, tmp_path) as opened:
        yield opened
