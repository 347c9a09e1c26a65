"""Network addresses and networks, as conditions of policies and trusted proxies compare them.

An IPv4 address that is written as IPv6 (``::ffff:10.1.2.3``) equals its IPv4 form. A server that
listens on IPv6 sees its IPv4 clients so.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_KEPT_MAX: Final = 64
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def parse_address(text: str) -> Address | None:
    """Return the address that a text spells; None if it spells none."""
    # Every request asks for that of its client. What is long is not kept.
    read = _read_address if len(text) <= _KEPT_MAX else _read_address.__wrapped__
    return read(text)


@lru_cache(maxsize=1024)
def _read_address(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def parse_network(text: str, *, strict: bool = False) -> Network:
    """Return the network that a text spells; a single address is a network too.

    Args:
        text: As in ``10.0.0.0/8`` or ``2001:db8::/32``.
        strict: Refuse a network with bits set behind its mask, as in ``10.0.0.1/8``.

    Raises:
        ValueError: It is not a network.
    """
    network = ip_network(text, strict=strict)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        first = IPv4Address(int(network.network_address) & 0xFFFF_FFFF)
        return IPv4Network((first, network.prefixlen - _MAPPED.prefixlen))
    return network


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    """Whether an address lies in one of the networks."""
    return any(address in network for network in networks)
