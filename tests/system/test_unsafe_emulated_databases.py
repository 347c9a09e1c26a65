"""Tables of Bigtable and collections of MongoDB that are others', or would forget, are refused."""

from collections.abc import Iterator
from datetime import timedelta

import grpc
import pytest
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import (
    BigtableTableAdminGrpcTransport,
)
from google.cloud.bigtable_admin_v2.types import ColumnFamily, GcRule, Table
from pymongo import MongoClient

from lakebed.kv import ForeignStore, UnsafeStore, open_store
from lakebed.kv.drivers.bigtable import _LIVING, _TOMBSTONES, TOMBSTONE_SECONDS
from lakebed.kv.drivers.mongodb import COLLECTION
from lakebed.testing.servers.databases import DatabaseServer
from lakebed.testing.servers.more_databases import (
    bigtable_server,
    bigtable_url,
    mongodb_server,
    mongodb_url,
)

pytestmark = [pytest.mark.slow, pytest.mark.fetched]

INSTANCE = "projects/project/instances/instance"
NEWEST = GcRule(max_num_versions=1)
DAY = GcRule(max_age=timedelta(seconds=TOMBSTONE_SECONDS))
HOUR = GcRule(max_age=timedelta(hours=1))


@pytest.fixture(scope="module")
def bigtable() -> Iterator[DatabaseServer]:
    with bigtable_server() as server:
        yield server


def make_table(server: DatabaseServer, name: str, families: dict[str, GcRule]) -> str:
    """Make a table with these rules, and return its URL."""
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        transport = BigtableTableAdminGrpcTransport(channel=channel)
        table = Table(
            column_families={each: ColumnFamily(gc_rule=rule) for each, rule in families.items()}
        )
        BigtableTableAdminClient(transport=transport).create_table(
            {"parent": INSTANCE, "table_id": name, "table": table}
        )
    return bigtable_url(server.port).replace("/lakebed?", f"/{name}?")


def test_another_table_of_bigtable_is_refused(bigtable: DatabaseServer) -> None:
    url = make_table(bigtable, "others", {"x": NEWEST})
    with pytest.raises(
        ForeignStore, match="others is not a Lakebed store: its column families are x"
    ):
        open_store(url)


@pytest.mark.parametrize(
    ("living", "tombstones", "complaint"),
    [
        (HOUR, DAY, f"column family {_LIVING} must keep the newest cell forever"),
        (GcRule(union={"rules": [NEWEST, HOUR]}), DAY, f"family {_LIVING} must keep"),
        (NEWEST, HOUR, f"family {_TOMBSTONES} must keep the newest cell for 86400 seconds"),
    ],
)
def test_a_table_of_bigtable_that_forgets_is_refused(
    bigtable: DatabaseServer,
    living: GcRule,
    tombstones: GcRule,
    complaint: str,
    request: pytest.FixtureRequest,
) -> None:
    name = f"table-{abs(hash(request.node.name))}"
    url = make_table(bigtable, name, {_LIVING: living, _TOMBSTONES: tombstones})
    with pytest.raises(UnsafeStore, match=complaint):
        open_store(url)


def test_a_table_of_bigtable_that_keeps_more_than_it_must_is_taken(
    bigtable: DatabaseServer,
) -> None:
    living = GcRule(intersection={"rules": [NEWEST, HOUR]})
    url = make_table(bigtable, "generous", {_LIVING: living, _TOMBSTONES: NEWEST})
    open_store(url).close()


def test_another_collection_of_mongodb_is_refused() -> None:
    with mongodb_server() as server, MongoClient[dict[str, object]](mongodb_url(server.port)) as of:
        of.get_default_database().get_collection(COLLECTION).insert_one({"_id": 1, "name": "Ann"})
        with pytest.raises(ForeignStore, match=r"is not a Lakebed store: .* the fields _id, name"):
            open_store(mongodb_url(server.port))
