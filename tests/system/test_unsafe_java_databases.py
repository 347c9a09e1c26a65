"""A Cassandra or HBase that would lose what it acknowledged is refused, and says why."""

from collections.abc import Iterator

import pytest
from cassandra.cluster import Cluster, Session

from lakebed.kv import ForeignStore, StoreUnavailable, UnsafeStore, open_store
from lakebed.kv.drivers.hbase.driver import FAMILY, SERVICE, HBaseLink, parse_url
from lakebed.testing.servers.databases import DatabaseServer
from lakebed.testing.servers.java_databases import (
    cassandra_server,
    cassandra_url,
    hbase_server,
    hbase_url,
    make_keyspace,
)

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def cassandra() -> Iterator[DatabaseServer]:
    with cassandra_server(durable=False) as server:
        yield server


@pytest.fixture
def session(cassandra: DatabaseServer) -> Iterator[Session]:
    with Cluster(["127.0.0.1"], port=cassandra.port, protocol_version=4) as cluster:
        session = cluster.connect("lakebed")
        session.default_timeout = 60.0
        yield session


def trusted_url(server: DatabaseServer, keyspace: str = "lakebed") -> str:
    """A URL that skips the check of the log, which this server would not pass."""
    return cassandra_url(server.port).removesuffix("lakebed") + f"{keyspace}?durable=true"


def test_cassandra_must_wait_for_its_disk(cassandra: DatabaseServer) -> None:
    with pytest.raises(UnsafeStore, match=r"commitlog_sync of 127\.0\.0\.1 is periodic, and must"):
        open_store(cassandra_url(cassandra.port))
    open_store(trusted_url(cassandra)).close()


def test_a_keyspace_without_a_log_is_refused(cassandra: DatabaseServer) -> None:
    make_keyspace(cassandra.port, "hasty", durable=False)
    with pytest.raises(UnsafeStore, match="durable_writes is false and must be true"):
        open_store(trusted_url(cassandra, "hasty"))


def test_a_keyspace_that_is_missing_is_named(cassandra: DatabaseServer) -> None:
    with pytest.raises(StoreUnavailable, match=r"the keyspace nowhere does not exist"):
        open_store(trusted_url(cassandra, "nowhere"))


@pytest.mark.parametrize(
    ("change", "back", "complaint"),
    [
        ("default_time_to_live = 9", "default_time_to_live = 0", "time_to_live is 9 and must be 0"),
        ("read_repair = 'NONE'", "read_repair = 'BLOCKING'", "read_repair is NONE and must be"),
    ],
)
def test_a_table_that_forgets_is_refused(
    cassandra: DatabaseServer, session: Session, change: str, back: str, complaint: str
) -> None:
    open_store(trusted_url(cassandra)).close()
    session.execute(f"ALTER TABLE lakebed_kv WITH {change}")
    try:
        with pytest.raises(UnsafeStore, match=complaint):
            open_store(trusted_url(cassandra))
    finally:
        session.execute(f"ALTER TABLE lakebed_kv WITH {back}")
    open_store(trusted_url(cassandra)).close()


def test_another_table_of_our_name_is_refused(cassandra: DatabaseServer, session: Session) -> None:
    make_keyspace(cassandra.port, "others")
    session.execute("CREATE TABLE others.lakebed_kv (id int PRIMARY KEY)")
    with pytest.raises(ForeignStore, match="is not a Lakebed store: its columns are id int"):
        open_store(trusted_url(cassandra, "others"))


def test_tables_of_hbase_that_forget_or_are_others_are_refused() -> None:
    with hbase_server() as server:
        link = HBaseLink(parse_url(hbase_url(server.port)), reply_seconds=60.0)

        def make(table: str, family: bytes, seconds: int | None) -> str:
            described = SERVICE.TColumnFamilyDescriptor(name=family, timeToLive=seconds)
            name = SERVICE.TTableName(qualifier=table.encode())
            link.call.createTable(
                SERVICE.TTableDescriptor(tableName=name, columns=[described]), None
            )
            return hbase_url(server.port).removesuffix("lakebed") + table

        with pytest.raises(UnsafeStore, match="family d is 3600 seconds and must be FOREVER"):
            open_store(make("fleeting", FAMILY, 3600))
        with pytest.raises(
            ForeignStore, match="others is not a Lakebed store: its column families are x"
        ):
            open_store(make("others", b"x", None))
        open_store(make("plain", FAMILY, None)).close()
        link.close()
