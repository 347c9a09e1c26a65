"""Requests to etcd's HTTP gateway, and the interpretation of their failures."""

import re
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

from lakebed.kv.errors import (
    InvalidArgument,
    OutcomeUnknown,
    StoreFull,
    StoreUnavailable,
    StoreUnreachable,
)
from lakebed.kv.urls import TLS_OPTIONS, is_on, split_url, tls_context

CONNECT_SECONDS: Final = 1.0
REPLY_SECONDS: Final = 5.0
DEFAULT_PREFIX: Final = "lakebed"
_EXAMPLE: Final = "etcd://host:2379/prefix"
_OPTIONS: Final = TLS_OPTIONS | {"durable"}

# gRPC codes with which etcd refuses a request before proposing it to the other members.
_INVALID_ARGUMENT: Final = 3
_NOT_FOUND: Final = 5
_PERMISSION_DENIED: Final = 7
_EXHAUSTED: Final = 8
_FAILED_PRECONDITION: Final = 9
_OUT_OF_RANGE: Final = 11
_UNIMPLEMENTED: Final = 12
_UNAUTHENTICATED: Final = 16
_REFUSALS: Final = frozenset(
    {
        _INVALID_ARGUMENT,
        _NOT_FOUND,
        _PERMISSION_DENIED,
        _EXHAUSTED,
        _FAILED_PRECONDITION,
        _OUT_OF_RANGE,
        _UNIMPLEMENTED,
        _UNAUTHENTICATED,
    }
)
_NO_ROOM: Final = "database space exceeded"
_SYNCS: Final = re.compile(r"^etcd_disk_wal_fsync_duration_seconds_count (\S+)$", re.MULTILINE)

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)

Json = dict[str, Any]


def encode(data: bytes) -> str:
    """Encode bytes for the gateway."""
    return b64encode(data).decode()


def decode(text: str | None) -> bytes:
    """Decode bytes from the gateway, which omits empty values."""
    return b64decode(text or "")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """A parsed URL."""

    endpoints: tuple[str, ...]
    prefix: bytes
    user: str | None
    password: str
    context: ssl.SSLContext | None
    trusted: bool
    """Whether the service is declared to be durable by other means."""


def parse_url(url: str) -> EtcdAddress:
    """Parse the URL of a store; raises as `split_url`."""
    # Replace the list of members, in which a URL parser would find an invalid port.
    login, at, hosts = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")
    parts, options = split_url(
        url.replace(f"{login}{at}{hosts}", "hosts", 1), options=_OPTIONS, example=_EXAMPLE
    )
    user, _, password = login.partition(":")
    context = tls_context(options)
    scheme = "http" if context is None else "https"
    endpoints = tuple(f"{scheme}://{host}" for host in hosts.split(","))
    if not all(map(_is_address, endpoints)):
        raise InvalidArgument(f"the URL is malformed: use {_EXAMPLE}, with a host and a port")
    prefix = unquote(parts.path.strip("/")) or DEFAULT_PREFIX
    return EtcdAddress(
        endpoints,
        prefix.encode(),
        unquote(user) or None,
        unquote(password),
        context,
        is_on(options, "durable"),
    )


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        return False
    return parts.hostname is not None and port is not None


class EtcdGateway:
    """An etcd cluster; if a member cannot be reached, the next member is used."""

    def __init__(self, address: EtcdAddress, *, reply_seconds: float) -> None:
        self._address = address
        self._token: str | None = None
        self._current = 0
        self._timeout = httpx.Timeout(reply_seconds, connect=CONNECT_SECONDS)
        self._idle: list[httpx.Client] = []

    def close(self) -> None:
        """Close the connections; no call is running, and none follows."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connected(self) -> Iterator[httpx.Client]:
        """Yield a client with a single connection for a single call.

        Calls with a shared client break each other's connections: httpx treats a connection with
        unread data, just taken by another thread, as idle and closed.
        """
        try:
            client = self._idle.pop()
        except IndexError:
            client = httpx.Client(
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=1),
                verify=self._address.context or False,  # without TLS, load no authorities
                trust_env=False,  # connect directly, not by the environment's proxies
            )
        try:
            yield client
        finally:
            self._idle.append(client)

    def read(self, path: str, body: Mapping[str, object]) -> Json:
        """Send a request that changes nothing; without a reply, raise `StoreUnavailable`."""
        try:
            return self.write(path, body)
        except StoreUnavailable:
            raise
        except OutcomeUnknown as error:
            raise StoreUnavailable(str(error)) from error

    def write(self, path: str, body: Mapping[str, object]) -> Json:
        """Send a change.

        Raises:
            StoreUnavailable: The request was refused, or never sent.
            OutcomeUnknown: The change may have been applied, or may be later.
        """
        if self._address.user is not None and self._token is None:
            self._authenticate()
        reply = self._post(path, body)
        if reply.status_code == httpx.codes.OK:
            answer: Json = reply.json()
            return answer
        code, message = _explain(reply)
        if code == _UNAUTHENTICATED and self._token is not None:
            self._token = None  # tokens expire after minutes; the next attempt gets a new token
        if code not in _REFUSALS:
            raise OutcomeUnknown(f"the outcome of a request to etcd is unknown: {message}")
        kind = StoreFull if _NO_ROOM in message else StoreUnavailable
        raise kind(f"etcd refused a request: {message}")

    def count_syncs(self) -> dict[str, float]:
        """Return the number of log flushes per member, for members with accessible metrics."""
        found: dict[str, float] = {}
        for endpoint in self._address.endpoints:
            try:
                with self._connected() as client:
                    page = client.get(f"{endpoint}/metrics").text
            except httpx.HTTPError:
                continue
            count = _SYNCS.search(page)
            if count is not None:
                found[endpoint] = float(count[1])
        return found

    def _authenticate(self) -> None:
        login = {"name": self._address.user, "password": self._address.password}
        reply = self._post("/v3/auth/authenticate", login)
        if reply.status_code != httpx.codes.OK:
            raise StoreUnavailable(f"etcd rejected the credentials: {_explain(reply)[1]}")
        self._token = reply.json()["token"]

    def _post(self, path: str, body: Mapping[str, object]) -> httpx.Response:
        endpoint = self._address.endpoints[self._current % len(self._address.endpoints)]
        headers = {} if self._token is None else {"Authorization": self._token}
        try:
            with self._connected() as client:
                return client.post(endpoint + path, json=body, headers=headers)
        except _NOT_SENT as error:
            self._current += 1
            raise StoreUnreachable(f"cannot reach etcd at {endpoint}: {error!r}") from error
        except httpx.HTTPError as error:
            self._current += 1
            raise OutcomeUnknown(f"no reply from etcd at {endpoint}: {error!r}") from error


def _explain(reply: httpx.Response) -> tuple[int | None, str]:
    """Return the gRPC code and the message of an error."""
    try:
        answer = reply.json()
        return int(answer["code"]), str(answer.get("message") or answer.get("error"))
    except (ValueError, KeyError, TypeError):
        return None, f"status {reply.status_code}"
