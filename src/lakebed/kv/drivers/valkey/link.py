"""Connections to a server, and deadlines by its clock.

A call makes as few system calls as possible, one to send and one to receive, since each lets other
threads run first. So the kernel enforces time-outs, and only idle connections are checked for
closure.
"""

import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha1
from time import monotonic
from typing import Any, Final
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import valkey
from valkey.backoff import NoBackoff
from valkey.connection import Connection
from valkey.retry import Retry

from lakebed.base.runtime import Runtime
from lakebed.kv.errors import InvalidArgument, StoreClosed, StoreUnavailable, StoreUnreachable
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.pool import bound_by_kernel
from lakebed.kv.urls import TLS_OPTIONS, is_on, split_url, tls_context

CONNECT_SECONDS: Final = 1.0
CLOCK_SECONDS: Final = 120.0
"""Maximum age of a clock reading: clocks drift less than the margin meanwhile."""
CHECK_AFTER_SECONDS: Final = 1.0
"""Maximum idle time after which a connection is assumed to be open."""
DEFAULT_PORT: Final = 6379
_OPTIONS: Final = TLS_OPTIONS | {"durable"}
_EXAMPLE: Final = "valkey://host:6379/0"


@dataclass(frozen=True, slots=True)
class ValkeyTimeouts:
    """Time limits, in seconds."""

    start_seconds: float = 4.0
    """A write that has not begun by then is refused by the server."""
    reply_seconds: float = 5.0
    margin_seconds: float = 0.5

    @property
    def settled_seconds(self) -> float:
        """Return the time after which a write has ended, or never begins."""
        return self.start_seconds + self.margin_seconds


@dataclass(frozen=True, slots=True)
class ValkeyAddress:
    """A parsed URL."""

    settings: dict[str, object]
    context: ssl.SSLContext | None
    trusted: bool
    """Whether the service is declared to be durable by other means."""


def parse_url(url: str) -> ValkeyAddress:
    """Parse the URL of a store; raises as `split_url`."""
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    database = parts.path.strip("/") or "0"
    if not parts.hostname or not (database.isascii() and database.isdigit()):
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with the number of a database at its end"
        )
    settings: dict[str, object] = {
        "host": parts.hostname,
        "port": parts.port or DEFAULT_PORT,
        "db": int(database),
    }
    if parts.username:
        settings["username"] = unquote(parts.username)
    if parts.password:
        settings["password"] = unquote(parts.password)
    return ValkeyAddress(settings, tls_context(options), is_on(options, "durable"))


class _TLSConnection(Connection):  # type: ignore[misc]  # untyped
    """A connection by a TLS context; the library's own accepts certificates of other hosts."""

    def __init__(self, context: ssl.SSLContext, **settings: Any) -> None:
        super().__init__(**settings)
        self._context = context

    def _connect(self) -> socket.socket:
        plain = super()._connect()
        with closing_on_error(plain.close):
            return self._context.wrap_socket(plain, server_hostname=self.host)


class RedirectedError(Exception):
    """A node redirected a command for the slot of another node, and changed nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        kind, _, target = message.split(" ")
        host, _, port = target.rpartition(":")
        self.host, self.port = host.encode(), int(port)
        self.is_temporary = kind == "ASK"


def follow(error: valkey.ValkeyError) -> None:
    """Raise `RedirectedError` if an error is a redirection."""
    if str(error).startswith(("MOVED ", "ASK ")):
        raise RedirectedError(str(error)) from error


@dataclass(frozen=True, slots=True)
class _Clock:
    """A reading of the server's clock."""

    server_seconds: float
    read_by: float
    """Local time of the reply: the server read its clock earlier."""


