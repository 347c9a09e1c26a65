"""A MySQL server that would lose what it acknowledged is refused; a fence that fails ends us."""

from collections.abc import Iterator
from typing import Any, NoReturn

import pymysql
import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import EXISTS, ForeignStore, StoreUnavailable, UnsafeStore, open_store
from lakebed.kv.drivers.mysql import MySQLStore, driver
from lakebed.testing.servers.databases import DatabaseServer
from lakebed.testing.servers.more_databases import mariadb_server, mariadb_url
from lakebed.testing.servers.proxy import Fault, Proxy

pytestmark = [pytest.mark.slow, pytest.mark.fetched]


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with mariadb_server(settings=["--log-bin=binlog", "--sync-binlog=1"]) as server:
        yield server


@pytest.fixture
def admin(server: DatabaseServer) -> Iterator[Any]:
    with pymysql.connect(
        host="127.0.0.1", port=server.port, user="admin", password="secret", autocommit=True
    ) as connection:
        yield connection.cursor()


@pytest.mark.parametrize(
    ("name", "bad"), [("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")]
)
def test_mysql_must_keep_its_writes(
    server: DatabaseServer, admin: Any, name: str, bad: str
) -> None:
    admin.execute(f"SET GLOBAL {name} = {bad}")
    try:
        with pytest.raises(UnsafeStore, match=f"{name} is {bad} and must be 1"):
            open_store(mariadb_url(server.port))
        open_store(f"{mariadb_url(server.port)}?durable=true").close()
    finally:
        admin.execute(f"SET GLOBAL {name} = 1")
    open_store(mariadb_url(server.port)).close()


def test_a_replica_of_mysql_is_refused(server: DatabaseServer, admin: Any) -> None:
    admin.execute("SET GLOBAL read_only = 1")
    try:
        with pytest.raises(StoreUnavailable, match="read-only: use the primary"):
            open_store(mariadb_url(server.port))
    finally:
        admin.execute("SET GLOBAL read_only = 0")


def test_a_proxy_that_shares_connections_is_refused(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind one, a statement runs on another connection than the one that was greeted."""
    monkeypatch.setattr(pymysql.Connection, "thread_id", lambda _: 0)
    with pytest.raises(StoreUnavailable, match="a proxy shares the connections"):
        open_store(mariadb_url(server.port))


def test_a_server_that_takes_small_statements_only_is_refused(
    server: DatabaseServer, admin: Any
) -> None:
    admin.execute("SET GLOBAL max_allowed_packet = 1048576")
    try:
        with pytest.raises(ForeignStore, match="max_allowed_packet of the server is 1048576"):
            open_store(mariadb_url(server.port))
    finally:
        admin.execute("SET GLOBAL max_allowed_packet = 16777216")


def test_another_table_of_our_name_is_refused(server: DatabaseServer, admin: Any) -> None:
    admin.execute("CREATE DATABASE others")
    admin.execute("GRANT ALL ON others.* TO lakebed@'127.0.0.1'")
    admin.execute("CREATE TABLE others.lakebed_kv (id INT PRIMARY KEY)")
    url = mariadb_url(server.port).removesuffix("lakebed") + "others"
    with pytest.raises(ForeignStore, match=r"not a Lakebed store: .* its columns are id int\(11\)"):
        open_store(url)


def test_a_server_that_does_not_let_us_in_is_named(server: DatabaseServer) -> None:
    url = mariadb_url(server.port).replace(":secret@", ":secret-word@")
    with pytest.raises(StoreUnavailable, match="Access denied") as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


def test_a_write_that_changes_nothing_has_found_its_row(server: DatabaseServer) -> None:
    """A call that is repeated writes the same version again; MySQL may count that as no row."""
    with open_store(mariadb_url(server.port)) as store:
        version = store.set(b"p", b"same", b"value")
        assert store.set(b"p", b"same", b"value", EXISTS, version=version) == version


def test_a_process_that_cannot_fence_its_write_ends(
    server: DatabaseServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EndedError(Exception):
        pass

    def end() -> NoReturn:
        raise EndedError

    monkeypatch.setattr(driver, "FENCE_SECONDS", 0.5)
    with Proxy(("127.0.0.1", server.port)) as proxy:
        store = MySQLStore(mariadb_url(proxy.port), ThreadRuntime(), reply_seconds=2.0, give_up=end)
        store.set(b"p", b"key", b"value")
        proxy.break_new(Fault.CUT)
        proxy.break_open(Fault.CUT_ON_REPLY)
        with pytest.raises(EndedError):
            store.set(b"p", b"key", b"new")
        store.close()
