"""A store in a keyspace of Apache Cassandra (4.0 or newer), shared by processes and machines.

``cassandra://user:password@host1,host2:9042/keyspace``. Any of its nodes will do; they tell the
others. The keyspace must exist, since only its owner knows how many copies it should keep; the
table ``lakebed_kv`` is made in it. ``?tls=true`` for TLS, ``&ca=/path`` for a certificate authority
of one's own.

**Consistency.** All writes are *lightweight transactions* (Paxos), with ``SERIAL`` across all data
centers, and are answered when a quorum has committed them. So a read of a quorum sees all that was
answered before. What a read has seen, later ones see too, since a read that finds the replicas
different first makes a quorum of them alike (``read_repair``, which is checked). A round of Paxos
that nobody finished shows itself to no read, but the next write of that partition finishes it or
makes it void. The fence writes after each lost reply, so nothing of a live process is left behind.

**Lanes.** Paxos agrees on one write at a time for each of Cassandra's partitions, and writers that
meet there keep each other from it until time is up. So the keys of one partition are spread over
16 of Cassandra's by a checksum (column ``lane``), and the threads of a process take turns in each.

**Late application.** A request may be held up and land after its client gave up, so
`lakebed.kv.wrappers.fenced` makes the contract of single rows that are changed on a condition.
There is no time after which Cassandra would refuse a request, so what is deleted leaves a small
row. Nothing is ever deleted in Cassandra's sense: a deleted cell comes back when a node was away
for too long.

**Durability.** A node is refused unless ``commitlog_sync`` is ``batch`` or ``group``: with
``periodic``, which is the default, it answers up to ten seconds before its disk has the write. All
nodes that are up are asked. ``?durable=true`` says that copies on several machines are enough, and
skips that check. A keyspace with ``durable_writes = false`` and a table with a time to live are
always refused.

**Limits.** A node takes 16 MiB at once, and keeps a value twice while it is agreed upon.
"""

import logging
import os
import re
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import unquote
from zlib import crc32

from cassandra import (
    AuthenticationFailed,
    ConsistencyLevel,
    DriverException,
    OperationTimedOut,
    ProtocolVersion,
    RequestValidationException,
)
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import (
    EXEC_PROFILE_DEFAULT,
    Cluster,
    ExecutionProfile,
    NoHostAvailable,
    Session,
)
from cassandra.connection import ConnectionException
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    FallthroughRetryPolicy,
    TokenAwarePolicy,
)
from cassandra.protocol import ErrorMessage
from cassandra.query import tuple_factory

from lakebed.kv.errors import (
    ForeignStore,
    InvalidArgument,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnreachable,
    UnsafeStore,
)
from lakebed.kv.rows import pack_body, unpack_body
from lakebed.kv.store import PARTITIONS_PAGE, Limits, Store
from lakebed.kv.urls import is_on, split_url
from lakebed.kv.wrappers.fenced import Cell, Cells, FencedStore
from lakebed.runtime import Runtime

ResultT = TypeVar("ResultT")

CONNECT_SECONDS: Final = 2.0
REPLY_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 30.0
RECONNECT_SECONDS: Final = 0.25
LANES: Final = 16
"""As in `_PAGE`; what is stored depends on it."""
TURNS: Final = 251
"""How many locks the lanes of all partitions share in a process."""
DEFAULT_PORT: Final = 9042
OLDEST_VERSION: Final = (4, 0)
TABLE: Final = "lakebed_kv"

_OPTIONS: Final = frozenset({"tls", "ca", "durable"})
_EXAMPLE: Final = "cassandra://user:password@host1,host2:9042/keyspace"
_KEYSPACE: Final = re.compile(r"[a-z][a-z0-9_]{0,47}")
_DURABLE: Final = frozenset({"batch", "group"})

# The columns of the table. The body is never empty, so that no cell is ever deleted.
_COLUMNS: Final = {"p": "blob", "lane": "tinyint", "k": "blob", "stamp": "blob", "body": "blob"}
_CREATE_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS lakebed_kv
    (p blob, lane tinyint, k blob, stamp blob, body blob, PRIMARY KEY ((p, lane), k))
    WITH read_repair = 'BLOCKING'
"""
READ: Final = "SELECT stamp, body FROM lakebed_kv WHERE p = ? AND lane = ? AND k = ?"
REPLACE: Final = """
    UPDATE lakebed_kv SET stamp = ?, body = ? WHERE p = ? AND lane = ? AND k = ? IF stamp = ?
"""
_CREATE: Final = """
    INSERT INTO lakebed_kv (p, lane, k, stamp, body) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS
"""
_PAGE: Final = """
    SELECT k, stamp, body FROM lakebed_kv
    WHERE p = ? AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND k >= ?
    ORDER BY k LIMIT ?
"""
_PARTITIONS: Final = "SELECT DISTINCT p, lane FROM lakebed_kv"

# All that the library raises for a statement.
_ERRORS: Final = (DriverException, ErrorMessage, NoHostAvailable, ConnectionException)

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in a keyspace; see `lakebed.kv.open_store`."""
    return FencedStore(CassandraCells(url, runtime), runtime)


