"""Databases but SQLite and PostgreSQL: the store against the bare client.

Both sides send the same requests to the same server, which is local and has one node. DynamoDB and
etcd do not wait for the disk here: what is measured is what the driver adds. Floor and store take
turns in short rounds, and medians are compared. (Amazon's local DynamoDB is made for tests: its
rates say nothing about the service, and Azurite's neither.) RocksDB is part of this process, and
both sides wait for the disk. Databases that `make test-all PARTS=fetched` fetches are measured
where it has; else a line says that they were not.
"""

import os
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from unittest.mock import patch

import boto3
import httpx
import pymysql
import valkey
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.cosmos import CosmosClient
from azure.storage.blob import BlobServiceClient
from botocore.config import Config
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from requests.adapters import HTTPAdapter
from rocksdict import Options, Rdict, WriteOptions

from benchmarks.kv_fetched_databases import (
    open_bigtable,
    open_cassandra,
    open_hbase,
    open_mongodb,
    open_spanner,
)
from benchmarks.kv_postgresql import (
    PARTITION,
    ROUNDS,
    THREADS,
    VALUE,
    Call,
    _compare,
    _fill,
    _key,
    _our_get,
    _our_set_if,
)
from benchmarks.report import Row
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import Store, Version, open_store
from lakebed.kv.drivers.etcd.driver import EtcdStore
from lakebed.kv.drivers.mysql import statements
from lakebed.kv.drivers.mysql.link import parse_url
from lakebed.kv.drivers.valkey.driver import _SET
from lakebed.kv.fenced import Cell
from lakebed.kv.objects import object_name, stored
from lakebed.testing.servers import ServerMissingError
from lakebed.testing.servers.databases import (
    azurite_server,
    azurite_url,
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    valkey_server,
    valkey_url,
)
from lakebed.testing.servers.fetch_databases import fetched
from lakebed.testing.servers.more_databases import (
    GCS_BUCKET,
    cosmos_server,
    cosmos_url,
    gcs_server,
    gcs_url,
    mariadb_server,
    mariadb_url,
)
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT, AZURE_ACCOUNT_KEY

BAR = 0.6

Floor = tuple[Call, Call]
"""A bare get and a bare conditional write."""


def measure(chosen: Collection[str], *, scale: float) -> list[Row]:
    """Measure `get` and `set_if` of those that were chosen; all, if none was.

    `scale` shrinks the number of calls.
    """
    rows: list[Row] = []
    for name, server, opened, calls_of_a_round in _DATABASES:
        if chosen and name not in chosen:
            continue
        try:
            if server is not None:
                fetched(server)
        except ServerMissingError as error:
            print(f"{name} is not measured: {error}")
            continue
        calls = max(2, int(calls_of_a_round * scale))
        rounds = ROUNDS if scale >= 1 else 1
        with opened() as (store, versions, (bare_get, bare_set_if)):
            get = _compare(bare_get, _our_get(store), calls, rounds)
            set_if = _compare(bare_set_if, _our_set_if(store, versions), calls, rounds)
        # A bare get of RocksDB is a look into memory: there is nothing to compare with.
        get_bar = None if name == "rocksdb" else BAR
        rows += [
            Row(f"get, {THREADS} threads", name, *get, get_bar),
            Row(f"set_if, {THREADS} threads", name, *set_if, BAR),
        ]
    return rows


Opened = Iterator[tuple[Store, dict[bytes, Version], Floor]]


@contextmanager
def _dynamodb() -> Opened:
    credentials = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    with patch.dict(os.environ, credentials), dynamodb_server(durable=False) as server:
        url = dynamodb_url(server.port)
        client = boto3.client(
            "dynamodb",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{server.port}",
            config=Config(max_pool_connections=THREADS),
        )
        with open_store(url) as store:
            versions = _fill(store)

            def get(thread: int, number: int) -> None:
                key = {"p": {"B": PARTITION}, "k": {"B": _key(thread, number)}}
                reply = client.get_item(TableName="lakebed", Key=key, ConsistentRead=True)
                assert "Item" in reply

            def set_if(thread: int, number: int) -> None:
                key, new = _key(thread, number), Version(os.urandom(16))
                client.put_item(
                    TableName="lakebed",
                    Item={
                        "p": {"B": PARTITION},
                        "k": {"B": key},
                        "v": {"B": VALUE},
                        "w": {"B": new},
                        "s": {"B": new},
                    },
                    ConditionExpression="s = :s",
                    ExpressionAttributeValues={":s": {"B": versions[key]}},
                )
                versions[key] = new

            yield store, versions, (get, set_if)
        client.close()


