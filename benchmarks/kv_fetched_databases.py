"""Cassandra, HBase, Bigtable, Spanner, MongoDB: store and bare client, for `kv_databases`.

They are measured where `make test-all PARTS=fetched` has fetched their servers. Bigtable's is
Google's emulator, Spanner's is Google's server for tests, and MongoDB's is one of others; these
keep all in memory.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import grpc
from cassandra import ConsistencyLevel, WriteTimeout
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.query import tuple_factory
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport
from google.cloud.spanner_v1 import SpannerClient
from google.cloud.spanner_v1.services.spanner.transports import SpannerGrpcTransport
from pymongo import MongoClient

from benchmarks.kv_postgresql import PARTITION, THREADS, VALUE, Call, _fill, _key
from lakebed.kv import Store, Version, open_store
from lakebed.kv.drivers.cassandra import client as cassandra
from lakebed.kv.drivers.hbase import driver as hbase
from lakebed.kv.drivers.hbase.driver import SERVICE, HBaseLink, parse_url
from lakebed.kv.drivers.spanner import _BEGIN, _READ, _STRONG, _TYPES, _UPDATE, TABLE, _names, _text
from lakebed.kv.fenced import Cell
from lakebed.kv.rows import pack, pack_body, row_name
from lakebed.kv.store import after_prefix
from lakebed.testing.servers.java_databases import (
    cassandra_server,
    cassandra_url,
    hbase_server,
    hbase_url,
)
from lakebed.testing.servers.more_databases import (
    bigtable_server,
    bigtable_url,
    mongodb_server,
    mongodb_url,
    spanner_server,
    spanner_url,
)

Opened = Iterator[tuple[Store, dict[bytes, Version], tuple[Call, Call]]]


def _new() -> Cell:
    mark = Version(os.urandom(16))
    return Cell(mark, mark, VALUE)


@contextmanager
def open_cassandra() -> Opened:
    profile = ExecutionProfile(consistency_level=ConsistencyLevel.QUORUM, row_factory=tuple_factory)
    with (
        cassandra_server() as server,
        open_store(cassandra_url(server.port)) as store,
        Cluster(
            ["127.0.0.1"],
            port=server.port,
            protocol_version=4,
            execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        ) as cluster,
    ):
        versions = _fill(store)
        session = cluster.connect()
        read, replace = (
            session.prepare(text.format(table="lakebed.lakebed_kv"))
            for text in (cassandra.READ, cassandra.REPLACE)
        )

        def get(thread: int, number: int) -> None:
            row = cassandra.row_of(PARTITION, _key(thread, number))
            assert session.execute(read, row).one()

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), _new()
            row = cassandra.row_of(PARTITION, key)
            there = (new.stamp, pack_body(new), *row, versions[key])
            while True:
                with suppress(WriteTimeout):  # threads that met here kept each other from it
                    swapped, *found = session.execute(replace, there).one()
                    assert swapped or found == [new.stamp]
                    break
            versions[key] = new.version

        yield store, versions, (get, set_if)


@contextmanager
def open_hbase() -> Opened:
    with hbase_server() as server, open_store(hbase_url(server.port)) as store:
        versions = _fill(store)
        address = parse_url(hbase_url(server.port))
        idle = [HBaseLink(address, reply_seconds=60.0) for _ in range(THREADS)]

        def get(thread: int, number: int) -> None:
            link = idle.pop()
            name = row_name(PARTITION, _key(thread, number))
            assert link.call.get(b"lakebed", SERVICE.TGet(row=name)).columnValues
            idle.append(link)

        def set_if(thread: int, number: int) -> None:
            link, key, new = idle.pop(), _key(thread, number), _new()
            name = row_name(PARTITION, key)
            columns = [(hbase.STAMP, new.stamp), (hbase.BODY, pack_body(new))]
            put = SERVICE.TPut(
                row=name,
                columnValues=[
                    SERVICE.TColumnValue(family=hbase.FAMILY, qualifier=each, value=value)
                    for each, value in columns
                ],
                durability=SERVICE.TDurability.FSYNC_WAL,
            )
            there = (b"lakebed", name, hbase.FAMILY, hbase.STAMP, versions[key], put)
            assert link.call.checkAndPut(*there)
            versions[key] = new.version
            idle.append(link)

        yield store, versions, (get, set_if)
        for link in idle:
            link.close()


@contextmanager
def open_bigtable() -> Opened:
    table = "projects/project/instances/instance/tables/lakebed"
    with bigtable_server() as server, open_store(bigtable_url(server.port)) as store:
        versions = _fill(store)
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        client = BigtableClient(transport=BigtableGrpcTransport(channel=channel))

        def get(thread: int, number: int) -> None:
            rows = {"row_keys": [row_name(PARTITION, _key(thread, number))]}
            request = {"table_name": table, "rows": rows, "rows_limit": 1}
            (reply,) = client.read_rows(request, retry=None, timeout=60)
            assert reply.chunks

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), _new()
            cell = {
                "family_name": "v",
                "column_qualifier": b"c",
                "timestamp_micros": -1,
                "value": pack(new),
            }
            old = versions[key]
            bounds = {"start_value_closed": old, "end_value_open": after_prefix(old)}
            request = {
                "table_name": table,
                "row_key": row_name(PARTITION, key),
                "predicate_filter": {"value_range_filter": bounds},
                "true_mutations": [{"delete_from_row": {}}, {"set_cell": cell}],
            }
            reply = client.check_and_mutate_row(request, retry=None, timeout=60)
            assert reply.predicate_matched
            versions[key] = new.version

        yield store, versions, (get, set_if)
        client.transport.close()


@contextmanager
def open_spanner() -> Opened:
    database = "projects/project/instances/instance/databases/database"
    with spanner_server() as server, open_store(spanner_url(server.port)) as store:
        versions = _fill(store)
        channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        client = SpannerClient(transport=SpannerGrpcTransport(channel=channel))
        once = {"retry": None, "timeout": 60}
        made = {"database": database, "session": {"multiplexed": True}}
        session = client.create_session(made, **once).name

        def get(thread: int, number: int) -> None:
            request = {
                "session": session,
                "transaction": _STRONG,
                "table": TABLE,
                "columns": _READ,
                "key_set": {"keys": [_names(PARTITION, _key(thread, number))]},
                "limit": 1,
            }
            (reply,) = client.streaming_read(request, **once)
            assert len(reply.values) == len(_READ)

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), _new()
            mark = _text(new.version)
            parameters = {"w": mark, "s": mark, "v": _text(VALUE), "e": None}
            parameters |= {"p": _text(PARTITION), "k": _text(key), "old": _text(versions[key])}
            request = {
                "session": session,
                "transaction": _BEGIN,
                "sql": _UPDATE,
                "params": parameters,
                "param_types": _TYPES,
                "seqno": 1,
            }
            reply = client.execute_sql(request, **once)
            assert reply.stats.row_count_exact == 1
            transaction = reply.metadata.transaction.id
            client.commit({"session": session, "transaction_id": transaction}, **once)
            versions[key] = new.version

        yield store, versions, (get, set_if)
        client.transport.close()


@contextmanager
def open_mongodb() -> Opened:
    with (
        mongodb_server() as server,
        open_store(mongodb_url(server.port)) as store,
        MongoClient[dict[str, object]](mongodb_url(server.port), retryWrites=False) as client,
    ):
        versions = _fill(store)
        collection = client.get_database("lakebed").get_collection("lakebed_kv")

        def get(thread: int, number: int) -> None:
            assert collection.find_one({"_id": row_name(PARTITION, _key(thread, number)).hex()})

        def set_if(thread: int, number: int) -> None:
            key, new = _key(thread, number), Version(os.urandom(16))
            name = row_name(PARTITION, key).hex()
            document = {"_id": name, "s": new, "w": new, "v": VALUE}
            assert collection.replace_one({"_id": name, "s": versions[key]}, document).matched_count
            versions[key] = new

        yield store, versions, (get, set_if)
