"""A connection with time limits on every wait, whose end on the server can be verified.

`execute` uses a cursor of psycopg, for the statements that run once per connection. `write` and
`read` run the statements of the store: parameters and values are bytes in the protocol's binary
form, so no type adaptation is needed, and waiting is one call of ``poll``. This takes a third of
the processor time of a cursor, and processor time dominates the cost of a call to the store.
"""

import select
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString, NamedTuple, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult

from lakebed.base.runtime import Runtime, about_to_wait
from lakebed.kv.drivers.postgresql import statements, wire

ReturnT = TypeVar("ReturnT")
Row = tuple[Any, ...]

CLOCK_MARGIN_SECONDS: Final = 0.5
LIFETIME_SECONDS: Final = 120.0
# Busy connections are not polled: every poll lets another thread run first.
POLL_AFTER_SECONDS: Final = 0.02
FIRST_PAUSE_SECONDS: Final = 0.001
LONGEST_PAUSE_SECONDS: Final = 0.1
NEAR_SECONDS: Final = 0.00025
"""Latency of a server on this machine or in the same data center."""
_FORGET_SECONDS: Final = NEAR_SECONDS / 16
_NEAR_WAIT_MS: Final = 1

PIPED_BYTES: Final = 32 << 10
"""The library flushes larger messages before the sync message that commits the statement."""

_SUCCESSES: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTimeouts:
    """Time limits of the steps of a call."""

    connect_seconds: int = 2
    """To connect to one address of the server; the minimum of the library."""

    start_seconds: float = 5.0
    """From the start of a write until the server begins it; later the server refuses it."""

    run_seconds: float = 5.0
    """From there until the server has finished or timed out."""

    reply_seconds: float = 12.0
    """From the start of a call until its reply. Longer than `start_seconds` plus `run_seconds`, so
    that a slow server reports its own timeout."""

    @property
    def settled_seconds(self) -> float:
        """From the start of a write until it surely can no longer be applied."""
        return self.start_seconds + self.run_seconds + CLOCK_MARGIN_SECONDS


class Query(NamedTuple):
    """A statement of the store, and its parameters in the binary form of the protocol."""

    statement: LiteralString
    parameters: Sequence[bytes]

    def with_deadline(self, deadline: float) -> "Query":
        return Query(self.statement, (wire.float8(deadline), *self.parameters))


class Replies(NamedTuple):
    """Results of a committed write, and of the read after it."""

    written: PGresult
    found: PGresult | None = None
    """None if the read failed or was not requested."""
    error: psycopg.Error | None = None
    """The error of the read; the connection must not be used again."""


@dataclass(frozen=True, slots=True)
class BackendProcess:
    """The process that serves a connection. The start times distinguish reused process ids."""

    pid: int
    started: int
    server_started: int


class _BoundedConnection(psycopg.Connection[Row]):
    """A connection on which no wait exceeds `reply_seconds`."""

    reply_seconds: float | None = None

    def wait(
        self, gen: PQGen[ReturnT], interval: float = 0.1, timeout: float | None = None
    ) -> ReturnT:
        return super().wait(gen, interval, self.reply_seconds if timeout is None else timeout)