@dataclass(frozen=True, slots=True)
class _Address:
    """What a URL says."""

    settings: dict[str, Any]
    keyspace: str
    trusted: bool
    """Whether the cluster is said to be durable by other means."""


class CassandraCells(Cells):
    """The rows of a table.

    Raises:
        InvalidArgument: The URL is malformed.
        ForeignStore: There is a table of our name that is not ours.
        UnsafeStore: The cluster would lose acknowledged writes.
        StoreUnavailable: It cannot be reached, or the keyspace is missing.
    """

    name = "cassandra"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=4 << 20)
    shared_between_processes = True
    tombstone_seconds = None

    def __init__(self, url: str, runtime: Runtime, *, reply_seconds: float = REPLY_SECONDS) -> None:
        address = _parse_url(url)
        self._turns = [runtime.lock() for _ in range(TURNS)]
        self._process = os.getpid()
        self._keyspace = address.keyspace
        self._cluster = Cluster(
            **address.settings,
            # Spoken by all versions, and needs no checksums of the library's in Python.
            protocol_version=ProtocolVersion.V4,
            execution_profiles={EXEC_PROFILE_DEFAULT: _profile(reply_seconds)},
            connect_timeout=CONNECT_SECONDS,
            control_connection_timeout=CONNECT_SECONDS,
            reconnection_policy=ConstantReconnectionPolicy(RECONNECT_SECONDS, max_attempts=None),
            schema_metadata_enabled=False,
        )
        try:
            self._session = self._connect()
            self._prepare(trusted=address.trusted)
            prepare = self._session.prepare
            self._read, self._create, self._replace, self._page, self._partitions = _read(
                lambda: [prepare(text) for text in (READ, _CREATE, REPLACE, _PAGE, _PARTITIONS)]
            )
            self._partitions.fetch_size = PARTITIONS_PAGE
            self._page.fetch_size = None  # rows of several lanes come in order only all at once
        except BaseException:
            self.close()
            raise

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        rows = _read(lambda: self._ask(self._read, row_of(partition, key)).all())
        return unpack_body(*rows[0]) if rows else None

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        row, content = row_of(partition, key), (new.stamp, pack_body(new))
        try:
            with self._turns[hash(row[:2]) % TURNS]:
                if stamp is None:
                    reply = self._ask(self._create, (*row, *content))
                else:
                    reply = self._ask(self._replace, (*content, *row, stamp))
            if reply.one()[0]:
                return new
        except _ERRORS as error:
            raise _failure_of_a_write(error) from error
        return self.read(partition, key)

    def page(
        self, partition: bytes, start: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Cell]], bytes | None]:
        rows = _read(lambda: self._ask(self._page, (partition, start, limit)).all())
        cells = [(key, unpack_body(stamp, body)) for key, stamp, body in rows]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        # The cursor is what the server gave: partitions are in the order of a hash. One that has
        # several lanes comes several times.
        reply = _read(lambda: self._ask(self._partitions, (), paging_state=cursor or None))
        return [partition for partition, _ in reply.current_rows], reply.paging_state

    def close(self) -> None:
        # A forked child has none of the library's threads, and would wait for them for ever.
        if os.getpid() == self._process:
            self._cluster.shutdown()

    def _ask(self, statement: Any, parameters: Sequence[object], **options: Any) -> Any:
        """Ask on the connections that there are; get others for the next call if no reply comes.

        All threads share a connection to a node, which would be stuck for all of them. The old ones
        end when nobody waits on them any more.
        """
        session = self._session
        try:
            return session.execute(statement, parameters, **options)
        except OperationTimedOut:
            if self._session is session:
                with suppress(StoreUnavailable):  # what is raised tells of this call
                    self._session = self._connect()
            raise

    def _connect(self) -> Session:
        try:
            return self._cluster.connect(self._keyspace)
        except RequestValidationException as error:
            raise StoreUnavailable(
                f"cannot use the keyspace {self._keyspace}: {error}. Lakebed does not make one,"
                " since you choose how many copies it keeps (CREATE KEYSPACE … WITH replication)"
            ) from error
        except _ERRORS as error:
            raise StoreUnreachable(f"cannot reach cassandra: {_explain(error)}") from error

    # What is there when it is opened

    def _prepare(self, *, trusted: bool) -> None:
        self._check_version()
        if not trusted:
            self._check_nodes()
        self._check_keyspace()
        columns = self._columns()
        if not columns:
            _read(lambda: self._session.execute(_CREATE_TABLE, timeout=OPEN_SECONDS))
            _LOGGER.info("made sure of the table %s in a keyspace that had none", TABLE)
            columns = self._columns()
        if columns != _COLUMNS:
            found = ", ".join(f"{name} {kind}" for name, kind in sorted(columns.items()))
            raise ForeignStore(
                f"the keyspace has a table {TABLE} that is not Lakebed's: its columns are {found}"
            )
        self._check_table()

    def _check_version(self) -> None:
        ((version,),) = self._tell("SELECT release_version FROM system.local")
        major, minor = (int(part) for part in version.split(".")[:2])
        if (major, minor) < OLDEST_VERSION:
            raise ForeignStore(f"cassandra has version {version}: 4.0 or newer is needed")

    def _check_nodes(self) -> None:
        """Refuse nodes that answer before a write is on their disk."""
        question = "SELECT value FROM system_views.settings WHERE name = 'commitlog_sync'"
        wrong: list[str] = []
        for node in self._cluster.metadata.all_hosts():
            if node.is_up is False:
                continue
            try:
                rows = self._tell(question, host=node)
            except StoreUnavailable as error:
                if not isinstance(error.__cause__, RequestValidationException):
                    raise
                rows = [("not told",)]
            if rows[0][0] not in _DURABLE:
                wrong.append(f"commitlog_sync of {node.address} is {rows[0][0]}")
        if wrong:
            raise UnsafeStore(
                f"nodes would lose acknowledged writes: {'; '.join(wrong)}, and must be batch or"
                " group. Change that, or say by ?durable=true that copies on several machines are"
                " enough"
            )

    def _check_keyspace(self) -> None:
        ((durable,),) = self._tell(
            "SELECT durable_writes FROM system_schema.keyspaces WHERE keyspace_name = %s",
            self._keyspace,
        )
        if not durable:
            raise UnsafeStore(
                f"the keyspace {self._keyspace} would lose acknowledged writes: durable_writes is"
                " false and must be true"
            )

    def _columns(self) -> dict[str, str]:
        rows = self._tell(
            "SELECT column_name, type FROM system_schema.columns"
            " WHERE keyspace_name = %s AND table_name = %s",
            self._keyspace,
            TABLE,
        )
        return dict(rows)

    def _check_table(self) -> None:
        ((seconds, repair),) = self._tell(
            "SELECT default_time_to_live, read_repair FROM system_schema.tables"
            " WHERE keyspace_name = %s AND table_name = %s",
            self._keyspace,
            TABLE,
        )
        if seconds:
            raise UnsafeStore(
                f"the table {TABLE} would lose acknowledged writes: default_time_to_live is"
                f" {seconds} and must be 0"
            )
        if repair != "BLOCKING":
            raise UnsafeStore(
                f"reads of the table {TABLE} may go back in time: read_repair is {repair} and must"
                " be BLOCKING"
            )

    def _tell(self, question: str, *parameters: object, host: Any = None) -> list[Any]:
        rows: list[Any] = _read(
            lambda: self._session.execute(
                question, parameters or None, timeout=OPEN_SECONDS, host=host
            ).all()
        )
        return rows


