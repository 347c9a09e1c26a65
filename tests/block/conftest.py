"""A local storage in a temporary folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.block import BlockStore
from tests.block.local_storage import open_local


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[BlockStore]:
    with open_local(root) as store:
        yield store
