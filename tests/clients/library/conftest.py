"""Lakes to try the library on: in a folder, and on a server that all tests share."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed
from lakebed.testing.servers.lakebed import LakebedServer


@pytest.fixture
def folder_lake(tmp_path: Path) -> Iterator[lakebed.Lake]:
    with lakebed.open(tmp_path / "data", committer="ada") as lake:
        yield lake


@pytest.fixture
def server_lake(sqlite_lakebed: LakebedServer) -> Iterator[lakebed.Lake]:
    server = sqlite_lakebed
    with lakebed.connect(server.endpoint, server.access_key_id, server.secret_access_key) as lake:
        yield lake


@pytest.fixture(params=["folder", pytest.param("server", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest) -> lakebed.Lake:
    """A lake, of one kind after the other: a program sees no difference."""
    found: lakebed.Lake = request.getfixturevalue(f"{request.param}_lake")
    return found


@pytest.fixture
def repository(lake: lakebed.Lake) -> lakebed.Repository:
    name = f"lib-{uuid.uuid4().hex[:12]}"
    return lake.repository(name).create(storage_namespace=f"local://lib/{name}")


@pytest.fixture
def main(repository: lakebed.Repository) -> lakebed.Branch:
    return repository.branch("main")