def row_of(partition: bytes, key: bytes) -> tuple[bytes, int, bytes]:
    """Return the names of a row: its partition, the lane, and the key."""
    return partition, crc32(key) % LANES, key


def _profile(reply_seconds: float) -> ExecutionProfile:
    return ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy()),
        # A request that is repeated inside the library could land twice.
        retry_policy=FallthroughRetryPolicy(),
        consistency_level=ConsistencyLevel.QUORUM,
        serial_consistency_level=ConsistencyLevel.SERIAL,
        request_timeout=reply_seconds,
        row_factory=tuple_factory,
    )


def _parse_url(url: str) -> _Address:
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    keyspace = parts.path.strip("/")
    if not parts.hostname or not _KEYSPACE.fullmatch(keyspace):
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with a host and a keyspace in small letters"
        )
    settings: dict[str, Any] = {
        "contact_points": parts.hostname.split(","),
        "port": parts.port or DEFAULT_PORT,
    }
    if parts.username:
        settings["auth_provider"] = PlainTextAuthProvider(
            unquote(parts.username), unquote(parts.password or "")
        )
    if is_on(options, "tls"):
        try:
            settings["ssl_context"] = ssl.create_default_context(cafile=options.get("ca"))
        except OSError as error:
            raise InvalidArgument(
                f"cannot read the certificates in {options.get('ca')}: {error}"
            ) from None
    return _Address(settings, keyspace, is_on(options, "durable"))


def _read(call: Callable[[], ResultT]) -> ResultT:
    try:
        return call()
    except NoHostAvailable as error:
        raise StoreUnreachable(f"cannot reach cassandra: {_explain(error)}") from error
    except _ERRORS as error:
        raise StoreUnavailable(f"cassandra did not answer: {error}") from error


def _failure_of_a_write(error: Exception) -> OutcomeUnknown:
    """Say whether a write that failed may have been, or may yet be, applied.

    "Unavailable" is no refusal: nodes may have gone after one of them had taken the write.
    """
    if isinstance(error, NoHostAvailable):
        return StoreUnreachable(f"cannot reach cassandra: {_explain(error)}")
    if isinstance(error, RequestValidationException):
        return StoreUnavailable(f"cassandra refused the write: {error}")
    return OutcomeUnknown(f"cassandra did not say what became of a write: {error}")


def _explain(error: Exception) -> str:
    """Return what went wrong, without a list of all nodes where they refuse the user."""
    reasons = getattr(error, "errors", None) or {}
    refused = [each for each in dict(reasons).values() if isinstance(each, AuthenticationFailed)]
    return str(refused[0] if refused else error)
