"""URLs and tables of databases that are refused; no server is needed for that."""

import pytest
from google.cloud.bigtable_admin_v2.types import Table

from lakebed.kv import InvalidArgument, StoreUnreachable, UnsafeStore, open_store
from lakebed.kv.drivers.bigtable import _check_clusters

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("bigtable://project/instance", "does not name a table"),
        ("bigtable://user:secret-word@project/instance/table", "does not name a table"),
        ("bigtable://project/instance/table?profile=x", "has no option profile"),
        ("spanner://project/instance", "does not name a database"),
        ("spanner://user:secret-word@project/instance/database", "does not name a database"),
        ("spanner://project/instance/database?table=x", "has no option table"),
        ("mongodb://user:secret-word@host", "does not name a database"),
        ("mongodb://user:secret-word@host:port/lakebed", "malformed"),
        ("mongodb://us/er:secret-word@host/lakebed", "malformed"),
        ("cassandra://user:secret-word@host", "with a host and a keyspace"),
        ("cassandra://user:secret-word@host/Upper", "with a host and a keyspace"),
        ("cassandra://user:secret-word@host:port/lakebed", "malformed"),
        ("cassandra://user:secret-word@host/lakebed?quorum=1", "has no option quorum"),
        ("cassandra://host/lakebed?tls=true&ca=/nowhere", "cannot read the certificates"),
        ("hbase://host", "with a host and a table"),
        ("hbase://user:secret-word@host/lakebed", "and no password"),
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
    with pytest.raises(UnsafeStore, match=r"in 2 clusters, .* name an app profile"):
        _check_clusters(table, "lakebed", "")
    _check_clusters(table, "lakebed", "to-one")
    _check_clusters(Table(cluster_states={"one": {}}), "lakebed", "")
