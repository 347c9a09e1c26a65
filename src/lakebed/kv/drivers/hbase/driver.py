"""Rows of a table, by the calls of HBase's Thrift server."""

import logging
import re
import select
import socket
import ssl
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TSocket

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.failures import Failures
from lakebed.kv.errors import ForeignStore, InvalidArgument, StoreUnavailable, UnsafeStore
from lakebed.kv.fenced import Cell, CellDatabase, CellPage, FencedStore
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.pool import POOL_SIZE, Pool
from lakebed.kv.rows import list_partitions, pack_body, row_name, split_name, unpack_body
from lakebed.kv.store import Limits, Store, after_prefix
from lakebed.kv.urls import TLS_OPTIONS, pool_size, split_url, tls_context

CONNECT_SECONDS: Final = 2.0
# Busy connections are not polled: every poll lets another thread run first.
POLL_AFTER_SECONDS: Final = 0.02
DEFAULT_PORT: Final = 9090
_OPTIONS: Final = TLS_OPTIONS | {"pool_size"}
_EXAMPLE: Final = "hbase://host:9090/table"
_TABLE: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*:)?[A-Za-z0-9_][A-Za-z0-9_.-]*")

SERVICE: Final = thriftpy2.load(
    str(Path(__file__).parent / "service.thrift"), module_name="lakebed_hbase_thrift"
)

# All exceptions of a call. After an error reported by the server, the connection remains usable.
ERRORS: Final = (TException, OSError)


@dataclass(frozen=True, slots=True)
class HBaseAddress:
    """A parsed URL."""

    host: str
    port: int
    table: str
    pool_size: int
    context: ssl.SSLContext | None


