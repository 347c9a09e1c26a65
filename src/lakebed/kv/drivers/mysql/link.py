"""A connection with time limits on every wait, whose end on the server can be verified."""

import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import pymysql
from pymysql.constants import CLIENT, CR, ER

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.mysql import statements
from lakebed.kv.errors import InvalidArgument, StoreUnavailable
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.pool import POOL_SIZE, bound_by_kernel
from lakebed.kv.urls import TLS_OPTIONS, is_on, pool_size, split_url, tls_context

CONNECT_SECONDS: Final = 2
REPLY_SECONDS: Final = 5.0
LIFETIME_SECONDS: Final = 120.0
# Busy connections are not polled: every poll lets another thread run first.
POLL_AFTER_SECONDS: Final = 0.02
DEFAULT_PORT: Final = 3306
_OPTIONS: Final = TLS_OPTIONS | {"pool_size", "durable"}
_EXAMPLE: Final = "mysql://user:password@host:3306/database"

# Error numbers of the client library, which lost a reply; all others are the server's.
_CLIENT_ERRORS: Final = range(2000, 3000)
# The server ends a statement or a connection with these errors, perhaps during a commit.
_ENDINGS: Final = frozenset(
    {ER.SERVER_SHUTDOWN, ER.QUERY_INTERRUPTED, ER.ERROR_DURING_COMMIT, 1927, 1969, 3024}
)

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class MySQLAddress:
    """A parsed URL."""

    settings: dict[str, Any]
    pool_size: int
    trusted: bool
    """Whether the service is declared to be durable by other means."""


def parse_url(url: str) -> MySQLAddress:
    """Parse the URL of a store; raises as `split_url`."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    database = unquote(parts.path.strip("/"))
    if not parts.hostname or not parts.username or not database or "/" in database:
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with a user, a host and a database"
        )
    settings: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port or DEFAULT_PORT,
        "user": unquote(parts.username),
        "password": unquote(parts.password or ""),
        "database": database,
        # Otherwise the library reads all certificates for each connection, and checks none.
        "ssl_disabled": True,
    }
    context = tls_context(options)
    if context is not None:
        del settings["ssl_disabled"]
        settings["ssl"] = context
    return MySQLAddress(settings, pool_size(options, POOL_SIZE), is_on(options, "durable"))


class _Connection(pymysql.Connection):
    """A connection with time-outs enforced by the kernel, unless it is encrypted."""

    # Missing in the library's types.
    _rfile: BinaryIO
    _sock: socket.socket
    _force_close: Callable[[], None]

    def __init__(self, *, reply_seconds: float, **settings: Any) -> None:
        seconds = reply_seconds if "ssl" in settings else None
        super().__init__(
            **settings, defer_connect=True, read_timeout=seconds, write_timeout=seconds
        )
        where = settings["host"], settings["port"]
        try:
            connected = socket.create_connection(where, settings["connect_timeout"])
        except OSError as error:
            reason = f"Can't connect to the server ({error})"
            raise pymysql.OperationalError(CR.CR_CONN_HOST_ERROR, reason) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        bound_by_kernel(connected, reply_seconds)
        self.connect(connected)

    def fileno(self) -> int:
        return self._sock.fileno()

    def abort(self) -> None:
        """Close without a message to the server, unlike `close`, which could wait."""
        self._force_close()

    def _read_bytes(self, count: int) -> bytes:
        try:
            data: bytes | None = self._rfile.read(count)
        except OSError as error:
            data, reason = None, str(error)
        else:
            reason = "timed out" if data is None else "closed"
        if data is None or len(data) < count:
            self._force_close()
            raise pymysql.OperationalError(
                CR.CR_SERVER_LOST, f"Lost connection to the server during a reply ({reason})"
            )
        return data


class MySQLLink:
    """A connection with a named lock, which the server releases when the connection has ended."""

    def __init__(self, address: MySQLAddress, runtime: Runtime, *, reply_seconds: float) -> None:
        """Connect to the primary server."""
        self._runtime = runtime
        self._connection = _Connection(
            **address.settings,
            reply_seconds=reply_seconds,
            autocommit=True,
            charset="utf8mb4",
            connect_timeout=CONNECT_SECONDS,
            sql_mode=statements.SQL_MODE,
            init_command=statements.PREPARE_SESSION,
            # Count matched rows, including unchanged ones.
            client_flag=CLIENT.FOUND_ROWS,
        )
        self._cursor = self._connection.cursor()
        with closing_on_error(self.close):
            self.lock = f"lakebed:{runtime.random_bytes(16).hex()}"
            self._take_own_lock()
            self._connected_at = self._used_at = runtime.monotonic()
            self._input = select.poll()
            self._input.register(self._connection, select.POLLIN)

    def _take_own_lock(self) -> None:
        ((number, read_only, locked),) = self.ask(statements.IDENTIFY, self.lock)
        if number != self._connection.thread_id():  # type: ignore[no-untyped-call] # it has no types
            raise StoreUnavailable(
                "a proxy shares the connections: Lakebed needs direct connections to the server"
            )
        if int(read_only):
            raise StoreUnavailable("the server is read-only: use the primary")
        if locked != 1:
            raise StoreUnavailable("the server did not grant a named lock")

    def ask(self, statement: str, *parameters: object) -> Rows:
        self._cursor.execute(statement, parameters)
        rows: Rows = self._cursor.fetchall()
        return rows

    def change(self, statement: str, parameters: Sequence[object]) -> int:
        """Run a statement and return the number of matched rows."""
        matched: int = self._cursor.execute(statement, parameters)
        return matched

    def is_usable(self) -> bool:
        """Return whether the connection is recent enough and, as far as known locally, still open.

        An idle connection with data to read has been closed by the server.
        """
        now = self._runtime.monotonic()
        idle_seconds, self._used_at = now - self._used_at, now
        if now - self._connected_at > LIFETIME_SECONDS:
            return False
        return idle_seconds < POLL_AFTER_SECONDS or not self._input.poll(0)

    def end(self, lock: str) -> bool:
        """Kill the connection that holds a lock; return whether the server has released the lock.

        Raises:
            pymysql.Error: This connection failed; the state of the other is unknown.
        """
        ((owner,),) = self.ask(statements.OWNER, lock)
        if owner is not None:
            try:
                self.ask(statements.KILL, owner)
            except pymysql.Error as error:
                if code_of(error) != ER.NO_SUCH_THREAD:  # the connection ended by itself
                    raise
        ((taken,),) = self.ask(statements.TAKE_LOCK, lock)
        if taken != 1:
            return False
        self.ask(statements.LET_GO, lock)
        return True

    def close(self) -> None:
        """Close the connection; the server may still be running the last statement."""
        self._connection.abort()


def code_of(error: pymysql.Error) -> int:
    """Return the number of an error, or 0 if it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def is_refusal(error: pymysql.Error) -> bool:
    """Return whether an error proves that the statement changed nothing."""
    code = code_of(error)
    return code > 0 and code not in _CLIENT_ERRORS and code not in _ENDINGS


def explain(error: BaseException) -> str:
    """Return the reason of an error, in one line."""
    text = str(error.args[-1]) if error.args else ""
    return " ".join(text.split()) or type(error).__name__
