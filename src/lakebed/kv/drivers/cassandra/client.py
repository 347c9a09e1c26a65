"""Connections to the nodes of a cluster, and the interpretation of their errors."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import Any, Final
from urllib.parse import unquote
from zlib import crc32

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    ProtocolVersion,
    RequestValidationException,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    ResultSet,
)
from cassandra.connection import ConnectionException
from cassandra.policies import DCAwareRoundRobinPolicy, FallthroughRetryPolicy, TokenAwarePolicy
from cassandra.pool import Host
from cassandra.protocol import ErrorMessage
from cassandra.query import PreparedStatement, tuple_factory

from lakebed.kv.drivers.failures import Failures
from lakebed.kv.errors import InvalidArgument, StoreUnreachable
from lakebed.kv.store import PARTITIONS_PAGE
from lakebed.kv.urls import TLS_OPTIONS, is_on, split_url, tls_context

LANES: Final = 16
"""As in `PAGE`; part of the storage format."""
TABLE: Final = "lakebed_kv"

# The columns of the table. The body is never empty, so that no single cell is ever deleted.
COLUMNS: Final = {"p": "blob", "lane": "tinyint", "k": "blob", "stamp": "blob", "body": "blob"}
# Rows are deleted only when no caller reads them any more, so a row that reappears, from a replica
# that missed its deletion for more than three hours, is harmless. With Cassandra's default of ten
# days, each scan of announcements would read ten days of deleted rows.
CREATE_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS {table}
    (p blob, lane tinyint, k blob, stamp blob, body blob, PRIMARY KEY ((p, lane), k))
    WITH read_repair = 'BLOCKING' AND gc_grace_seconds = 10800
"""
READ: Final = "SELECT stamp, body FROM {table} WHERE p = ? AND lane = ? AND k = ?"
REPLACE: Final = """
    UPDATE {table} SET stamp = ?, body = ? WHERE p = ? AND lane = ? AND k = ? IF stamp = ?
"""
CREATE: Final = """
    INSERT INTO {table} (p, lane, k, stamp, body) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS
"""
ERASE: Final = "DELETE FROM {table} WHERE p = ? AND lane = ? AND k = ? IF stamp = ?"
PAGE: Final = """
    SELECT k, stamp, body FROM {table}
    WHERE p = ? AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND k >= ?
    ORDER BY k LIMIT ?
"""
PARTITIONS: Final = "SELECT DISTINCT p, lane FROM {table}"


def row_of(partition: bytes, key: bytes) -> tuple[bytes, int, bytes]:
    """Return the primary key of a row: partition, lane and key."""
    return partition, crc32(key) % LANES, key


Row = tuple[Any, ...]

CONNECT_SECONDS: Final = 2.0
OPEN_SECONDS: Final = 30.0
DEFAULT_PORT: Final = 9042
_OPTIONS: Final = TLS_OPTIONS | {"durable"}
_EXAMPLE: Final = "cassandra://user:password@host1,host2:9042/keyspace"
_KEYSPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")

# All exceptions of the library for a statement.
ERRORS: Final = (DriverException, ErrorMessage, NoHostAvailable, ConnectionException)


@dataclass(frozen=True, slots=True)
class CassandraAddress:
    """A parsed URL."""

    settings: dict[str, object]
    keyspace: str
    table: str
    """With its keyspace."""
    trusted: bool
    """Whether the cluster is declared to be durable by other means."""


def parse_url(url: str) -> CassandraAddress:
    """Parse the URL of a store; raises as `split_url`."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    keyspace = parts.path.strip("/")
    if not parts.hostname or not _KEYSPACE.fullmatch(keyspace):
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with a host and a keyspace in lower case"
        )
    settings: dict[str, object] = {
        "contact_points": parts.hostname.split(","),
        "port": parts.port or DEFAULT_PORT,
    }
    if parts.username:
        settings["auth_provider"] = PlainTextAuthProvider(
            unquote(parts.username), unquote(parts.password or "")
        )
    context = tls_context(options)
    if context is not None:
        settings["ssl_context"] = context
    return CassandraAddress(settings, keyspace, f"{keyspace}.{TABLE}", is_on(options, "durable"))


class CassandraClient:
    """Connections to the nodes of a cluster, with prepared statements."""

    def __init__(self, address: CassandraAddress, reply_seconds: float) -> None:
        self._table = address.table
        self._prepared: dict[str, PreparedStatement] = {}
        try:
            self.cluster = Cluster(
                **address.settings,
                # Supported by all versions, and needs no checksums computed in Python.
                protocol_version=ProtocolVersion.V4,
                execution_profiles={EXEC_PROFILE_DEFAULT: _profile(reply_seconds)},
                connect_timeout=CONNECT_SECONDS,
                control_connection_timeout=CONNECT_SECONDS,
                schema_metadata_enabled=False,
            )
        except ERRORS as error:
            raise StoreUnreachable(f"cannot find a node of cassandra: {error}") from error
        try:
            self._session = self.cluster.connect()
        except ERRORS as error:
            self.close()
            raise StoreUnreachable(f"cannot reach cassandra: {explain(error)}") from error
        except BaseException:
            self.close()
            raise

    def prepare_statements(self) -> None:
        for text in (READ, CREATE, REPLACE, ERASE, PAGE, PARTITIONS):
            self._prepared[text] = FAILURES.read(
                partial(self._session.prepare, text.format(table=self._table))
            )
        self._prepared[PARTITIONS].fetch_size = PARTITIONS_PAGE
        self._prepared[PAGE].fetch_size = None  # lanes are merged in order only within one page

    def execute(self, statement: str, parameters: Sequence[object], **options: object) -> ResultSet:
        return self._session.execute(self._prepared[statement], parameters, **options)

    def query(self, statement: str, *parameters: object, node: Host | None = None) -> list[Row]:
        """Return the rows of a one-time query."""
        rows: list[Row] = FAILURES.read(
            lambda: self._session.execute(
                statement, parameters or None, timeout=OPEN_SECONDS, host=node
            ).all()
        )
        return rows

    @property
    def is_open(self) -> bool:
        return not self.cluster.is_shutdown

    def close_after(self, seconds: float) -> None:
        """Close the connections when all waiting calls have received a reply or timed out."""
        timer = Timer(seconds, self.close)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        self.cluster.shutdown()


def _profile(reply_seconds: float) -> ExecutionProfile:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        # A retry inside the library could be applied twice.
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=reply_seconds,
        row_factory=tuple_factory,
    )


def explain(error: Exception) -> str:
    """Return the reason of an error; of rejected credentials, without a list of all nodes."""
    reasons = getattr(error, "errors", None)  # some timeouts of the library set a text
    values = reasons.values() if isinstance(reasons, dict) else ()
    refused = [each for each in values if isinstance(each, AuthenticationFailed)]
    return str(refused[0] if refused else error)


FAILURES: Final = Failures(
    "cassandra",
    ERRORS,
    # "Unavailable" does not mean refused: nodes may fail after one of them applied the write.
    was_refused=lambda error: isinstance(error, RequestValidationException),
    was_not_sent=lambda error: isinstance(error, NoHostAvailable),
    explain=explain,
)
