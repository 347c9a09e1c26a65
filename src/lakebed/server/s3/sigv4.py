"""Signature version 4: who sent a request, and that it is the one they signed.

A client derives a key from its secret, a day, a region and a service. With this key it signs a
digest of the request in one fixed spelling: method, path, query, the headers that it names, and the
hash of the body (or a word for how the body proves itself; see `lakebed.server.s3.payload`). The
server spells the request that arrived in the same way and compares. What the request says about its
own signature is read by `lakebed.server.s3.sigv4_claim`.

The path comes from ``PATH_INFO``, because WSGI has no other: the bytes that arrived after percent-
decoding, encoded again.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Final, Generic, TypeVar
from urllib.parse import quote_from_bytes

from lakebed.server.s3.environ import Environ, environ_key, folded_header
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4_claim import ALGORITHM, SERVICE, TERMINATOR, Claim, read_claim

IdentityT = TypeVar("IdentityT")

SecretFor = Callable[[str], tuple[IdentityT, str]]
"""From an access key id to its owner and its secret; raises if the key does not exist."""

CLOCK_SKEW_MAX: Final = timedelta(minutes=15)
_UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class SigningScope:
    """What all signatures of one request share: those of its chunks build on it."""

    key: bytes
    """Derived from the secret."""
    time: str
    """As in ``x-amz-date``."""
    scope: str
    """Day, region, service."""
    signature: str
    """The signature of the request itself, in hexadecimal."""

    def sign(self, kind: str, *lines: str) -> str:
        """Return the signature of some lines in this scope."""
        text = "\n".join((kind, self.time, self.scope, *lines))
        # Not by `hmac.digest`, which lets another thread have the interpreter, however short the
        # text is: to get it back takes many times as long.
        return hmac.new(self.key, text.encode(), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Verified(Generic[IdentityT]):
    """Who signed a request, and how its body is to be checked."""

    identity: IdentityT
    payload: str
    """The SHA-256 that the body must have, or the word for how it proves itself."""
    scope: SigningScope | None
    """What the signatures of chunks build on; None: chunks cannot be signed."""


def verify(
    environ: Environ, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Check who sent a request and that nothing of it was changed; the body is checked later.

    Raises:
        S3Error: The request is not signed, has a wrong signature, or is too old or too early.
        Exception: Whatever `secret_for` raises.
    """
    claim = read_claim(environ)
    _check_time(claim, now)
    identity, secret = secret_for(claim.access_key_id)
    key = _signing_key(secret, claim.day, claim.region)
    scope = SigningScope(key, claim.time, claim.scope, claim.signature)
    digest = sha256(_canonical_request(environ, claim)).hexdigest()
    if not hmac.compare_digest(scope.sign(ALGORITHM, digest), claim.signature):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, claim.payload, scope)


def _check_time(claim: Claim, now: datetime) -> None:
    try:
        signed = datetime(*_numbers(claim.time), tzinfo=UTC)
    except ValueError:
        raise S3Error(
            ErrorCode.ACCESS_DENIED, f'the x-amz-date "{claim.time}" is not a date'
        ) from None
    if signed - now > CLOCK_SKEW_MAX:
        raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    if claim.expires_seconds is None:
        if now - signed > CLOCK_SKEW_MAX:
            raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    elif now - signed > timedelta(seconds=claim.expires_seconds):
        raise S3Error(ErrorCode.ACCESS_DENIED, "the presigned URL has expired; make a new one")


def _numbers(time: str) -> tuple[int, int, int, int, int, int]:
    """Year to second; `datetime.strptime` takes longer than all the rest."""
    return (
        int(time[0:4]),
        int(time[4:6]),
        int(time[6:8]),
        int(time[9:11]),
        int(time[11:13]),
        int(time[13:15]),
    )


def _canonical_request(environ: Environ, claim: Claim) -> bytes:
    """Return a request in the one spelling that is signed."""
    path = environ.get("PATH_INFO", "").encode("latin-1") or b"/"
    query = sorted(
        (quote_from_bytes(name, safe=_UNRESERVED), quote_from_bytes(value, safe=_UNRESERVED))
        for name, value in claim.query
    )
    headers = "".join(
        f"{name}:{folded_header(environ, environ_key(name))}\n" for name in claim.signed_headers
    )
    lines = (
        environ["REQUEST_METHOD"],
        quote_from_bytes(path, safe="/" + _UNRESERVED),
        "&".join(f"{name}={value}" for name, value in query),
        headers,
        ";".join(claim.signed_headers),
        claim.payload,
    )
    return "\n".join(lines).encode("latin-1")


@lru_cache(maxsize=1024)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for step in (day, region, SERVICE, TERMINATOR):
        key = hmac.digest(key, step.encode(), "sha256")
    return key
