"""URLs, tables and servers that are refused; no server is needed for that.

What a server says of itself is made up where no package brings one of that kind.
"""

from typing import Any
from unittest.mock import Mock

import pytest
from google.cloud.bigtable_admin_v2.types import Table

from lakebed.kv import (
    ForeignStore,
    InvalidArgument,
    StoreUnavailable,
    StoreUnreachable,
    UnsafeStore,
    open_store,
)
from lakebed.kv.drivers.bigtable import _check_clusters
from lakebed.kv.drivers.cassandra.driver import _check_version
from lakebed.kv.drivers.etcd.gateway import EtcdGateway
from lakebed.kv.drivers.mongodb import _check_engine
from lakebed.kv.drivers.mysql.driver import PACKET_BYTES, _check_settings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("bigtable://project/instance", "does not name a table"),
        ("bigtable://user:secret-word@project/instance/table", "does not name a table"),
        ("bigtable://project/instance/table?profile=x", "unknown option of a .* URL: profile"),
        ("spanner://project/instance", "does not name a database"),
        ("spanner://user:secret-word@project/instance/database", "does not name a database"),
        ("spanner://project/instance/database?table=x", "unknown option of a .* URL: table"),
        ("mongodb://user:secret-word@host", "does not name a database"),
        ("mongodb://user:secret-word@host:port/lakebed", "malformed"),
        ("mongodb://us/er:secret-word@host/lakebed", "malformed"),
        ("cassandra://user:secret-word@host", "with a host and a keyspace"),
        ("cassandra://user:secret-word@host/Upper", "with a host and a keyspace"),
        ("cassandra://user:secret-word@host:port/lakebed", "malformed"),
        (
            "cassandra://user:secret-word@host/lakebed?quorum=1",
            "URL: quorum; use",
        ),
        ("cassandra://host/lakebed?tls=true&ca=/nowhere", "cannot read the certificates"),
        ("hbase://host", "with a host and a table"),
        ("hbase://user:secret-word@host/lakebed", "and without a password"),
        ("hbase://host/lake bed", "with a host and a table"),
        ("hbase://host/lakebed?pool_size=0", "pool_size must be a number"),
        ("hbase://host/lakebed?tls=true&ca=/nowhere", "cannot read the certificates"),
    ],
)
def test_a_url_that_cannot_be_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint) as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["cassandra://user:secret-word@nowhere.invalid/lakebed", "hbase://nowhere.invalid/lakebed"],
)
def test_a_host_that_is_not_there_is_said_to_be_unreachable(url: str) -> None:
    with pytest.raises(StoreUnreachable, match="cannot") as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


def test_a_table_in_several_clusters_needs_a_profile() -> None:
    table = Table(cluster_states={"one": {}, "two": {}})
    with pytest.raises(UnsafeStore, match=r"to 2 clusters: set .*app_profile"):
        _check_clusters(table, "lakebed", "")
    _check_clusters(table, "lakebed", "to-one")
    _check_clusters(Table(cluster_states={"one": {}}), "lakebed", "")


def test_a_mongodb_without_a_disk_is_refused() -> None:
    with pytest.raises(UnsafeStore, match="storage engine inMemory is not persistent"):
        _check_engine({"storageEngine": {"name": "inMemory", "persistent": False}})
    _check_engine({"storageEngine": {"name": "wiredTiger", "persistent": True}})
    _check_engine({})


@pytest.mark.parametrize(
    ("status", "error", "complaint"),
    [
        ({"version": "3.5.0"}, StoreUnavailable, "cluster has no leader"),
        (
            {"version": "3.3.27", "leader": "1"},
            ForeignStore,
            r"etcd 3\.3\.27 is too old: 3\.4 or newer",
        ),
    ],
)
def test_an_etcd_that_cannot_serve_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: Any, error: type[Exception], complaint: str
) -> None:
    monkeypatch.setattr(EtcdGateway, "read", lambda *_: status)
    with pytest.raises(error, match=complaint):
        open_store("etcd://127.0.0.1:1/lakebed")


def test_an_old_cassandra_is_refused() -> None:
    with pytest.raises(ForeignStore, match=r"cassandra 3\.11\.4 is too old: 4\.0 or newer"):
        _check_version(Mock(query=lambda _: [("3.11.4",)]))
    _check_version(Mock(query=lambda _: [("4.0.1",)]))


def test_a_node_of_galera_is_refused() -> None:
    settings = {
        "innodb_flush_log_at_trx_commit": "1",
        "sync_binlog": "0",
        "max_allowed_packet": str(PACKET_BYTES),
    }
    _check_settings(Mock(ask=lambda *_: settings.items()), trusted=False)
    node = settings | {"wsrep_on": "ON"}
    with pytest.raises(UnsafeStore, match="Galera clusters are not supported"):
        _check_settings(Mock(ask=lambda *_: node.items()), trusted=True)
