"""A connection on which nothing waits for ever, and which can be proved to have ended.

There are two ways to ask. `execute` is a cursor of psycopg, for what is asked once for each
connection. `ask` and `look_up` are for the statements of the store: parameters and values are bytes
in the form of the protocol, so nothing has to find out how to convert them, and waiting is one call
of ``poll``. That takes a third of the processor time of a cursor, and a call to the store is little
else.
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
# Busy connections are not looked at: every look lets another thread run first.
LOOK_AFTER_SECONDS: Final = 0.02
FIRST_PAUSE_SECONDS: Final = 0.001
LONGEST_PAUSE_SECONDS: Final = 0.1
NEAR_SECONDS: Final = 0.00025
"""A server that answers within this is near: on this machine, or beside it."""
_FORGET_SECONDS: Final = NEAR_SECONDS / 16
_NEAR_WAIT_MS: Final = 1

PIPED_BYTES: Final = 32 << 10
"""The library sends what is larger before it adds the message that commits it."""

_SUCCESSES: Final = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTimeouts:
    """How long each step of a call may take."""

    connect_seconds: int = 2
    """To connect to one address of the server; the library takes no less than this."""

    start_seconds: float = 5.0
    """From the beginning of a write until the server starts on it; later it refuses it."""

    run_seconds: float = 5.0
    """From there until the server has done its work or given up."""

    reply_seconds: float = 12.0
    """From the beginning of a call until its reply. Longer than the two before together, so that
    a slow server gives its own answer."""

    @property
    def settled_seconds(self) -> float:
        """From the beginning of a write until it can no longer be applied, whatever happened."""
        return self.start_seconds + self.run_seconds + CLOCK_MARGIN_SECONDS


class Question(NamedTuple):
    """A statement of the store, and its parameters in the binary form of the protocol."""

    statement: LiteralString
    parameters: Sequence[bytes]

    def due_by(self, deadline: float) -> "Question":
        """Return a write with its deadline."""
        return Question(self.statement, (wire.float8(deadline), *self.parameters))


class Answers(NamedTuple):
    """What came of a write that was committed, and of the read behind it."""

    written: PGresult
    found: PGresult | None = None
    """Nothing, if the read failed or there was none."""
    error: psycopg.Error | None = None
    """Why the read failed; the connection is not to be used again."""


@dataclass(frozen=True, slots=True)
class BackendProcess:
    """A process that serves a connection. Numbers are used again; one with its times is not."""

    pid: int
    started: int
    server_started: int


class _BoundedConnection(psycopg.Connection[Row]):
    """A connection on which nothing waits longer than `reply_seconds`."""

    reply_seconds: float | None = None

    def wait(
        self, gen: PQGen[ReturnT], interval: float = 0.1, timeout: float | None = None
    ) -> ReturnT:
        return super().wait(gen, interval, self.reply_seconds if timeout is None else timeout)


class PostgresLink:
    """One connection with what it takes to end the process that serves it."""

    def __init__(
        self, connection: _BoundedConnection, patience: PostgresTimeouts, runtime: Runtime
    ) -> None:
        self._connection = connection
        self._cursor = psycopg.RawCursor(connection)
        self._patience = patience
        self._runtime = runtime
        self.backend, clock = self._identify()
        self._connected_at = self._used_at = runtime.monotonic()
        # The clock was read at some moment before this one. Taking it for this moment makes the
        # server's clock look slow, and deadlines early.
        self._server_clock_offset = clock - self._connected_at
        self._input = select.poll()
        self._input.register(connection.fileno(), select.POLLIN)
        self._room = select.poll()
        self._room.register(connection.fileno(), select.POLLIN | select.POLLOUT)
        self._prepared: dict[str, bytes] = {}
        self._least_seconds = 0.0
        """The least that replies to reads took of late."""

    @classmethod
    def connect(cls, conninfo: str, patience: PostgresTimeouts, runtime: Runtime) -> Self:
        """Connect to the primary server.

        Raises:
            psycopg.Error: It cannot be reached, or refuses.
        """
        connection = _BoundedConnection.connect(
            conninfo,
            autocommit=True,
            connect_timeout=patience.connect_seconds,
            # A standby lags behind: what it reads may be old.
            target_session_attrs="read-write",
        )
        connection.reply_seconds = patience.reply_seconds
        try:
            return cls(connection, patience, runtime)
        except BaseException:
            connection.close()
            raise

    def execute(
        self, statement: LiteralString, parameters: Sequence[object]
    ) -> psycopg.Cursor[Row]:
        """Run a statement and wait for the whole reply.

        Raises:
            psycopg.Error: See `rolled_back` for what it means.
        """
        about_to_wait()
        cursor = self._cursor.execute(statement, parameters, prepare=True, binary=True)
        if self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError("the connection ended before the reply was complete")
        return cursor

    def ask(self, write: Question, read: Question | None = None) -> Answers:
        """Run a write, and behind its commit a read; wait for the whole replies.

        Raises:
            psycopg.Error: Of the write; see `rolled_back` for what it means.
        """
        give_up_at = self._runtime.monotonic() + self._patience.reply_seconds
        if read is not None and sum(map(len, write.parameters)) <= PIPED_BYTES:
            return self._ask_both(write, read, give_up_at)
        self._send(*write, give_up_at)
        written = self._reply(give_up_at)
        if read is None:
            return Answers(written)
        try:
            self._send(*read, give_up_at)
            return Answers(written, self._reply(give_up_at))
        except psycopg.Error as error:
            return Answers(written, error=error)

    def _ask_both(self, write: Question, read: Question, give_up_at: float) -> Answers:
        """Send both at once.

        Each ends with a message of its own that commits it, as if it had been asked alone: the read
        sees all that was committed before the write was, and the write goes in one piece with what
        commits it, so that no part of it can come late.
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
            return Answers(written, error=error)
        _check(written)
        if found.status not in _SUCCESSES:
            return Answers(written, error=error_from_result(found))
        return Answers(written, found)

    def look_up(self, statement: LiteralString, parameters: Sequence[bytes]) -> PGresult:
        """Run a statement that reads, as `ask` does.

        A server that is near answers sooner than another thread has taken over the work of this
        one, which it would do at the first sign of waiting. So this waits for such an answer, for a
        moment, before it says that it waits. How near a server is, the quickest of the last replies
        tells: a busy machine makes the others slow.

        Raises:
            psycopg.Error: See `rolled_back` for what it means.
        """
        begun = self._runtime.monotonic()
        give_up_at = begun + self._patience.reply_seconds
        self._send(statement, parameters, give_up_at)
        if self.is_near and self._input.poll(_NEAR_WAIT_MS):
            self._connection.pgconn.consume_input()
        reply = self._reply(give_up_at)
        took = self._runtime.monotonic() - begun
        self._least_seconds = min(took, self._least_seconds + _FORGET_SECONDS)
        return reply

    @property
    def is_near(self) -> bool:
        """Whether a reply may come sooner than another thread could take over."""
        return self._least_seconds < NEAR_SECONDS

    def _send(
        self, statement: LiteralString, parameters: Sequence[bytes], give_up_at: float
    ) -> None:
        """Hand a statement to the library, prepared; what does not fit waits to be sent."""
        name = self._prepare(statement, give_up_at)
        self._connection.pgconn.send_query_prepared(
            name, parameters, _formats(parameters), Format.BINARY
        )

    def _prepare(self, statement: LiteralString, give_up_at: float) -> bytes:
        """Return the name of a statement, which is prepared when it is first asked for."""
        name = self._prepared.get(statement)
        if name is None:
            name = b"lakebed_%d" % len(self._prepared)
            self._connection.pgconn.send_prepare(name, statement.encode())
            self._reply(give_up_at)
            self._prepared[statement] = name
        return name

    def _reply(self, give_up_at: float) -> PGresult:
        """Send what waits to be sent, and return the reply to it once it is complete."""
        self._flush(give_up_at)
        reply: PGresult | None = None
        while (result := self._result(give_up_at)) is not None:
            reply = result
        if reply is not None:
            _check(reply)
        if reply is None or self._connection.pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError("the connection ended before the reply was complete")
        return reply

    def _piped_reply(self, give_up_at: float) -> PGresult:
        """Return the reply to the next statement that was sent, once its transaction has ended.

        It may be that of a failure, which may come behind that of a success: a commit can fail.

        Raises:
            psycopg.Error: The connection ended before.
        """
        reply: PGresult | None = None
        was_end = False
        while True:
            result = self._result(give_up_at)
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                break
            if result is None and was_end:  # there is nothing more to come
                raise psycopg.OperationalError("the connection ended before the reply was complete")
            was_end = result is None
            reply = result or reply
        if reply is None:
            raise psycopg.OperationalError("there was no reply to a statement")
        return reply

    def _flush(self, give_up_at: float) -> None:
        """Send what waits to be sent."""
        connection = self._connection.pgconn
        while connection.flush():
            self._wait(self._room, give_up_at)
            connection.consume_input()

    def _result(self, give_up_at: float) -> PGresult | None:
        """Return the next result, or None behind those of a statement."""
        connection = self._connection.pgconn
        while connection.is_busy():
            self._wait(self._input, give_up_at)
            connection.consume_input()
        return connection.get_result()

    def _wait(self, events: select.poll, give_up_at: float) -> None:
        """Wait until there is something to read, or room to write.

        Raises:
            psycopg.OperationalError: There is nothing in time.
        """
        about_to_wait()
        left = give_up_at - self._runtime.monotonic()
        if left <= 0 or not events.poll(left * 1000):
            seconds = self._patience.reply_seconds
            raise psycopg.OperationalError(f"there was no reply within {seconds:g} seconds")

    def rolled_back(self, error: psycopg.Error) -> bool:
        """Whether an error is the server's word that the statement changed nothing.

        An error that ends the session is not: it may concern something that came later.
        """
        return (
            error.sqlstate is not None
            and error.diag.severity_nonlocalized == "ERROR"
            and self._connection.pgconn.transaction_status == TransactionStatus.IDLE
        )

    def deadline(self) -> float:
        """The latest time, by the server's clock, at which it may start on a write sent now."""
        latest = self._runtime.monotonic() + self._patience.start_seconds
        return latest + self._server_clock_offset

    def is_usable(self) -> bool:
        """Whether the connection is young and, as far as one can tell without asking, still open.

        A server that ends a connection says so: an idle connection with something to read has been
        ended.
        """
        now = self._runtime.monotonic()
        idle_seconds, self._used_at = now - self._used_at, now
        if now - self._connected_at > LIFETIME_SECONDS:
            return False
        return idle_seconds < LOOK_AFTER_SECONDS or not self._input.poll(0)

    def end(self, backend: BackendProcess) -> None:
        """End the process of another connection, and wait until it is gone.

        However long that takes: while the process is listed, its write may yet be applied.

        Raises:
            psycopg.Error: This connection failed; nothing is known.
        """
        if backend.server_started != self.backend.server_started:
            return  # the process went with its server
        process = (backend.pid, backend.started)
        pause = FIRST_PAUSE_SECONDS
        self.execute(statements.TERMINATE, process)
        while self.execute(statements.IS_LISTED, process).fetchone() is not None:
            self._runtime.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        """Close the connection; the server may still be at work on what was sent."""
        self._connection.close()

    def _identify(self) -> tuple[BackendProcess, float]:
        timeout = f"{self._patience.run_seconds * 1000:.0f}ms"
        row = self.execute(statements.IDENTIFY, (timeout,)).fetchone()
        assert row is not None
        backend, clock = BackendProcess(*row[:3]), row[3]
        if backend.pid != self._connection.pgconn.backend_pid:
            raise psycopg.OperationalError(
                "there is a connection pooler in between: a Lakebed store needs connections of its"
                " own to the server"
            )
        return backend, clock


def _formats(parameters: Sequence[bytes]) -> list[Format]:
    return [Format.BINARY] * len(parameters)


def _check(reply: PGresult) -> None:
    """Raise the error that a reply tells of, if it does."""
    if reply.status not in _SUCCESSES:
        raise error_from_result(reply)


def explain(error: BaseException) -> str:
    """Return what went wrong, in one line."""
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((message or str(error)).split()) or type(error).__name__
