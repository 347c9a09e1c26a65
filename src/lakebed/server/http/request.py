"""The record of the current request, and the address of its client.

The pipeline creates the record of a request and logs the access line at its end. Later steps add
the user, the operation and the error. No other part of a request is stored or logged: neither
headers nor the query, which may contain signatures and tokens.

**Address of the client.** By default, the peer of the connection. If the peer is a trusted proxy
(``listen.trusted_proxies``), the address comes from ``X-Forwarded-For``. Each proxy appends the
address of its client, so the list is read from the right, up to the first address that is not a
trusted proxy. Addresses further left are claims of the client.

An unreadable header makes the address `UNKNOWN`, not the proxy's: otherwise a client could send
such a header through a proxy and pass for the proxy. ``Forwarded`` is ignored: a proxy that sets
one of the two headers passes the other on as the client sent it.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol
from wsgiref.types import WSGIEnvironment

from lakebed.auth.policy.addresses import Address, is_in, parse_address, parse_network

SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
"""Ids of requests that are accepted from clients."""

_record: ContextVar["RequestRecord | None"] = ContextVar("lakebed_request", default=None)
current_record: Final = _record.get
"""Returns the record of this thread's request, or None outside of requests."""
bind_record: Final = _record.set
"""Binds the record of a new request to this thread; None ends the binding."""


class Slot(Protocol):
    """Permission to work on a request; see `admission`."""

    def end(self) -> None:
        """Return everything that the request holds."""
        ...

    def while_reading(self, size: int) -> AbstractContextManager[None]:
        """Give up the slot while waiting for a body of `size` bytes, which is held in memory."""
        ...

    def while_waiting(self) -> AbstractContextManager[None]:
        """Give up the slot while waiting for hooks."""
        ...


@dataclass(slots=True, eq=False)
class RequestRecord:
    """One request, from its arrival until the last byte of the answer."""

    request_id: str
    method: str
    path: str
    begun: float
    """By the monotonic clock."""
    operation: str = ""
    """The operation of the API, once known; a label of metrics."""
    user: str = ""
    status: int = 0
    kind: str = ""
    """The kind of the error that was answered; empty on success."""
    cause: str = ""
    """The cause of a 5xx or 410, without secrets."""
    bytes_sent: int = 0
    client: str = ""
    """The address of the client; see `TrustedProxies`."""
    answer_headers: tuple[tuple[str, str], ...] = ()
    """Headers to add to the answer."""
    slot: Slot | None = None
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, action: Callable[[], None]) -> None:
        """Register a callback for the end of the answer, sent or aborted."""
        self._on_end.append(action)

    def end(self) -> None:
        """Return the slot, and run the callbacks of `at_end`; a second call does nothing."""
        if self.slot is not None:
            self.slot.end()
        while self._on_end:
            self._on_end.pop()()


def while_reading(size: int) -> AbstractContextManager[None]:
    """Give up the slot of the current request, if any, meanwhile; see `Slot`."""
    record = _record.get()
    slot = None if record is None else record.slot
    return nullcontext() if slot is None else slot.while_reading(size)


def while_waiting() -> AbstractContextManager[None]:
    """Give up the slot of the current request, if any, meanwhile; see `Slot`."""
    record = _record.get()
    slot = None if record is None else record.slot
    return nullcontext() if slot is None else slot.while_waiting()


UNKNOWN: Final = "unknown"
"""Placeholder for an unknown address; conditions of policies treat it as not matching."""


WARNING_SECONDS: Final = 3600.0
"""The interval of warnings about requests through a proxy that is not trusted."""

_LOGGER: Final = logging.getLogger(__name__)


class TrustedProxies:
    """The proxies trusted to report the addresses of their clients."""

    def __init__(
        self, networks: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._networks = tuple(parse_network(network) for network in networks)
        self._clock = clock
        self._warns_from = clock()

    def client_of(self, environ: WSGIEnvironment) -> str:
        """Return the address of the client of a request."""
        peer: str = environ.get("REMOTE_ADDR", "")
        forwarded: str | None = environ.get("HTTP_X_FORWARDED_FOR")
        if forwarded is not None and not self._networks:
            self._warn(peer)
        elif forwarded is not None:
            address = parse_address(peer)
            if address is not None and is_in(address, self._networks):
                return self._forwarded_for(forwarded)
        return _plain(peer)

    def _warn(self, peer: str) -> None:
        """Warn that clients share the proxy's address. Rate-limited: any client can cause this."""
        now = self._clock()
        if now >= self._warns_from:
            self._warns_from = now + WARNING_SECONDS
            _LOGGER.warning(
                "X-Forwarded-For from %s ignored, because listen.trusted_proxies is not set: add"
                " the address if it is a proxy; otherwise its clients share one address in logs,"
                " conditions on SourceIp and the throttling of logins",
                _plain(peer),
            )

    def _forwarded_for(self, header: str) -> str:
        """Return the right-most address that is not trusted; if all are, the left-most."""
        address: Address | None = None
        for part in reversed(header.split(",")):
            if not (text := part.strip()):
                continue
            address = parse_address(_without_port(text))
            if address is None or not is_in(address, self._networks):
                break
        return UNKNOWN if address is None else str(address)


@lru_cache(maxsize=1024)
def _plain(peer: str) -> str:
    """Return the canonical spelling of an address; cached, as a peer sends many requests."""
    address = parse_address(peer)
    return UNKNOWN if address is None else str(address)


def _without_port(text: str) -> str:
    """Return the address of ``address:port`` or ``[address]:port``."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    address, colon, _ = text.partition(":")
    return address if colon and text.count(":") == 1 else text
