"""HTTP requests of hooks, to URLs that may be untrusted.

Authors of action files choose the targets of requests. To prevent server-side request forgery, a
name is resolved once, and the connection uses the address that was checked; redirects are not
followed; proxies from the environment are ignored; the whole exchange, to the last byte of the
response, has one deadline; and responses are read up to a limit.
"""

import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

import httpcore
import httpx

from lakebed.lake.hooks.deadline import Deadline
from lakebed.lake.hooks.errors import HookFailed
from lakebed.lake.hooks.settings import HookLimits

_LOGGER: Final = logging.getLogger(__name__)

RESPONSE_BYTES_MAX: Final = 1 << 20
"""Maximum number of bytes read of a response."""
_CONNECT_SECONDS_MAX: Final = 10.0
"""Connect timeout per address."""
_PORTS: Final = {"http": 80, "https": 443}

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
)
"""Cloud metadata services, not link-local, that return the machine's credentials."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_PUBLIC_IPV6: Final = ipaddress.IPv6Network("2000::/3")
"""All allocated addresses. Other ranges contain old forms of private and IPv4 addresses."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    is_cut: bool
    """Whether the response exceeded the limit."""


class Network:
    """Sends requests to addresses that the settings allow."""

    def __init__(self, settings: HookLimits) -> None:
        self._allow_private = settings.allow_private_networks
        self._allowed = tuple(map(ipaddress.ip_network, settings.allowed_networks))

    def request(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes, deadline: Deadline
    ) -> Response:
        """Send one request and read the response.

        Raises `HookFailed` if the address is not allowed, no complete response was received, or the
        deadline passed.
        """
        parts = split_url(url)
        if not (method + "".join(headers)).isascii():
            raise HookFailed(f"{_host(parts)}: method and header names must be ASCII")
        is_secure = parts.scheme == "https"
        try:
            with (
                httpcore.ConnectionPool(
                    ssl_context=new_ssl_context() if is_secure else None,
                    network_backend=_Backend(self, deadline),
                ) as pool,
                pool.stream(
                    method,
                    _target(parts),
                    headers=_head(parts, method, headers, body),
                    content=body,
                ) as answer,
            ):
                return _read(answer)
        except HookFailed:
            raise
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            deadline.check()
            raise HookFailed(f"{_host(parts)}: {_describe(error)}") from error
        except (OSError, ssl.SSLError, ValueError) as error:
            raise HookFailed(f"{_host(parts)}: {error}") from error

    def resolve(self, host: str, port: int, deadline: Deadline) -> list[Address]:
        """Return the allowed addresses of a host; raise `HookFailed` if there are none."""
        found = _resolve(host, port, deadline)
        allowed = [address for address in found if self.is_allowed(address)]
        if not allowed:
            # Only logged: the error would let an action file's author map an internal network.
            _LOGGER.warning("hooks are not allowed to send requests to %s: %s", host, found)
            raise HookFailed(
                f"{host}: hooks are not allowed to send requests to this host; the server's"
                " operator can allow it by hooks.allowed_networks or hooks.allow_private_networks"
            )
        return allowed

    def is_allowed(self, address: Address) -> bool:
        address = _innermost(address)
        if any(address in network for network in self._allowed):
            return True
        if address in _METADATA or address.is_multicast or address.is_unspecified:
            return False
        is_ipv4 = isinstance(address, ipaddress.IPv4Address)
        if address.is_global and (is_ipv4 or address in _PUBLIC_IPV6):
            return True
        is_special = address.is_link_local or address.is_reserved
        return self._allow_private and (address.is_loopback or not is_special)


