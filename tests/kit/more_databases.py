"""The databases of `make test-kv-all`, as the tests of failing databases take them."""

import pytest

from lakebed.kv import Store
from lakebed.kv.drivers.mysql import MySQLStore
from lakebed.runtime import Runtime
from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url
from tests.kit.database_bench import Database


def open_mysql(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    return MySQLStore(url, runtime, reply_seconds=reply_seconds)


def leave_lost_connections(store: Store) -> None:
    store._fence = lambda _: None  # type: ignore[attr-defined] # MySQL's


MORE_DATABASES = [
    pytest.param(database, marks=pytest.mark.kv_all)
    for database in (
        Database("mysql", mariadb_server, mariadb_url, open_mysql, leave_lost_connections),
    )
]