def parse_url(url: str) -> HBaseAddress:
    """Parse the URL of a store; raises as `split_url`."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    table = parts.path.strip("/")
    if not parts.hostname or "@" in parts.netloc or not _TABLE.fullmatch(table):
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with a host and a table and without a password"
        )
    return HBaseAddress(
        parts.hostname,
        parts.port or DEFAULT_PORT,
        table,
        pool_size(options, POOL_SIZE),
        tls_context(options),
    )


class HBaseLink:
    """A connection, for a single call at a time."""

    def __init__(self, address: HBaseAddress, *, reply_seconds: float) -> None:
        self._socket = socket.create_connection(
            (address.host, address.port), timeout=CONNECT_SECONDS
        )
        with closing_on_error(self.close):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.context is not None:
                self._socket = address.context.wrap_socket(
                    self._socket, server_hostname=address.host
                )
            self._socket.settimeout(reply_seconds)
            self._input = select.poll()
            self._input.register(self._socket.fileno(), select.POLLIN)
        protocol = TCyBinaryProtocol(TCyBufferedTransport(TSocket(sock=self._socket)))
        self.call = TClient(SERVICE.THBaseService, protocol)
        self._used_at = monotonic()

    def is_usable(self) -> bool:
        """Return whether the connection is, as far as known locally, still open.

        An idle connection with data to read has been closed by the server.
        """
        now = monotonic()
        idle_seconds, self._used_at = now - self._used_at, now
        return idle_seconds < POLL_AFTER_SECONDS or not self._input.poll(0)

    def close(self) -> None:
        """Close the connection; the server may still be running the last request."""
        self._socket.close()


def explain(error: BaseException) -> str:
    """Return the reason of an error, in one line, without the server's stack trace."""
    text = str(getattr(error, "message", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


ResultT = TypeVar("ResultT")

REPLY_SECONDS: Final = 5.0
OPEN_SECONDS: Final = 30.0

# Names are short because every cell contains them.
FAMILY: Final = b"d"
STAMP: Final = b"s"
BODY: Final = b"b"
_FOR_EVER: Final = 2**31 - 1
"""HBase's value for an unlimited time to live."""

# Message of the Thrift server when it refuses a write itself.
_READ_ONLY: Final = "Thrift Server is in Read-only mode"

_LOGGER: Final = logging.getLogger(__name__)


def open_driver(url: str, runtime: Runtime) -> Store:
    """Open the store in an HBase table; see `lakebed.kv.open_store`."""
    return FencedStore(HBaseCells(url), runtime)


class HBaseCells(CellDatabase):
    """The rows of a table. Raises as `lakebed.kv.open_store`."""

    name = "hbase"
    limits = Limits(partition_bytes=1024, key_bytes=4096, value_bytes=8 << 20)
    shared_between_processes = True
    tombstone_seconds = None
    erases = True

    def __init__(self, url: str, *, reply_seconds: float = REPLY_SECONDS) -> None:
        address = parse_url(url)
        self._table = address.table.encode()
        self._pool = Pool(
            partial(HBaseLink, address, reply_seconds=reply_seconds),
            address.pool_size,
            database="hbase",
            explain=explain,
        )
        # Creating a table takes longer than writing a row.
        opening = Pool(
            partial(HBaseLink, address, reply_seconds=max(OPEN_SECONDS, reply_seconds)),
            1,
            database="hbase",
            explain=explain,
        )
        with closing(opening), closing_on_error(self.close):
            _prepare_table(opening, address.table)

    def read(self, partition: bytes, key: bytes) -> Cell | None:
        get = SERVICE.TGet(row=row_name(partition, key))
        found = _read(self._pool, lambda call: call.get(self._table, get))
        return _cell(found) if found.columnValues else None

    def swap(self, partition: bytes, key: bytes, stamp: bytes | None, new: Cell) -> Cell | None:
        name = row_name(partition, key)
        put = SERVICE.TPut(
            row=name,
            columnValues=[_column(STAMP, new.stamp), _column(BODY, pack_body(new))],
            durability=SERVICE.TDurability.FSYNC_WAL,
        )
        try:
            # A stamp of None requires that the row has no stamp.
            swapped = _call(
                self._pool,
                lambda call: call.checkAndPut(self._table, name, FAMILY, STAMP, stamp, put),
            )
        except ERRORS as error:
            raise _FAILURES.of_write(error) from error
        return new if swapped else self.read(partition, key)

    def erase(self, partition: bytes, key: bytes, stamp: bytes) -> None:
        name = row_name(partition, key)
        delete = SERVICE.TDelete(row=name, durability=SERVICE.TDurability.FSYNC_WAL)
        try:
            _call(
                self._pool,
                lambda call: call.checkAndDelete(self._table, name, FAMILY, STAMP, stamp, delete),
            )
        except ERRORS as error:
            raise _FAILURES.of_write(error) from error

    def page(self, partition: bytes, start: bytes, limit: int) -> CellPage:
        prefix = row_name(partition)
        rows = self._rows(prefix + start, after_prefix(prefix), limit, [STAMP, BODY])
        cells = [(split_name(row.row)[1], _cell(row)) for row in rows]
        return cells, cells[-1][0] + b"\x00" if len(cells) == limit else None

    def partition_page(self, cursor: bytes) -> tuple[list[bytes], bytes | None]:
        def first_name(start: bytes) -> bytes | None:
            rows = self._rows(start, b"", 1, [STAMP])
            return rows[0].row if rows else None

        return list_partitions(first_name, cursor)

    def close(self) -> None:
        self._pool.close()

    def _rows(self, first: bytes, end: bytes, limit: int, columns: list[bytes]) -> list[Any]:
        scan = SERVICE.TScan(
            startRow=first,
            stopRow=end,
            columns=[SERVICE.TColumn(family=FAMILY, qualifier=each) for each in columns],
            caching=limit,
            limit=limit,
        )
        return _read(self._pool, lambda call: call.getScannerResults(self._table, scan, limit))


def _call(pool: Pool[HBaseLink], request: Callable[[TClient], ResultT]) -> ResultT:
    """Make a call on a connection, and keep the connection if the call was answered."""
    link = pool.take()
    kept: HBaseLink | None = None
    try:
        answer = request(link.call)
        kept = link
    except SERVICE.TIOError:
        kept = link
        raise
    finally:
        pool.give_back(link, kept)
    return answer


def _read(pool: Pool[HBaseLink], request: Callable[[TClient], ResultT]) -> ResultT:
    return _FAILURES.read(lambda: _call(pool, request))


_FAILURES: Final = Failures(
    "hbase",
    ERRORS,
    # An error reported by HBase does not mean refused: the Thrift server may have made several
    # attempts, and an earlier one may have been applied.
    was_refused=lambda error: _READ_ONLY in str(getattr(error, "message", "")),
    was_not_sent=lambda _: False,  # the pool connects
    explain=explain,
)


def _prepare_table(pool: Pool[HBaseLink], name: str) -> None:
    """Create the table if missing; reject a foreign or unsafe table."""
    namespace, _, qualifier = name.rpartition(":")
    table = SERVICE.TTableName(ns=namespace.encode() or None, qualifier=qualifier.encode())
    if not _read(pool, lambda call: call.tableExists(table)):
        family = SERVICE.TColumnFamilyDescriptor(name=FAMILY, maxVersions=1)
        made = SERVICE.TTableDescriptor(tableName=table, columns=[family])
        try:
            _call(pool, lambda call: call.createTable(made, None))
            _LOGGER.info("created the table %s", name)
        except SERVICE.TIOError as error:
            # Another process was first; otherwise the next call reports the error.
            _LOGGER.info("did not create the table %s: %s", name, explain(error))
        except ERRORS as error:
            raise StoreUnavailable(f"cannot create the table {name}: {explain(error)}") from error
    columns = _read(pool, lambda call: call.getTableDescriptor(table)).columns
    families = {family.name: family for family in columns}
    if list(families) != [FAMILY]:
        found = ", ".join(each.decode(errors="replace") for each in sorted(families))
        raise ForeignStore(
            f"the table {name} is not a Lakebed store: its column families are {found or 'none'}"
        )
    seconds = families[FAMILY].timeToLive
    if seconds not in {None, _FOR_EVER}:
        raise UnsafeStore(
            f"the table {name} may lose acknowledged writes: the time to live of its column family"
            f" {FAMILY.decode()} is {seconds} seconds and must be FOREVER"
        )


def _column(name: bytes, value: bytes) -> object:
    return SERVICE.TColumnValue(family=FAMILY, qualifier=name, value=value)


def _cell(row: Any) -> Cell:
    columns = {column.qualifier: column.value for column in row.columnValues}
    return unpack_body(columns[STAMP], columns[BODY])