def split_url(url: str) -> SplitResult:
    """Split a URL into its parts; raise `HookFailed` if it cannot be requested."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise HookFailed(f"{url!r} is not a URL: write it as https://host/path") from None
    wrong = parts.scheme not in _PORTS or not parts.hostname or port == 0
    if wrong or not url.isascii() or not url.isprintable() or " " in url or parts.username:
        raise HookFailed(
            f"{url!r} is not a URL for requests: write it as https://host/path, without credentials"
        )
    return parts


class _Backend(httpcore.NetworkBackend):
    """Connects to checked addresses."""

    def __init__(self, network: Network, deadline: Deadline) -> None:
        self._network = network
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[object] | None = None,
    ) -> httpcore.NetworkStream:
        problem: Exception | None = None
        for address in self._network.resolve(host, port, self._deadline):
            try:
                return _Stream(_connect(address, port, self._deadline), self._deadline)
            except OSError as error:
                problem = error
        raise httpcore.ConnectError(f"connection failed ({problem})")


def _connect(address: Address, port: int, deadline: Deadline) -> socket.socket:
    is_ipv4 = isinstance(address, ipaddress.IPv4Address)
    family = socket.AF_INET if is_ipv4 else socket.AF_INET6
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        # One long attempt instead of several short ones: each connect starts over.
        connection.settimeout(min(_CONNECT_SECONDS_MAX, deadline.left()))
        connection.connect((str(address), port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        connection.close()
        raise
    return connection


class _Stream(httpcore.NetworkStream):
    """A connection that ends at the deadline, even if the peer sends slowly."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        while True:
            self._connection.settimeout(self._deadline.check())
            try:
                return self._connection.recv(max_bytes)
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.ReadError(str(error)) from error

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        while rest:
            self._connection.settimeout(self._deadline.check())
            try:
                rest = rest[self._connection.send(rest) :]
            except TimeoutError:
                continue
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._connection.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        self._connection.settimeout(self._deadline.left())
        try:
            wrapped = ssl_context.wrap_socket(self._connection, server_hostname=server_hostname)
        except OSError as error:
            self.close()
            raise httpcore.ConnectError(f"TLS connection failed ({error})") from error
        return _Stream(wrapped, self._deadline)

    def get_extra_info(self, info: str) -> object:
        return self._connection if info == "socket" else None


def _target(parts: SplitResult) -> httpcore.URL:
    return httpcore.URL(
        scheme=parts.scheme.encode(),
        host=(parts.hostname or "").encode(),
        port=parts.port or _PORTS[parts.scheme],
        target=((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode(),
    )


def _head(
    parts: SplitResult, method: str, headers: Mapping[str, str], body: bytes
) -> list[tuple[bytes, bytes]]:
    sent = [(b"Host", _host(parts).encode()), (b"User-Agent", b"lakebed")]
    sent += [(name.encode("ascii"), value.encode()) for name, value in headers.items()]
    if body or method in {"POST", "PUT", "PATCH"}:
        sent.append((b"Content-Length", str(len(body)).encode()))
    return sent


def _read(answer: httpcore.Response) -> Response:
    body = bytearray()
    for chunk in answer.iter_stream():
        body += chunk
        if len(body) > RESPONSE_BYTES_MAX:
            break
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers
    )
    is_cut = len(body) > RESPONSE_BYTES_MAX
    return Response(answer.status, headers, bytes(body[:RESPONSE_BYTES_MAX]), is_cut)


def _resolve(host: str, port: int, deadline: Deadline) -> list[Address]:
    """Resolve a host in a separate thread: `getaddrinfo` has no timeout."""
    found: list[Address] = []
    problems: list[Exception] = []

    def ask() -> None:
        try:
            for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                address = ipaddress.ip_address(str(each[4][0]).partition("%")[0])
                if address not in found:
                    found.append(address)
        except (OSError, UnicodeError, ValueError) as error:
            problems.append(error)

    asking = threading.Thread(target=ask, daemon=True, name="hooks-look-up")
    asking.start()
    while asking.is_alive():
        asking.join(deadline.check())
    if problems or not found:
        raise HookFailed(f"{host}: host not found ({problems[0] if problems else 'empty'})")
    return found


def _innermost(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


def _host(parts: SplitResult) -> str:
    """Return host and port for the Host header."""
    name = parts.hostname or ""
    shown = f"[{name}]" if ":" in name else name
    return shown if parts.port in {None, _PORTS[parts.scheme]} else f"{shown}:{parts.port}"


def _describe(error: Exception) -> str:
    if isinstance(error, httpcore.RemoteProtocolError):
        return f"the response is incomplete or not HTTP ({error})"
    if isinstance(error, httpcore.ReadError | httpcore.WriteError):
        return f"the connection was closed ({error})"
    return str(error)


@cache
def new_ssl_context() -> ssl.SSLContext:
    """Return the TLS settings: the usual certificate authorities, or ``SSL_CERT_FILE``."""
    return httpx.create_ssl_context()
