"""A connection to HBase's Thrift server with time limits on every wait."""

import re
import select
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

import thriftpy2
from thriftpy2.protocol import TCyBinaryProtocol
from thriftpy2.thrift import TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TSocket

from lakebed.kv.errors import InvalidArgument
from lakebed.kv.lifetime import closing_on_error
from lakebed.kv.pool import POOL_SIZE
from lakebed.kv.urls import pool_size, split_url, tls_context

CONNECT_SECONDS: Final = 2.0
# Busy connections are not polled: every poll lets another thread run first.
POLL_AFTER_SECONDS: Final = 0.02
DEFAULT_PORT: Final = 9090
_OPTIONS: Final = frozenset({"tls", "ca", "pool_size"})
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
