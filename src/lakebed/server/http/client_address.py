"""Which address a request comes from.

It is the peer's: that of the machine at the other end of the connection. Where the peer is a proxy
that the settings trust (``listen.trusted_proxies``), the client is another machine, and the proxy
names it in ``X-Forwarded-For``. Each proxy appends the address it was called from, so the list is
read from its right end, and the first address that is not a trusted proxy is the client's. What is
further left is only what the client says of itself.

A header that cannot be read makes the address `UNKNOWN`. It does not make it the proxy's: a client
can send such a header through a proxy, and would then pass for the proxy. ``Forwarded`` is not
read: a proxy that sets one of the two headers hands on the other one as the client sent it.
"""

import logging
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final
from wsgiref.types import WSGIEnvironment

from lakebed.auth.policy.addresses import Address, is_in, parse_address, parse_network

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
