"""How often a wrong secret may be tried.

Each wrong secret fills a bucket of the pair of access key and address, which empties slowly. While
the bucket is full, further tries of that pair are refused, with the right secret too. Failures of
one pair never touch another: neither the same key from another address nor another key from the
same address, which may be that of a proxy with thousands of clients. So there is no bucket for an
address alone.

Access keys that do not exist have buckets too, or the answers would tell which ones do. These are
held apart: a flood of invented ids must not push out the buckets of existing ones.

All of this is in the memory of one process, and bounded. Losing it allows some more tries and
refuses nothing. So a server of several workers allows more tries, which does not make guessing
possible.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address
from math import ceil
from typing import Final

from lakebed.auth.entities.names import is_access_key_id
from lakebed.auth.errors import TooManyLogins
from lakebed.auth.policy.addresses import parse_address
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime

KEY_FAILURES: Final = 10
KEY_SECONDS: Final = 10.0
"""So many wrong secrets of one key from one address at once, and one more every so many seconds."""

_REMEMBERED_MAX: Final = 10_000
_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class _Bucket:
    """How many failures there were lately."""

    level: float = 0.0
    at: float = 0.0
    """When the level was that, by the monotonic clock."""


_Buckets = LRU[tuple[str, str], _Bucket]


class Throttle:
    """Counts failures, and refuses further tries where there were too many."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._known: _Buckets = LRU(runtime, cost_max=_REMEMBERED_MAX)
        self._unknown: _Buckets = LRU(runtime, cost_max=_REMEMBERED_MAX)

    def check(self, access_key_id: str, client: str) -> None:
        """Refuse a try of a key from an address if there were too many failures of that pair.

        Raises:
            TooManyLogins: The secret is not to be looked at.
        """
        if not self._known and not self._unknown:
            return
        network = _network_of(client)
        bucket = self._known.get((access_key_id, network))
        if bucket is None:
            bucket = self._unknown.get(_pair(access_key_id, network))
        if bucket is None:
            return
        wait = (self._level(bucket) - (KEY_FAILURES - 1)) * KEY_SECONDS
        if wait > 0:
            raise TooManyLogins(ceil(wait))

    def note_failure(self, access_key_id: str, client: str, *, is_known: bool) -> None:
        """Count a wrong secret of a key, or a try of a key that does not exist."""
        buckets = self._known if is_known else self._unknown
        pair = _pair(access_key_id, _network_of(client))
        with self._lock:
            level = self._level(buckets.get(pair) or _Bucket()) + 1
            buckets.put(pair, _Bucket(level, self._runtime.monotonic()))

    def _level(self, bucket: _Bucket) -> float:
        return max(0.0, bucket.level - (self._runtime.monotonic() - bucket.at) / KEY_SECONDS)


def _pair(access_key_id: str, network: str) -> tuple[str, str]:
    """Return the name of a bucket. An invalid id may be long: all of a network share a bucket."""
    return access_key_id if is_access_key_id(access_key_id) else "", network


@lru_cache(maxsize=1024)
def _network_of(client: str) -> str:
    """Return what counts as one address: of IPv6, what one customer of a provider has."""
    address = parse_address(client)
    if isinstance(address, IPv6Address):
        return f"{int(address) >> (address.max_prefixlen - _NETWORK_BITS):x}"
    return client if address is None else str(address)
