"""Lakebed servers that tests of clients share, one on each database."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.testing.servers.databases import PostgreSQLServer
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server


@pytest.fixture(scope="session")
def sqlite_lakebed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    """A server on SQLite."""
    with lakebed_server(tmp_path_factory.mktemp("lakebed")) as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_lakebed(
    tmp_path_factory: pytest.TempPathFactory, postgresql: PostgreSQLServer
) -> Iterator[LakebedServer]:
    """A server on PostgreSQL."""
    database = {"url": postgresql.create_database()}
    folder: Path = tmp_path_factory.mktemp("lakebed")
    with lakebed_server(folder, settings={"database": database}) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def lakebed(request: pytest.FixtureRequest) -> LakebedServer:
    """A server, on one database after the other."""
    server: LakebedServer = request.getfixturevalue(f"{request.param}_lakebed")
    return server


@pytest.fixture
def repository_name() -> str:
    """A name that no other test uses."""
    return f"repo-{uuid.uuid4().hex[:12]}"