@contextmanager
def _etcd() -> Opened:
    with etcd_server(durable=False) as server:
        url, endpoint = etcd_url(server.port), f"http://127.0.0.1:{server.port}/v3/kv/txn"
        with open_store(url) as store, httpx.Client() as client:
            versions = _fill(store)
            names = EtcdStore(url, ThreadRuntime())
            text: Callable[[bytes], str] = lambda data: b64encode(data).decode()  # noqa: E731

            def get(thread: int, number: int) -> None:
                name = names._key(PARTITION, _key(thread, number))  # noqa: SLF001 - the same one
                step = {"request_range": {"key": text(name)}}
                assert client.post(endpoint, json={"success": [step]}).json()["responses"]

            def set_if(thread: int, number: int) -> None:
                key, new = _key(thread, number), Version(os.urandom(16))
                name = text(names._key(PARTITION, key))  # noqa: SLF001 - the same one
                old = versions[key]
                compare = [
                    {"key": name, "target": "VALUE", "result": "GREATER", "value": text(old)}
                ]
                put = {"request_put": {"key": name, "value": text(new + b"\x01" + VALUE)}}
                body = {"compare": compare, "success": [put]}
                assert client.post(endpoint, json=body).status_code == httpx.codes.OK
                versions[key] = new

            yield store, versions, (get, set_if)
            names.close()


@contextmanager
def _valkey() -> Opened:
    with valkey_server() as server, open_store(valkey_url(server.port)) as store:
        client = valkey.Valkey(port=server.port)
        versions = _fill(store)
        script = client.register_script(_SET)
        names = [b"lakebed:h:" + PARTITION, b"lakebed:z:" + PARTITION]
        never = b"%d" % (1 << 52)

        def get(thread: int, number: int) -> None:
            assert client.hget(names[0], _key(thread, number))

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            arguments = [never, key, new + VALUE, b"version", versions[key]]
            assert script(names, arguments) == 1
            versions[key] = new

        yield store, versions, (get, set_if)
        client.close()


@contextmanager
def _mysql() -> Opened:
    with mariadb_server() as server, open_store(mariadb_url(server.port)) as store:
        versions = _fill(store)
        settings = parse_url(mariadb_url(server.port)).settings
        idle = [pymysql.connect(autocommit=True, **settings) for _ in range(THREADS)]

        def ask(statement: str, *parameters: object) -> int:
            connection = idle.pop()
            with connection.cursor() as cursor:
                matched = cursor.execute(statement, parameters)
                cursor.fetchall()
            idle.append(connection)
            return int(matched)

        def get(thread: int, number: int) -> None:
            assert ask(statements.GET, PARTITION, _key(thread, number)) == 1

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            there = (VALUE, new, PARTITION, key, versions[key])
            assert ask(statements.SET_IF_VERSION, *there) == 1
            versions[key] = new

        yield store, versions, (get, set_if)
        for connection in idle:
            connection.close()


@contextmanager
def _azure_blob() -> Opened:
    with (
        patch.dict(os.environ, {"AZURE_STORAGE_KEY": AZURE_ACCOUNT_KEY}),
        azurite_server() as server,
        open_store(azurite_url(server.port)) as store,
        BlobServiceClient(
            f"http://127.0.0.1:{server.port}/{AZURE_ACCOUNT}", AZURE_ACCOUNT_KEY
        ) as service,
    ):
        versions = _fill(store)
        container = service.get_container_client("lakebed")
        etags: dict[bytes, str] = {}

        def get(thread: int, number: int) -> None:
            blob = container.get_blob_client(object_name(PARTITION, _key(thread, number)))
            assert blob.get_blob_properties().metadata

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            blob = container.get_blob_client(object_name(PARTITION, key))
            # The other side wrote it last, in the first call of each round for a key.
            etag = etags.pop(key, None) or blob.get_blob_properties().etag
            metadata, body = stored(Cell(new, new, VALUE))
            try:
                written = blob.upload_blob(
                    body,
                    overwrite=True,
                    metadata=metadata,
                    etag=etag,
                    match_condition=MatchConditions.IfNotModified,
                )
            except ResourceModifiedError:
                return  # the client sent it twice: an answer was late
            versions[key] = new
            etags[key] = written["etag"]

        yield store, versions, (get, set_if)


