"""A database that would lose what it acknowledged is refused when it is opened, and says why."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import valkey

from lakebed.kv import ForeignStore, StoreUnavailable, UnsafeStore, open_store
from lakebed.kv.drivers.dynamodb import _check_table
from lakebed.testing.servers.databases import (
    VALKEY_DURABLE,
    DatabaseServer,
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)

pytestmark = [pytest.mark.extended, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[DatabaseServer]:
    with valkey_server() as server:
        yield server


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("appendonly", "no", "yes"),
        ("appendfsync", "everysec", "always"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
    ],
)
def test_valkey_must_keep_its_writes(
    server: DatabaseServer, name: str, bad: str, good: str
) -> None:
    with valkey.Valkey(port=server.port) as client:
        client.config_set(name, bad)
        try:
            with pytest.raises(UnsafeStore, match=f"{name} is {bad} and must be {good}"):
                open_store(valkey_url(server.port))
            open_store(f"{valkey_url(server.port)}?durable=true").close()
        finally:
            client.config_set(name, good)
    open_store(valkey_url(server.port)).close()


def test_valkey_with_replicas_is_refused(server: DatabaseServer) -> None:
    settings = (*VALKEY_DURABLE, "--replicaof", f"127.0.0.1 {server.port}")
    with valkey_server(settings=settings) as replica, valkey.Valkey(port=server.port) as client:
        for _ in range(600):
            if client.info("replication")["connected_slaves"]:
                break
            client.wait(1, 100)
        with pytest.raises(UnsafeStore, match="it has replicas"):
            open_store(valkey_url(server.port))
        with pytest.raises(UnsafeStore, match="it is a replica"):
            open_store(valkey_url(replica.port))


def test_a_valkey_that_does_not_tell_its_settings_is_refused(server: DatabaseServer) -> None:
    with valkey.Valkey(port=server.port) as client:
        rights = ["+@all", "-config"]
        client.acl_setuser("shy", enabled=True, passwords=["+secret"], keys=["*"], commands=rights)
    url = f"valkey://shy:secret@127.0.0.1:{server.port}/0"
    with pytest.raises(UnsafeStore, match=r"cannot read the settings .* add \?durable=true"):
        open_store(url)
    open_store(f"{url}?durable=true").close()
    with valkey.Valkey(port=server.port) as client:
        client.acl_setuser("shy", enabled=True, commands=["-info"])
    open_store(f"{url}?durable=true").close()


def test_an_etcd_that_does_not_wait_for_its_disk_is_refused() -> None:
    with etcd_server(durable=False) as server:
        url = etcd_url(server.port)
        with pytest.raises(UnsafeStore, match="it runs with --unsafe-no-fsync"):
            open_store(url.removesuffix("?durable=true"))
        open_store(url).close()


def test_an_etcd_that_waits_for_its_disk_is_taken() -> None:
    with etcd_server(durable=True) as server:
        open_store(etcd_url(server.port).removesuffix("?durable=true")).close()


def test_a_valkey_that_does_not_let_us_in_is_named(server: DatabaseServer) -> None:
    url = f"redis://nobody:secret-word@127.0.0.1:{server.port}/0"
    with pytest.raises(StoreUnavailable) as caught:
        open_store(url)
    assert "secret-word" not in str(caught.value)


@pytest.mark.usefixtures("aws_credentials")
def test_another_table_of_dynamodb_is_refused() -> None:
    with dynamodb_server(durable=False) as server:
        client = boto3.client(
            "dynamodb", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{server.port}"
        )
        client.create_table(
            TableName="others",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        with pytest.raises(
            ForeignStore, match=r"others is not a Lakebed store: its key is id \(HASH"
        ):
            open_store(dynamodb_url(server.port, "others"))
        with open_store(dynamodb_url(server.port)) as store:
            store.set(b"p", b"key", b"value")
            store.delete(b"p", b"key")
        expiry = client.describe_time_to_live(TableName="lakebed")["TimeToLiveDescription"]
        assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", "x")
        (tombstone,) = client.scan(
            TableName="lakebed",
            FilterExpression="p = :p",
            ExpressionAttributeValues={":p": {"B": b"p"}},
        )["Items"]
        assert int(tombstone["x"]["N"]) > 0
        assert "v" not in tombstone
        client.close()


def test_a_global_table_with_eventual_consistency_is_refused() -> None:
    table: Any = {
        "TableName": "lakebed",
        "AttributeDefinitions": [
            {"AttributeName": "p", "AttributeType": "B"},
            {"AttributeName": "k", "AttributeType": "B"},
        ],
        "KeySchema": [
            {"AttributeName": "p", "KeyType": "HASH"},
            {"AttributeName": "k", "KeyType": "RANGE"},
        ],
    }
    _check_table(table)
    _check_table(table | {"Replicas": [{}], "MultiRegionConsistency": "STRONG"})
    with pytest.raises(UnsafeStore, match="global table with eventual consistency"):
        _check_table(table | {"Replicas": [{"RegionName": "eu-west-1"}]})


def test_records_of_a_valkey_cluster_are_refused_without_one(server: DatabaseServer) -> None:
    with valkey.Valkey(port=server.port) as client:
        client.flushall()
        client.hset("lakebed:{pp}h", "key", "value")
        try:
            with pytest.raises(
                ForeignStore, match=r"mode off, and records written with .* mode on"
            ):
                open_store(valkey_url(server.port))
        finally:
            client.flushall()
