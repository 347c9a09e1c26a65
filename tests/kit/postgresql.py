"""PostgreSQL servers: one for the tests of a worker, and one to stop and kill at will."""

from collections.abc import Iterator

import pytest

from lakebed.kv.urls import take_options
from lakebed.testing.servers.databases import PostgreSQLServer, postgresql_server


def conninfo(url: str) -> str:
    """Return the URL of a store as libpq takes it."""
    return take_options(url, {"durable"})[0]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQLServer]:
    """A server that all tests of this worker share; nobody stops it."""
    with postgresql_server(durable=False) as server:
        yield server


@pytest.fixture
def postgresql_url(postgresql: PostgreSQLServer) -> str:
    """The URL of a new, empty database."""
    return postgresql.create_database()


@pytest.fixture(scope="session")
def postgresql_shared_url(postgresql: PostgreSQLServer) -> str:
    """The URL of a database for tests that keep to partitions of their own: it costs nothing."""
    return postgresql.create_database()


@pytest.fixture(scope="session")
def _mortal_postgresql() -> Iterator[PostgreSQLServer]:
    with postgresql_server(durable=True) as server:
        yield server


@pytest.fixture
def mortal_postgresql(_mortal_postgresql: PostgreSQLServer) -> PostgreSQLServer:
    """A server to stop, start and kill at will, with nobody else on it."""
    if not _mortal_postgresql.is_running:
        _mortal_postgresql.start()  # a test that failed may have left it stopped
    return _mortal_postgresql