@contextmanager
def _gcs() -> Opened:
    with gcs_server(durable=False) as server, open_store(gcs_url(server.port)) as store:
        versions = _fill(store)
        client = storage.Client(
            "none",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": f"http://127.0.0.1:{server.port}"},
        )
        # As many connections as there are threads; it has ten otherwise.
        client._http.mount("http://", HTTPAdapter(pool_maxsize=THREADS))  # noqa: SLF001
        bucket = client.bucket(GCS_BUCKET)
        written: dict[bytes, tuple[Version, int]] = {}

        def get(thread: int, number: int) -> None:
            blob = bucket.get_blob(object_name(PARTITION, _key(thread, number)))
            assert blob is not None
            assert blob.metadata

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            blob = bucket.blob(object_name(PARTITION, key))
            last, generation = written.get(key, (None, 0))
            if last != versions[key]:  # the other side wrote it
                blob.reload()
                generation = blob.generation
            blob.metadata, body = stored(Cell(new, new, VALUE))
            blob.upload_from_string(body, if_generation_match=generation)
            versions[key] = new
            written[key] = new, blob.generation

        yield store, versions, (get, set_if)
        client.close()


@contextmanager
def _cosmos() -> Opened:
    with (
        patch.dict(os.environ, {"AZURE_COSMOS_KEY": "a2V5"}),
        cosmos_server() as server,
        open_store(cosmos_url(server.port)) as store,
    ):
        versions = _fill(store)
        client = CosmosClient(
            f"http://127.0.0.1:{server.port}", "a2V5", enable_endpoint_discovery=False
        )
        container = client.get_database_client("lakebed").get_container_client("kv")
        written: dict[bytes, tuple[Version, str]] = {}

        def get(thread: int, number: int) -> None:
            assert container.read_item(_key(thread, number).hex(), PARTITION.hex())["v"]

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            last, etag = written.get(key, (None, ""))
            if last != versions[key]:  # the other side wrote it
                etag = container.read_item(key.hex(), PARTITION.hex())["_etag"]
            item = {"id": key.hex(), "p": PARTITION.hex(), "w": new.hex(), "s": new.hex()}
            reply = container.replace_item(
                key.hex(),
                item | {"v": b64encode(VALUE).decode()},
                etag=etag,
                match_condition=MatchConditions.IfNotModified,
            )
            versions[key] = new
            written[key] = new, reply["_etag"]

        yield store, versions, (get, set_if)


@contextmanager
def _rocksdb() -> Opened:
    with TemporaryDirectory() as folder, open_store(f"rocksdb:///{folder}/ours") as store:
        versions = _fill(store)
        bare = Rdict(f"{folder}/bare", Options(raw_mode=True))
        waiting = WriteOptions()
        waiting.sync = True
        for key, version in versions.items():
            bare.put(key, version + VALUE)

        def get(thread: int, number: int) -> None:
            assert bare.get(_key(thread, number))

        def set_if(thread: int, number: int) -> None:
            key = _key(thread, number)
            assert bare.get(key)
            bare.put(key, os.urandom(16) + VALUE, waiting)

        yield store, versions, (get, set_if)
        bare.close()


_DATABASES = [
    ("dynamodb", None, _dynamodb, 8),
    ("etcd", None, _etcd, 20),
    ("valkey", None, _valkey, 100),
    ("azblob", None, _azure_blob, 4),
    ("rocksdb", None, _rocksdb, 20),
    ("mysql", "mariadb", _mysql, 50),
    ("cassandra", "cassandra", open_cassandra, 8),
    ("hbase", "hbase", open_hbase, 20),
    ("bigtable", "bigtable", open_bigtable, 40),
    ("spanner", "spanner", open_spanner, 4),
    ("mongodb", "mongodb", open_mongodb, 60),
    ("gs", "gcs", _gcs, 4),
    ("cosmos", "cosmos", _cosmos, 4),
]
"""Name, the server if it is fetched, how it is opened, and calls of a round."""

NAMES = tuple(name for name, *_ in _DATABASES)
