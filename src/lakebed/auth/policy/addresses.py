"""IP addresses and networks in policy conditions and trusted proxies.

An IPv4-mapped IPv6 address (``::ffff:10.1.2.3``) equals its IPv4 form: a server listening on IPv6
sees its IPv4 clients under such addresses.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_KEPT_MAX: Final = 64
_MAPPED: Final = IPv6Network("::ffff:0:0/96")


def parse_address(text: str) -> Address | None:
    """Return the address in a string, or None if the string is not an address."""
    # Every request parses its client's address. Long strings are not cached.
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
    """Return the network in a string such as ``10.0.0.0/8``; a single address is a network too.

    If `strict`, refuse host bits, as in ``10.0.0.1/8``.

    Raises:
        ValueError: The string is not a network.
    """
    network = ip_network(text, strict=strict)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        first = IPv4Address(int(network.network_address) & 0xFFFF_FFFF)
        return IPv4Network((first, network.prefixlen - _MAPPED.prefixlen))
    return network


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    """Return whether an address is in any of the networks."""
    return any(address in network for network in networks)
