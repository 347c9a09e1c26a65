"""The databases of `make test-all PARTS=fetched`, as the tests of failing databases take them."""

from collections.abc import Callable
from functools import partial

import pytest

from lakebed.base.runtime import Runtime
from lakebed.kv import Store
from lakebed.kv.drivers.bigtable import BigtableCells
from lakebed.kv.drivers.cassandra import CassandraCells
from lakebed.kv.drivers.cosmos import CosmosCells
from lakebed.kv.drivers.gcs import GCSCells
from lakebed.kv.drivers.hbase import HBaseCells
from lakebed.kv.drivers.mongodb import MongoDBCells
from lakebed.kv.drivers.mysql import MySQLStore
from lakebed.kv.drivers.spanner import SpannerCells
from lakebed.kv.fenced import CellDatabase, FencedStore, _Outcome
from lakebed.testing.servers.java_databases import (
    cassandra_server,
    cassandra_url,
    hbase_server,
    hbase_url,
)
from lakebed.testing.servers.more_databases import (
    bigtable_server,
    bigtable_url,
    cosmos_server,
    cosmos_url,
    gcs_server,
    gcs_url,
    mariadb_server,
    mariadb_url,
    mongodb_server,
    mongodb_url,
    spanner_server,
    spanner_url,
)
from tests.kit.database_bench import Database


def open_mysql(url: str, runtime: Runtime, reply_seconds: float) -> Store:
    return MySQLStore(url, runtime, reply_seconds=reply_seconds)


def leave_lost_connections(store: Store) -> None:
    store._fence = lambda _: None  # type: ignore[attr-defined] # MySQL's


OpenCells = Callable[..., CellDatabase]


def fenced(cells: OpenCells) -> Callable[[str, Runtime, float], Store]:
    def open_fenced(url: str, runtime: Runtime, reply_seconds: float) -> Store:
        return FencedStore(cells(url, reply_seconds=reply_seconds), runtime)

    return open_fenced


def fenced_with_a_clock(cells: OpenCells) -> Callable[[str, Runtime, float], Store]:
    def open_fenced(url: str, runtime: Runtime, reply_seconds: float) -> Store:
        return FencedStore(cells(url, runtime, reply_seconds=reply_seconds), runtime)

    return open_fenced


def take_out_the_fence(store: Store) -> None:
    store._fence = lambda *_: _Outcome.UNKNOWN  # type: ignore[attr-defined] # of a FencedStore


MORE_DATABASES = [
    pytest.param(database, marks=pytest.mark.fetched, id=database.name)
    for database in (
        Database("mysql", mariadb_server, mariadb_url, open_mysql, leave_lost_connections),
        Database(
            "bigtable",
            bigtable_server,
            bigtable_url,
            fenced(BigtableCells),
            take_out_the_fence,
            durable=False,
            takes_back=True,
        ),
        Database(
            "spanner",
            spanner_server,
            spanner_url,
            fenced_with_a_clock(SpannerCells),
            take_out_the_fence,
            durable=False,
            takes_back=True,
        ),
        Database(
            "mongodb",
            mongodb_server,
            mongodb_url,
            fenced(MongoDBCells),
            take_out_the_fence,
            durable=False,
        ),
        Database(
            "gcs",
            partial(gcs_server, durable=True),
            gcs_url,
            fenced_with_a_clock(GCSCells),
            take_out_the_fence,
        ),
        Database(
            "cosmos",
            cosmos_server,
            cosmos_url,
            fenced_with_a_clock(CosmosCells),
            take_out_the_fence,
            durable=False,
        ),
        Database(
            "cassandra",
            cassandra_server,
            cassandra_url,
            fenced_with_a_clock(CassandraCells),
            take_out_the_fence,
        ),
        Database("hbase", hbase_server, hbase_url, fenced(HBaseCells), take_out_the_fence),
    )
]