class PostgresLink:
    """A connection that knows its backend process, so that another connection can terminate it."""

    def __init__(
        self, connection: _BoundedConnection, timeouts: PostgresTimeouts, runtime: Runtime
    ) -> None:
        self._connection = connection
        self._cursor = psycopg.RawCursor(connection)
        self._timeouts = timeouts
        self._runtime = runtime
        self.backend, clock = self._identify()
        self._connected_at = self._used_at = runtime.monotonic()
        # The clock was read at an unknown earlier moment. Assuming this moment makes the server's
        # clock appear slow, and deadlines early.
        self._server_clock_offset = clock - self._connected_at
        self._input = select.poll()
        self._input.register(connection.fileno(), select.POLLIN)
        self._writable = select.poll()
        self._writable.register(connection.fileno(), select.POLLIN | select.POLLOUT)
        self._prepared: dict[str, bytes] = {}
        self._least_seconds = 0.0
        """Lowest latency of recent reads."""

    @classmethod
    def connect(cls, conninfo: str, timeouts: PostgresTimeouts, runtime: Runtime) -> Self:
        """Connect to the primary server."""
        connection = _BoundedConnection.connect(
            conninfo,
            autocommit=True,
            connect_timeout=timeouts.connect_seconds,
            # A standby lags behind: its reads may be stale.
            target_session_attrs="read-write",
        )
        connection.reply_seconds = timeouts.reply_seconds
        try:
            return cls(connection, timeouts, runtime)
        except BaseException:
            connection.close()
            raise

    def execute(
        self, statement: LiteralString, parameters: Sequence[object]
    ) -> psycopg.Cursor[Row]:
        """Run a statement and wait for the complete reply."""
        about_to_wait()
        cursor = self._cursor.execute(statement, parameters, prepare=True, binary=True)
        if self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError(
                "the connection was closed before the reply was complete"
            )
        return cursor

    def write(self, write: Query, read: Query | None = None) -> Replies:
        """Run a write, and after its commit a read; wait for the complete replies.

        Raises:
            psycopg.Error: Of the write; for its meaning see `rolled_back`.
        """
        give_up_at = self._runtime.monotonic() + self._timeouts.reply_seconds
        if read is not None and sum(map(len, write.parameters)) <= PIPED_BYTES:
            return self._write_and_read(write, read, give_up_at)
        self._send(*write, give_up_at)
        written = self._reply(give_up_at)
        if read is None:
            return Replies(written)
        try:
            self._send(*read, give_up_at)
            return Replies(written, self._reply(give_up_at))
        except psycopg.Error as error:
            return Replies(written, error=error)

    def _write_and_read(self, write: Query, read: Query, give_up_at: float) -> Replies:
        """Send both statements in a pipeline, each followed by its own sync message.

        Each sync commits its statement, as if sent alone: the read sees all commits before the
        write's. The write is sent in one piece with its sync, so that no part of it can arrive
        late.
        """
        connection = self._connection.pgconn
        names = [self._prepare(each.statement, give_up_at) for each in (write, read)]
        connection.enter_pipeline_mode()
        for name, (_, parameters) in zip(names, (write, read), strict=True):
            connection.send_query_prepared(name, parameters, _formats(parameters), Format.BINARY)
            connection.pipeline_sync()
        self._flush(give_up_at)
        written = self._piped_reply(give_up_at)
        try:
            found = self._piped_reply(give_up_at)
            connection.exit_pipeline_mode()
        except psycopg.Error as error:
            _check(written)
            return Replies(written, error=error)
        _check(written)
        if found.status not in _SUCCESSES:
            return Replies(written, error=error_from_result(found))
        return Replies(written, found)

    def read(self, statement: LiteralString, parameters: Sequence[bytes]) -> PGresult:
        """Run a reading statement, as `write` does.

        A near server replies sooner than another thread takes over at the first sign of waiting. So
        poll briefly before releasing the interpreter. Whether a server is near is estimated by the
        lowest latency of recent replies: on a busy machine the others are slow.

        Raises:
            psycopg.Error: For its meaning see `rolled_back`.
        """
        begun = self._runtime.monotonic()
        give_up_at = begun + self._timeouts.reply_seconds
        self._send(statement, parameters, give_up_at)
        if self.expects_reply_soon and self._input.poll(_NEAR_WAIT_MS):
            self._connection.pgconn.consume_input()
        reply = self._reply(give_up_at)
        took = self._runtime.monotonic() - begun
        self._least_seconds = min(took, self._least_seconds + _FORGET_SECONDS)
        return reply

    @property
    def expects_reply_soon(self) -> bool:
        """Return whether a reply may arrive sooner than another thread could take over."""
        return self._least_seconds < NEAR_SECONDS

    def _send(
        self, statement: LiteralString, parameters: Sequence[bytes], give_up_at: float
    ) -> None:
        """Pass a prepared statement to the library, which buffers unsent data."""
        name = self._prepare(statement, give_up_at)
        self._connection.pgconn.send_query_prepared(
            name, parameters, _formats(parameters), Format.BINARY
        )

    def _prepare(self, statement: LiteralString, give_up_at: float) -> bytes:
        """Return the name of a statement; prepare it on first use."""
        name = self._prepared.get(statement)
        if name is None:
            name = b"lakebed_%d" % len(self._prepared)
            self._connection.pgconn.send_prepare(name, statement.encode())
            self._reply(give_up_at)
            self._prepared[statement] = name
        return name

    def _reply(self, give_up_at: float) -> PGresult:
        """Send buffered data, and return the complete reply."""
        self._flush(give_up_at)
        reply: PGresult | None = None
        while (result := self._result(give_up_at)) is not None:
            reply = result
        if reply is not None:
            _check(reply)
        if reply is None or self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError(
                "the connection was closed before the reply was complete"
            )
        return reply

    def _piped_reply(self, give_up_at: float) -> PGresult:
        """Return the reply to the next pipelined statement, once its transaction has ended.

        The reply may be an error after a success: a commit can fail.
        """
        reply: PGresult | None = None
        was_end = False
        while True:
            result = self._result(give_up_at)
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                break
            if result is None and was_end:  # no more results
                raise psycopg.OperationalError(
                    "the connection was closed before the reply was complete"
                )
            was_end = result is None
            reply = result or reply
        if reply is None:
            raise psycopg.OperationalError("no reply to a statement")
        return reply

    def _flush(self, give_up_at: float) -> None:
        """Send buffered data."""
        connection = self._connection.pgconn
        while connection.flush():
            self._wait(self._writable, give_up_at)
            connection.consume_input()

    def _result(self, give_up_at: float) -> PGresult | None:
        """Return the next result, or None after the last result of a statement."""
        connection = self._connection.pgconn
        while connection.is_busy():
            self._wait(self._input, give_up_at)
            connection.consume_input()
        return connection.get_result()

    def _wait(self, events: select.poll, give_up_at: float) -> None:
        """Wait until the socket is readable or writable, or raise after the time limit."""
        about_to_wait()
        left = give_up_at - self._runtime.monotonic()
        if left <= 0 or not events.poll(left * 1000):
            seconds = self._timeouts.reply_seconds
            raise psycopg.OperationalError(f"no reply within {seconds:g} seconds")

    def rolled_back(self, error: psycopg.Error) -> bool:
        """Return whether an error proves that the statement changed nothing.

        An error that ends the session does not: it may refer to a later event.
        """
        return (
            error.sqlstate is not None
            and error.diag.severity_nonlocalized == "ERROR"
            and self._connection.pgconn.transaction_status == TransactionStatus.IDLE
        )

    def deadline(self) -> float:
        """Return the latest time, by the server's clock, to begin a write sent now."""
        latest = self._runtime.monotonic() + self._timeouts.start_seconds
        return latest + self._server_clock_offset

    def is_usable(self) -> bool:
        """Return whether the connection is recent enough and, as far as known locally, still open.

        A server notifies before it closes a connection: an idle connection with data to read has
        been closed.
        """
        now = self._runtime.monotonic()
        idle_seconds, self._used_at = now - self._used_at, now
        if now - self._connected_at > LIFETIME_SECONDS:
            return False
        return idle_seconds < POLL_AFTER_SECONDS or not self._input.poll(0)

    def end(self, backend: BackendProcess) -> None:
        """Terminate the process of another connection, and wait until it has ended.

        Without a time limit: while the process is listed, its write may still be applied.

        Raises:
            psycopg.Error: This connection failed; the state of the other is unknown.
        """
        if backend.server_started != self.backend.server_started:
            return  # the process ended with its server
        process = (backend.pid, backend.started)
        pause = FIRST_PAUSE_SECONDS
        self.execute(statements.TERMINATE, process)
        while self.execute(statements.IS_LISTED, process).fetchone() is not None:
            self._runtime.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connection; the server may still be running the last statement."""
        self._connection.close()

    def _identify(self) -> tuple[BackendProcess, float]:
        timeout = f"{self._timeouts.run_seconds * 1000:.0f}ms"
        row = self.execute(statements.IDENTIFY, (timeout,)).fetchone()
        assert row is not None
        backend, clock = BackendProcess(*row[:3]), row[3]
        if backend.pid != self._connection.pgconn.backend_pid:
            raise psycopg.OperationalError(
                "a connection pooler is in use: Lakebed needs direct connections to the server"
            )
        return backend, clock


def _formats(parameters: Sequence[bytes]) -> list[Format]:
    return [Format.BINARY] * len(parameters)


def _check(reply: PGresult) -> None:
    if reply.status not in _SUCCESSES:
        raise error_from_result(reply)


def explain(error: BaseException) -> str:
    """Return the reason of an error, in one line."""
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((message or str(error)).split()) or type(error).__name__
