"""How often a wrong secret may be tried.

Failures fill two buckets, which empty slowly: one for the access key tried from that address, and a
larger one for the address. While one of them is full, further tries are refused. Others who use the
same key from another address are not refused: nobody is locked out by a stranger. And a
pair of key and address that was right before is held to its own bucket only, so that a neighbour
behind the same address does no harm.

All of this is in the memory of one process, and bounded. So a server of several workers allows more
tries, which does not make guessing possible.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import IPv6Address
from math import ceil
from typing import Final

from lakebed.auth.entities.names import is_access_key_id
from lakebed.auth.errors import TooManyLogins
from lakebed.auth.policy.addresses import parse_address
from lakebed.lru import LRU
from lakebed.runtime import Runtime

KEY_FAILURES: Final = 10
KEY_SECONDS: Final = 10.0
"""So many wrong secrets of one key from one address at once, and one more every so many seconds."""

CLIENT_FAILURES: Final = 100
CLIENT_SECONDS: Final = 1.0
"""Likewise, of all keys together from one address."""

_REMEMBERED_MAX: Final = 10_000
_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class _Bucket:
    """How many failures there were lately."""

    level: float = 0.0
    at: float = 0.0
    """When the level was that, by the monotonic clock."""
    was_right: bool = False


class Throttle:
    """Counts failures, and refuses further tries where there were too many."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._keys: LRU[tuple[str, str], _Bucket] = LRU(runtime, cost_max=_REMEMBERED_MAX)
        self._clients: LRU[str, _Bucket] = LRU(runtime, cost_max=_REMEMBERED_MAX)

    def check(self, access_key_id: str, client: str) -> bool:
        """Refuse a try where there were too many failures; return whether the pair was right.

        Raises:
            TooManyLogins: The secret is not to be looked at.
        """
        network = _network_of(client)
        # Nearly all tries are of such a pair, whose name needs no check: what is kept has one.
        known = self._keys.get((access_key_id, network))
        if known is not None and known.was_right and not known.level:
            return True
        by_key = self._keys.get(_pair(access_key_id, network))
        wait = self._wait(by_key, KEY_FAILURES, KEY_SECONDS)
        if by_key is None or not by_key.was_right:
            by_client = self._clients.get(network)
            wait = max(wait, self._wait(by_client, CLIENT_FAILURES, CLIENT_SECONDS))
        if wait > 0:
            raise TooManyLogins(ceil(wait))
        return by_key is not None and by_key.was_right

    def note_failure(self, access_key_id: str, client: str) -> None:
        """Count a wrong secret, or a key that is not known."""
        network = _network_of(client)
        with self._lock:
            key = _pair(access_key_id, network)
            self._keys.put(key, self._fuller(self._keys.get(key), KEY_SECONDS))
            known = self._clients.get(network)
            self._clients.put(network, self._fuller(known, CLIENT_SECONDS))

    def note_success(self, access_key_id: str, client: str) -> None:
        """Remember that a pair of key and address was right."""
        key = _pair(access_key_id, _network_of(client))
        with self._lock:
            self._keys.put(key, replace(self._keys.get(key) or _Bucket(), was_right=True))

    def _wait(self, bucket: _Bucket | None, failures: int, seconds: float) -> float:
        """Return in how many seconds a bucket has room for another failure."""
        if bucket is None:
            return 0.0
        return (self._level(bucket, seconds) - (failures - 1)) * seconds

    def _fuller(self, bucket: _Bucket | None, seconds: float) -> _Bucket:
        bucket = bucket or _Bucket()
        level = self._level(bucket, seconds) + 1
        return replace(bucket, level=level, at=self._runtime.monotonic())

    def _level(self, bucket: _Bucket, seconds: float) -> float:
        return max(0.0, bucket.level - (self._runtime.monotonic() - bucket.at) / seconds)


def _pair(access_key_id: str, network: str) -> tuple[str, str]:
    """Return the name of a bucket. What cannot be an id may be long: it is not kept."""
    return access_key_id if is_access_key_id(access_key_id) else "", network


@lru_cache(maxsize=1024)
def _network_of(client: str) -> str:
    """Return what counts as one address: of IPv6, what one customer of a provider has."""
    address = parse_address(client)
    if isinstance(address, IPv6Address):
        return f"{int(address) >> (address.max_prefixlen - _NETWORK_BITS):x}"
    return client if address is None else str(address)
