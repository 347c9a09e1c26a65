"""The record of the request that a thread works on, and the address of its client.

The pipeline makes the record of a request and logs the access line at its end. Whoever learns who
the user is, which operation it is, or what went wrong, notes it in the record. Nothing else of a
request is kept or logged: not its headers, not its query, where signatures and tokens may be.

**Address of the client.** It is the peer's: that of the machine at the other end of the connection.
Where the peer is a proxy that the settings trust (``listen.trusted_proxies``), the client is
another machine, and the proxy names it in ``X-Forwarded-For``. Each proxy appends the address it
was called from, so the list is read from its right end, and the first address that is not a trusted
proxy is the client's. What is further left is only what the client says of itself.

A header that cannot be read makes the address `UNKNOWN`. It does not make it the proxy's: a client
can send such a header through a proxy, and would then pass for the proxy. ``Forwarded`` is not
read: a proxy that sets one of the two headers hands on the other one as the client sent it.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from random import getrandbits
from typing import Final, Protocol
from wsgiref.types import WSGIEnvironment

from lakebed.auth.policy.addresses import Address, is_in, parse_address, parse_network

_ID_BITS: Final = 64
_SANE_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

_record: ContextVar["RequestRecord | None"] = ContextVar("lakebed_request", default=None)


class Slot(Protocol):
    """What lets a request be worked on; see `admission`."""

    def end(self) -> None:
        """Give back all that the request holds."""
        ...

    def while_reading(self, size: int) -> AbstractContextManager[None]:
        """Leave the slot to others while a body of some size is waited for, to be kept whole."""
        ...

    def while_waiting(self) -> AbstractContextManager[None]:
        """Leave the slot to others while hooks are waited for."""
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
    """The operation of the API, once it is known; metrics are kept by it."""
    user: str = ""
    """Who asks, once that is known."""
    status: int = 0
    kind: str = ""
    """The kind of the error that was answered; empty if all went well."""
    cause: str = ""
    """What led to an answer of 5xx or 410, without secrets."""
    bytes_sent: int = 0
    client: str = ""
    """The address of the client; see `TrustedProxies`."""
    slot: Slot | None = None
    """The slot that the request holds, if it does."""
    _on_end: list[Callable[[], None]] = field(default_factory=list)

    def at_end(self, action: Callable[[], None]) -> None:
        """Call something once when the answer is out, or the client is gone."""
        self._on_end.append(action)

    def end(self) -> None:
        """Give back the slot, and call what `at_end` was given; a second call does nothing."""
        if self.slot is not None:
            self.slot.end()
        while self._on_end:
            self._on_end.pop()()


def current_record() -> RequestRecord | None:
    """Return the record of the request that this thread works on; None outside of requests."""
    return _record.get()


def while_reading(size: int) -> AbstractContextManager[None]:
    """Leave the slot of the current request, if it has one, to others; see `Slot`."""
    record = _record.get()
    if record is None or record.slot is None:
        return nullcontext()
    return record.slot.while_reading(size)


def while_waiting() -> AbstractContextManager[None]:
    """Leave the slot of the current request, if it has one, to others; see `Slot`."""
    record = _record.get()
    return nullcontext() if record is None or record.slot is None else record.slot.while_waiting()


def begin_record(method: str, path: str, *, client: str, given_id: str | None) -> RequestRecord:
    """Make the record of a request that arrived, and bind it to this thread."""
    request_id = given_id
    if request_id is None or not _SANE_ID.fullmatch(request_id):
        # Ids tell requests apart, and need not be hard to guess.
        request_id = f"{getrandbits(_ID_BITS):016x}"
    record = RequestRecord(request_id, method, path, time.monotonic(), client=client)
    _record.set(record)
    return record


def leave_record() -> None:
    """Unbind the record of a request from this thread: the request has ended."""
    _record.set(None)


UNKNOWN: Final = "unknown"
"""Stands for an address that is not known; conditions of policies count it against the caller."""


WARNING_SECONDS: Final = 3600.0
"""How often a process warns of requests that came through a proxy which is not trusted."""

_LOGGER: Final = logging.getLogger(__name__)


class TrustedProxies:
    """The proxies whose word on the address of a client is taken."""

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
        """Warn that clients are not told apart; any client can cause this, so do it rarely."""
        now = self._clock()
        if now >= self._warns_from:
            self._warns_from = now + WARNING_SECONDS
            _LOGGER.warning(
                "a request of %s has an X-Forwarded-For, and listen.trusted_proxies is not set: if"
                " that is a proxy, all its clients have one address in logs, conditions on"
                " SourceIp and the throttling of logins; add its address to listen.trusted_proxies",
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
    """Return the usual spelling of an address; a peer sends many requests."""
    address = parse_address(peer)
    return UNKNOWN if address is None else str(address)


def _without_port(text: str) -> str:
    """Return the address of ``address:port`` or ``[address]:port``."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    address, colon, _ = text.partition(":")
    return address if colon and text.count(":") == 1 else text