class ValkeyPool:
    """Connections to one server; the most recently used is reused first."""

    def __init__(self, address: ValkeyAddress, timeouts: ValkeyTimeouts, runtime: Runtime) -> None:
        self._runtime = runtime
        self._timeouts = timeouts
        self._clocks: WeakKeyDictionary[Connection, _Clock] = WeakKeyDictionary()
        self._context = address.context
        self._settings: dict[str, object] = {
            "socket_connect_timeout": CONNECT_SECONDS,
            # A retry inside the library could be applied twice, the second time after its deadline.
            "retry": Retry(NoBackoff(), 0),
            "valkey_connect_func": self._initialize,
            **address.settings,
        }
        # With the time of their return.
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False
        self._process = os.getpid()

    def take(self) -> Connection:
        """Take a connection; `give_back` must follow."""
        if self._closed or os.getpid() != self._process:
            raise StoreClosed
        try:
            connection, since = self._idle.pop()
        except IndexError:
            connection, since = self._make(), monotonic()
        try:
            if monotonic() - since > CHECK_AFTER_SECONDS and _has_ended(connection):
                connection.disconnect()
            connection.connect()
        except (valkey.ConnectionError, valkey.TimeoutError, OSError) as error:
            raise StoreUnreachable(f"cannot reach the server: {error}") from error
        except valkey.ValkeyError as error:
            raise StoreUnavailable(f"the server rejected the connection: {error}") from error
        return connection

    def give_back(self, connection: Connection) -> None:
        """Return a connection, which may be broken."""
        self._idle.append((connection, monotonic()))
        if self._closed:
            self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection for a call that changes nothing."""
        connection = self.take()
        answered = False
        try:
            yield connection
            answered = True
        except valkey.ValkeyError as error:
            follow(error)
            raise StoreUnavailable(f"the server did not answer: {error}") from error
        finally:
            if not answered:
                connection.disconnect()  # an unread reply must not answer the next command
            self.give_back(connection)

    def deadline(self, connection: Connection) -> int:
        """Return the deadline of a write sent now, in microseconds of the server's clock."""
        now = self._runtime.monotonic()
        clock = self._clocks[connection]
        if now - clock.read_by > CLOCK_SECONDS:
            try:
                clock = self._read_clock(connection)
            except valkey.ValkeyError as error:
                raise StoreUnavailable(f"cannot read the clock of the server: {error}") from error
            now = self._runtime.monotonic()
        elapsed = now - clock.read_by
        return int((clock.server_seconds + elapsed + self._timeouts.start_seconds) * 1_000_000)

    def close(self) -> None:
        """Close idle connections now, and the others when they are returned."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].disconnect()

    def _make(self) -> Connection:
        if self._context is not None:
            seconds = self._timeouts.reply_seconds
            return _TLSConnection(self._context, socket_timeout=seconds, **self._settings)
        return Connection(socket_timeout=None, **self._settings)

    def _initialize(self, connection: Connection) -> None:
        if self._context is None:
            bound_by_kernel(connection._sock, self._timeouts.reply_seconds)  # noqa: SLF001
        connection.on_connect()
        self._read_clock(connection)

    def _read_clock(self, connection: Connection) -> _Clock:
        connection.send_command("TIME", check_health=False)
        seconds, microseconds = connection.read_response()
        clock = _Clock(int(seconds) + int(microseconds) / 1_000_000, self._runtime.monotonic())
        self._clocks[connection] = clock
        return clock


def _has_ended(connection: Connection) -> bool:
    """Return whether the server has closed an idle connection, or sent unexpected data."""
    try:
        return bool(connection.can_read())
    except (valkey.ConnectionError, OSError):
        return True


def run_script(
    connection: Connection, script: str, keys: Sequence[bytes], arguments: Sequence[bytes]
) -> Any:
    """Run a script by its hash; load it on first use."""
    name = sha1(script.encode(), usedforsecurity=False).hexdigest()
    try:
        return ask(connection, "EVALSHA", name, str(len(keys)), *keys, *arguments)
    except valkey.exceptions.NoScriptError:
        return ask(connection, "EVAL", script, str(len(keys)), *keys, *arguments)


def ask(connection: Connection, *command: str | bytes) -> Any:
    """Send a command and return the reply."""
    connection.send_command(*command)
    return connection.read_response()
