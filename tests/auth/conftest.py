"""The stores that need no server, and a service on each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.auth import AuthService
from lakebed.kv import Store, open_store
from tests.auth.kit import service
from tests.kit.rounds import stores


@pytest.fixture(params=stores("memory", "sqlite"))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/lakebed.db"
    with open_store(url) as opened:
        yield opened


@pytest.fixture
def auth(store: Store) -> AuthService:
    return service(store)
