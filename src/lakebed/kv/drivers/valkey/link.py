"""Connections to a server, and deadlines by its clock.

A call makes as few system calls as it can, since each lets other threads run first: one that sends
and one that receives. So time-outs are the kernel's, and whether a connection is still open is
asked only if it lay idle.
"""

import os
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
from valkey.connection import Connection, SSLConnection
from valkey.retry import Retry

from lakebed.base.runtime import Runtime
from lakebed.kv.drivers.kernel_timeouts import bound_by_kernel
from lakebed.kv.errors import InvalidArgument, StoreClosed, StoreUnavailable, StoreUnreachable
from lakebed.kv.urls import is_on, split_url

CONNECT_SECONDS: Final = 1.0
CLOCK_SECONDS: Final = 120.0
"""How long a reading of the server's clock is used: clocks drift less than the margin in it."""
FRESH_SECONDS: Final = 1.0
"""A connection that was used that long ago is taken for open."""
DEFAULT_PORT: Final = 6379
_OPTIONS: Final = frozenset({"tls", "ca", "durable"})
_EXAMPLE: Final = "valkey://host:6379/0"


@dataclass(frozen=True, slots=True)
class ValkeyTimeouts:
    """How long things may take, in seconds."""

    start_seconds: float = 4.0
    """A write that has not begun by then, on the server, is refused by it."""
    reply_seconds: float = 5.0
    margin_seconds: float = 0.5

    @property
    def settled_seconds(self) -> float:
        """After this time a write has begun and ended, or never will."""
        return self.start_seconds + self.margin_seconds


@dataclass(frozen=True, slots=True)
class ValkeyAddress:
    """What a URL says."""

    settings: dict[str, Any]
    tls: bool
    trusted: bool
    """Whether the service is said to be durable by other means."""


def parse_url(url: str) -> ValkeyAddress:
    """Take a URL apart.

    Raises:
        InvalidArgument: It is malformed. The message does not quote it: a password may be in it.
    """
    parts, options = split_url(url, options=_OPTIONS, example=_EXAMPLE)
    database = parts.path.strip("/") or "0"
    if not parts.hostname or not (database.isascii() and database.isdigit()):
        raise InvalidArgument(
            f"the URL is malformed: use {_EXAMPLE}, with the number of a database at its end"
        )
    settings: dict[str, Any] = {
        "host": parts.hostname,
        "port": parts.port or DEFAULT_PORT,
        "db": int(database),
    }
    if parts.username:
        settings["username"] = unquote(parts.username)
    if parts.password:
        settings["password"] = unquote(parts.password)
    tls = is_on(options, "tls")
    if tls and "ca" in options:
        settings["ssl_ca_certs"] = options["ca"]
    return ValkeyAddress(settings, tls, is_on(options, "durable"))


@dataclass(frozen=True, slots=True)
class _Clock:
    """A reading of the server's clock."""

    server_seconds: float
    read_by: float
    """When the answer had come, by our clock: the server read its clock before."""


class ValkeyPool:
    """Connections to one server; the one used last is used next."""

    def __init__(self, address: ValkeyAddress, patience: ValkeyTimeouts, runtime: Runtime) -> None:
        self._runtime = runtime
        self._patience = patience
        self._clocks: WeakKeyDictionary[Connection, _Clock] = WeakKeyDictionary()
        self._tls = address.tls
        self._settings: dict[str, object] = {
            "socket_connect_timeout": CONNECT_SECONDS,
            # What the library repeats could land twice, the second time behind its deadline.
            "retry": Retry(NoBackoff(), 0),
            "valkey_connect_func": self._greet,
            **address.settings,
        }
        # With the time at which they were given back.
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False
        self._process = os.getpid()

    def take(self) -> Connection:
        """Lend a connection, until `give_back`.

        Raises:
            StoreClosed: The pool was closed, or belongs to another process.
            StoreUnreachable: There is none.
            StoreUnavailable: The server does not let us in.
        """
        if self._closed or os.getpid() != self._process:
            raise StoreClosed
        try:
            connection, since = self._idle.pop()
        except IndexError:
            connection, since = self._make(), monotonic()
        try:
            if monotonic() - since > FRESH_SECONDS and _has_ended(connection):
                connection.disconnect()
            connection.connect()
        except (valkey.ConnectionError, valkey.TimeoutError, OSError) as error:
            raise StoreUnreachable(f"cannot reach the server: {error}") from error
        except valkey.ValkeyError as error:
            raise StoreUnavailable(f"the server did not let us in: {error}") from error
        return connection

    def give_back(self, connection: Connection) -> None:
        """Take a connection back, which may be broken."""
        self._idle.append((connection, monotonic()))
        if self._closed:
            self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Lend a connection for something that changes nothing.

        Raises:
            StoreUnavailable: There was no answer.
        """
        connection = self.take()
        answered = False
        try:
            yield connection
            answered = True
        except valkey.ValkeyError as error:
            raise StoreUnavailable(f"the server did not answer: {error}") from error
        finally:
            if not answered:
                connection.disconnect()  # an answer that nobody took must not be the next one's
            self.give_back(connection)

    def deadline(self, connection: Connection) -> int:
        """Return when a write that is sent now must have begun, in microseconds of the server.

        Raises:
            StoreUnavailable: The server does not tell the time.
        """
        now = self._runtime.monotonic()
        clock = self._clocks[connection]
        if now - clock.read_by > CLOCK_SECONDS:
            try:
                clock = self._read_clock(connection)
            except valkey.ValkeyError as error:
                raise StoreUnavailable(f"the server did not tell the time: {error}") from error
            now = self._runtime.monotonic()
        elapsed = now - clock.read_by
        return int((clock.server_seconds + elapsed + self._patience.start_seconds) * 1_000_000)

    def close(self) -> None:
        """Close the idle connections now, the others when they come back."""
        self._closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop()[0].disconnect()

    def _make(self) -> Connection:
        if self._tls:
            seconds = self._patience.reply_seconds
            return SSLConnection(socket_timeout=seconds, **self._settings)
        return Connection(socket_timeout=None, **self._settings)

    def _greet(self, connection: Connection) -> None:
        if not self._tls:
            bound_by_kernel(connection._sock, self._patience.reply_seconds)  # noqa: SLF001
        connection.on_connect()
        self._read_clock(connection)

    def _read_clock(self, connection: Connection) -> _Clock:
        connection.send_command("TIME", check_health=False)
        seconds, microseconds = connection.read_response()
        clock = _Clock(int(seconds) + int(microseconds) / 1_000_000, self._runtime.monotonic())
        self._clocks[connection] = clock
        return clock


def _has_ended(connection: Connection) -> bool:
    """Whether the server has closed an idle connection, or sent what nobody asked for."""
    try:
        return bool(connection.can_read())
    except (valkey.ConnectionError, OSError):
        return True


def run_script(
    connection: Connection, script: str, keys: Sequence[bytes], arguments: Sequence[bytes]
) -> Any:
    """Run a script by its hash; the server learns it the first time."""
    name = sha1(script.encode(), usedforsecurity=False).hexdigest()
    try:
        return ask(connection, "EVALSHA", name, str(len(keys)), *keys, *arguments)
    except valkey.exceptions.NoScriptError:
        return ask(connection, "EVAL", script, str(len(keys)), *keys, *arguments)


def ask(connection: Connection, *command: str | bytes) -> Any:
    """Send a command and return the answer."""
    connection.send_command(*command)
    return connection.read_response()
