"""Rows of a table, changed by lightweight transactions."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from cassandra import OperationTimedOut, RequestValidationException
from cassandra.cluster import NoHostAvailable, ResultSet
from cassandra.connection import ConnectionException

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.cassandra.client import (
    COLUMNS,
    CREATE,
    CREATE_TABLE,
    ERASE,
    ERRORS,
    FAILURES,
    PAGE,
    PARTITIONS,
    READ,
    REPLACE,
    TABLE,
    CassandraAddress,
    CassandraClient,
    parse_url,
    row_of,
)
from lakebed.kv.errors import ForeignStore, StoreUnavailable, StoreUnreachable, UnsafeStore
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.rows import pack_body, unpack_body
from lakebed.kv.store import Limits, Store

REPLY_SECONDS: Final = 5.0
LOCKS: Final = 251
"""Number of locks per process, shared by the lanes of all partitions."""


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a keyspace; see `lakebed.kv.open_store`."""
    return FencedStore(CassandraCells(url, runtime), runtime)


class CassandraCells(CellDatabase):
    """The rows of a table. Raises as `lakebed.kv.open_store`."""

    name = "cassandra"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=4 << 20)
    shared_between_processes = True
    tombstone_seconds = None
    erases = True

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        self._address = parse_url(url)
        self._locks = [runtime.lock() for _ in range(LOCKS)]
        self._renewing = runtime.lock()
        self._tries = 0
        self._reply_seconds = reply_seconds
        self._process = os.getpid()
        self._retired: list[CassandraClient] = []
        self._client = CassandraClient(self._address, reply_seconds)
        with closing_on_error(self.close):
            prepare(self._client, self._address)
            self._client.prepare_statements()

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        rows = FAILURES.read(lambda: self._execute(READ, row_of(partition, key)).all())
        return unpack_body(*rows[0]) if rows else None

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        row, content = row_of(partition, key), (new.stamp, pack_body(new))
        try:
            with self._locks[hash(row[:2]) % LOCKS]:
                if stamp is None:
                    reply = self._execute(CREATE, (*row, *content))
                else:
                    reply = self._execute(REPLACE, (*content, *row, stamp))
            if reply.one()[0]:
                return new
        except ERRORS as error:
            raise FAILURES.of_write(error) from error
        return self.read(partition, key)

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        row = row_of(partition, key)
        try:
            with self._locks[hash(row[:2]) % LOCKS]:
                self._execute(ERASE, (*row, stamp))
        except ERRORS as error:
            raise FAILURES.of_write(error) from error

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        rows = FAILURES.read(lambda: self._execute(PAGE, (partition, start, limit)).all())
        cells = [(key, unpack_body(stamp, body)) for key, stamp, body in rows]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # The cursor is the server's paging state: partitions are in hash order. A partition with
        # several lanes is returned several times.
        reply = FAILURES.read(lambda: self._execute(PARTITIONS, (), paging_state=cursor or None))
        return [partition for partition, _ in reply.current_rows], reply.paging_state

    def close(self) -> None:
        # A forked child has none of the library's threads, and would wait for them forever.
        if os.getpid() == self._process:
            for client in (self._client, *self._retired):
                client.close()

    def _execute(
        self, statement: str, parameters: Sequence[object], **options: object
    ) -> ResultSet:
        """Run a statement on the current connections; replace them if no node can be reached.

        All threads share a connection per node, so a stuck connection blocks all of them. After a
        missing reply the next call uses new connections.
        """
        client = self._client
        try:
            return client.execute(statement, parameters, **options)
        except NoHostAvailable:
            # The request was not sent.
            return self._renew(client).execute(statement, parameters, **options)
        except (OperationTimedOut, ConnectionException):
            with suppress(StoreUnavailable):  # the error of this call is raised
                self._renew(client)
            raise

    def _renew(self, client: CassandraClient) -> CassandraClient:
        """Replace `client` by new connections, unless another thread already did; return them."""
        tries = self._tries
        with self._renewing:
            if self._client is client:
                if self._tries != tries:
                    raise StoreUnreachable("cannot reach cassandra: another thread just failed to")
                self._tries += 1
                new = CassandraClient(self._address, self._reply_seconds)
                with closing_on_error(new.close):
                    new.prepare_statements()
                self._client = new
                self._retired = [*(each for each in self._retired if each.is_open), client]
                client.close_after(self._reply_seconds)
            return self._client


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
