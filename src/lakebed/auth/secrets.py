"""Secrets: generated, encrypted at rest, compared in constant time, and throttled.

Each process derives two keys from the server's secret (by scrypt, in about 50 ms): the first
encrypts the secrets of access keys, the second signs tokens. Secrets are encrypted instead of
hashed, because checking an S3 signature means computing it again.

An encrypted secret is bound to its access key and its user: it cannot be decrypted in another
record.

**Throttle.** Each wrong secret fills a leaky bucket for the pair of access key and address. While
the bucket is full, further attempts of the pair are refused, even with the right secret. Failures
of a pair never affect another pair: neither the same key from another address nor another key from
the same address, which may be a proxy with thousands of clients. So addresses alone have no
buckets.

Unknown access keys have buckets too, or the responses would reveal existing keys. These buckets are
separate: a flood of invented ids must not evict the buckets of existing keys.

Buckets are in the bounded memory of one process. Losing them allows some more attempts and refuses
nothing. So a server with several workers allows more attempts, which does not make guessing
possible.
"""

import hashlib
import hmac
import logging
import re
from base64 import b64encode
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address
from math import ceil
from typing import Final, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from lakebed.auth.errors import AuthenticationFailed, AuthInvalid, InvalidName, TooManyLogins
from lakebed.auth.model import AccessKeyID
from lakebed.auth.policy.addresses import parse_address
from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime, UniqueID

_LOGGER: Final = logging.getLogger(__name__)
_SALT: Final = b"lakebed.auth.keys.1"
_ENCRYPTION_KEY_BYTES: Final = 32
_SIGNING_KEY_BYTES: Final = 64  # length of the longest digest for tokens
_NONCE_BYTES: Final = 12
_SERVER_SECRET_BYTES_MIN: Final = 16

is_access_key_id: Final = re.compile(r"[A-Za-z0-9_-]{3,128}").fullmatch
"""Tells whether an access key can have this id."""
_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_ACCESS_KEY_DRAWN: Final = 14
_SECRET_BYTES: Final = 30
_SECRET_CHARACTERS_MIN: Final = 8
_SECRET_CHARACTERS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """Keys of an installation, derived equally by all its processes."""

    encryption: bytes = field(repr=False)
    signing: bytes = field(repr=False)

    @classmethod
    def derive(cls, server_secret: bytes) -> Self:
        """Derive the keys from the server's secret; slow on purpose: call it once per process."""
        if len(server_secret) < _SERVER_SECRET_BYTES_MIN:
            raise AuthInvalid(
                f"the server's secret needs at least {_SERVER_SECRET_BYTES_MIN} bytes"
            )
        length = _ENCRYPTION_KEY_BYTES + _SIGNING_KEY_BYTES
        keys = hashlib.scrypt(server_secret, salt=_SALT, n=1 << 14, r=8, p=1, dklen=length)
        return cls(keys[:_ENCRYPTION_KEY_BYTES], keys[_ENCRYPTION_KEY_BYTES:])


class SecretBox:
    """Encryption of access key secrets."""

    def __init__(self, keys: ServerKeys, runtime: Runtime) -> None:
        self._cipher = ChaCha20Poly1305(keys.encryption)
        self._runtime = runtime

    def seal(self, secret: str, access_key_id: AccessKeyID, owner: UniqueID) -> bytes:
        """Encrypt the secret of a user's access key."""
        nonce = self._runtime.random_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret.encode(), _bound(access_key_id, owner))

    def open(self, sealed: bytes, access_key_id: AccessKeyID, owner: UniqueID) -> str:
        """Decrypt a secret.

        Raises:
            AuthenticationFailed: The secret was encrypted with another server's secret, or for
                another access key or user, or is damaged.
        """
        nonce, box = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher.decrypt(nonce, box, _bound(access_key_id, owner)).decode()
        except (InvalidTag, ValueError):
            _LOGGER.warning(
                "cannot decrypt the secret of access key %s: the server's secret key has changed,"
                " or the record is damaged",
                access_key_id,
            )
            raise AuthenticationFailed from None


def _bound(access_key_id: AccessKeyID, owner: UniqueID) -> bytes:
    return f"{access_key_id}\x00{owner}".encode()


def check_access_key_id(access_key_id: str) -> str:
    """Return the id of an access key if valid."""
    if not is_access_key_id(access_key_id):
        raise InvalidName(
            f"invalid access key id {access_key_id!r}: use 3 to 128 letters, digits, hyphens and"
            " underscores"
        )
    return access_key_id


def same_secret(one: str, other: str) -> bool:
    """Return whether two secrets are equal, in constant time."""
    return hmac.compare_digest(
        one.encode("utf-8", "surrogatepass"), other.encode("utf-8", "surrogatepass")
    )


def check_secret(secret: str) -> str:
    """Return a chosen secret if valid."""
    if not _SECRET_CHARACTERS_MIN <= len(secret) <= _SECRET_CHARACTERS_MAX or not secret.isascii():
        raise AuthInvalid(
            f"a secret access key must have {_SECRET_CHARACTERS_MIN} to {_SECRET_CHARACTERS_MAX}"
            " ASCII characters"
        )
    return secret


def new_access_key_id(runtime: Runtime) -> AccessKeyID:
    """Generate the public half of an access key."""
    drawn = runtime.random_bytes(_ACCESS_KEY_DRAWN)
    return AccessKeyID("AKIAJ" + "".join(_BASE32[byte % 32] for byte in drawn) + "Q")


def new_secret(runtime: Runtime) -> str:
    """Generate the secret half of an access key."""
    return b64encode(runtime.random_bytes(_SECRET_BYTES)).decode()


KEY_FAILURES: Final = 10
KEY_SECONDS: Final = 10.0
"""Burst of wrong secrets per key and address, and seconds for each further attempt."""

_REMEMBERED_MAX: Final = 10_000
_NETWORK_BITS: Final = 64


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Leaky bucket of recent failures."""

    level: float = 0.0
    at: float = 0.0
    """Monotonic time of `level`."""


_Buckets = LRU[tuple[str, str], _Bucket]


class Throttle:
    """Counter of failed logins that refuses further attempts above a limit."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = runtime.lock()
        self._known: _Buckets = LRU(runtime, cost_max=_REMEMBERED_MAX)
        self._unknown: _Buckets = LRU(runtime, cost_max=_REMEMBERED_MAX)

    def check(self, access_key_id: str, client: str) -> None:
        """Refuse a login with a key from an address after too many failures of the pair."""
        if not (self._known.cost or self._unknown.cost):
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
        """Count a wrong secret of a key, or an attempt with an unknown key."""
        buckets = self._known if is_known else self._unknown
        pair = _pair(access_key_id, _network_of(client))
        with self._lock:
            level = self._level(buckets.get(pair) or _Bucket()) + 1
            buckets.put(pair, _Bucket(level, self._runtime.monotonic()))

    def _level(self, bucket: _Bucket) -> float:
        return max(0.0, bucket.level - (self._runtime.monotonic() - bucket.at) / KEY_SECONDS)


def _pair(access_key_id: str, network: str) -> tuple[str, str]:
    """Return the key of a bucket; all invalid ids of a network share a bucket."""
    return access_key_id if is_access_key_id(access_key_id) else "", network


@lru_cache(maxsize=1024)
def _network_of(client: str) -> str:
    """Return the unit of throttling: an IPv4 address, or an IPv6 /64 network."""
    address = parse_address(client)
    if isinstance(address, IPv6Address):
        return f"{int(address) >> (address.max_prefixlen - _NETWORK_BITS):x}"
    return client if address is None else str(address)
