"""Checks and table creation when a store is opened."""

import logging
from typing import Final

from cassandra import RequestValidationException

from lakebed.kv.drivers.cassandra.client import CassandraAddress, CassandraClient
from lakebed.kv.drivers.cassandra.statements import COLUMNS, CREATE_TABLE, TABLE
from lakebed.kv.errors import ForeignStore, StoreUnavailable, UnsafeStore

OLDEST_VERSION: Final = (4, 0)
_DURABLE: Final = frozenset({"batch", "group"})

_LOGGER: Final = logging.getLogger(__name__)


def prepare(client: CassandraClient, address: CassandraAddress) -> None:
    """Create the table if missing; reject a foreign table or an unsafe configuration."""
    _check_version(client)
    if not address.trusted:
        _check_nodes(client)
    _check_keyspace(client, address.keyspace)
    columns = _columns(client, address.keyspace)
    if not columns:
        client.query(CREATE_TABLE.format(table=address.table))
        _LOGGER.info("initialized the table %s", address.table)
        columns = _columns(client, address.keyspace)
    if columns != COLUMNS:
        found = ", ".join(f"{name} {kind}" for name, kind in sorted(columns.items()))
        raise ForeignStore(
            f"the table {TABLE} of the keyspace is not a Lakebed store: its columns are {found}"
        )
    _check_table(client, address.keyspace)


def _check_version(client: CassandraClient) -> None:
    ((version,),) = client.query("SELECT release_version FROM system.local")
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < OLDEST_VERSION:
        raise ForeignStore(f"cassandra {version} is too old: 4.0 or newer is required")


def _check_nodes(client: CassandraClient) -> None:
    """Reject nodes that acknowledge a write before it is on disk."""
    statement = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'"
    wrong: list[str] = []
    for node in client.cluster.metadata.all_hosts():
        if node.is_up is False:
            continue
        try:
            rows = client.query(statement, node=node)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, RequestValidationException):
                raise
            rows = [("not told",)]
        if rows[0][0] not in _DURABLE:
            wrong.append(f"commitlog_sync of {node.address} is {rows[0][0]}")
    if wrong:
        raise UnsafeStore(
            f"nodes may lose acknowledged writes: {'; '.join(wrong)}, and must be batch or group."
            " Change the setting, or add ?durable=true if replicas on several machines are"
            " sufficient"
        )


def _check_keyspace(client: CassandraClient, keyspace: str) -> None:
    rows = client.query(
        "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = %s", keyspace
    )
    if not rows:
        raise StoreUnavailable(
            f"the keyspace {keyspace} does not exist: create it with the number of replicas you"
            " need (CREATE KEYSPACE … WITH replication = …)"
        )
    if not rows[0][0]:
        raise UnsafeStore(
            f"the keyspace {keyspace} may lose acknowledged writes: durable_writes is false and"
            " must be true"
        )


def _columns(client: CassandraClient, keyspace: str) -> dict[str, str]:
    rows = client.query(
        "SELECT column_name, type FROM system_schema.columns"
        " WHERE keyspace_name = %s AND table_name = %s",
        keyspace,
        TABLE,
    )
    return dict(rows)


def _check_table(client: CassandraClient, keyspace: str) -> None:
    ((seconds, repair),) = client.query(
        "SELECT default_time_to_live, read_repair FROM system_schema.tables"
        " WHERE keyspace_name = %s AND table_name = %s",
        keyspace,
        TABLE,
    )
    if seconds:
        raise UnsafeStore(
            f"the table {TABLE} may lose acknowledged writes: default_time_to_live is {seconds}"
            " and must be 0"
        )
    if repair != "BLOCKING":
        raise UnsafeStore(
            f"reads of the table {TABLE} may be stale: read_repair is {repair} and must be BLOCKING"
        )
