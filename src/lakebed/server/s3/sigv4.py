"""Signature version 4: authenticates a request and protects its integrity.

A client derives a key from its secret, a day, a region and a service. With this key it signs a
digest of the request in canonical form: method, path, query, the signed headers, and the hash of
the body (or the name of its verification; see `lakebed.server.s3.payload`). The server builds the
canonical form of the received request and compares. `lakebed.server.s3.sigv4_fields` reads the
request's description of its signature.

The path is that of ``PATH_INFO``, the only one in WSGI: percent-decoded bytes, encoded again.
"""

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Final, Generic, TypeVar
from urllib.parse import quote_from_bytes

from lakebed.server.s3.environ import Environ, environ_key, folded_header
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4_fields import (
    ALGORITHM,
    SERVICE,
    TERMINATOR,
    SignatureFields,
    parse_form_signature,
    parse_signature,
)

IdentityT = TypeVar("IdentityT")

SecretFor = Callable[[str], tuple[IdentityT, str]]
"""Returns the owner and secret of an access key id; raises if the key does not exist."""

CLOCK_SKEW_MAX: Final = timedelta(minutes=15)
_UNRESERVED: Final = "-_.~"


@dataclass(frozen=True, slots=True)
class SigningScope:
    """The part common to all signatures of a request, including those of its chunks."""

    key: bytes
    """Derived from the secret."""
    time: str
    """As in ``x-amz-date``."""
    scope: str
    """Day, region, service."""
    signature: str
    """The signature of the request itself, in hexadecimal."""

    def sign(self, kind: str, *lines: str) -> str:
        text = "\n".join((kind, self.time, self.scope, *lines))
        # Not `hmac.digest`, which releases the GIL even for short texts: reacquiring it takes many
        # times as long.
        return hmac.new(self.key, text.encode(), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Verified(Generic[IdentityT]):
    """The signer of a request, and the verification of its body."""

    identity: IdentityT
    payload: str
    """The required SHA-256 of the body, or the name of another verification."""
    scope: SigningScope | None
    """The scope for signatures of chunks; None: chunks cannot be signed."""


def verify(
    environ: Environ, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Verify the signature of a request; its body is verified later.

    Raises:
        S3Error: The signature is missing, wrong, expired or too early.
        Exception: Any exception of `secret_for`.
    """
    fields = parse_signature(environ)
    _check_time(fields, now)
    identity, secret = secret_for(fields.access_key_id)
    key = _signing_key(secret, fields.day, fields.region)
    scope = SigningScope(key, fields.time, fields.scope, fields.signature)
    digest = sha256(_canonical_request(environ, fields)).hexdigest()
    if not hmac.compare_digest(scope.sign(ALGORITHM, digest), fields.signature):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, fields.payload, scope)


def verify_form(
    fields: Mapping[str, str], secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Verify the signature of the policy in a form, by its fields; raises as `verify`."""
    signed = parse_form_signature(fields)
    _check_time(signed, now)
    identity, secret = secret_for(signed.access_key_id)
    key = _signing_key(secret, signed.day, signed.region)
    signature = hmac.new(key, fields["policy"].encode(), "sha256").hexdigest()
    if not hmac.compare_digest(signature, signed.signature):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, signed.payload, None)


def _check_time(fields: SignatureFields, now: datetime) -> None:
    try:
        signed = datetime(*_numbers(fields.time), tzinfo=UTC)
    except ValueError:
        raise S3Error(
            ErrorCode.ACCESS_DENIED, f'the x-amz-date "{fields.time}" is not a date'
        ) from None
    if signed - now > CLOCK_SKEW_MAX:
        raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    if fields.expires_seconds is None:
        if now - signed > CLOCK_SKEW_MAX:
            raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    elif now - signed > timedelta(seconds=fields.expires_seconds):
        raise S3Error(ErrorCode.ACCESS_DENIED, "the presigned URL has expired; make a new one")


def _numbers(time: str) -> tuple[int, int, int, int, int, int]:
    """Return year to second; `datetime.strptime` takes longer than all other steps."""
    return (
        int(time[0:4]),
        int(time[4:6]),
        int(time[6:8]),
        int(time[9:11]),
        int(time[11:13]),
        int(time[13:15]),
    )


def _canonical_request(environ: Environ, fields: SignatureFields) -> bytes:
    path = environ.get("PATH_INFO", "").encode("latin-1") or b"/"
    query = sorted(
        (quote_from_bytes(name, safe=_UNRESERVED), quote_from_bytes(value, safe=_UNRESERVED))
        for name, value in fields.query
    )
    headers = "".join(
        f"{name}:{folded_header(environ, environ_key(name))}\n" for name in fields.signed_headers
    )
    lines = (
        environ["REQUEST_METHOD"],
        quote_from_bytes(path, safe="/" + _UNRESERVED),
        "&".join(f"{name}={value}" for name, value in query),
        headers,
        ";".join(fields.signed_headers),
        fields.payload,
    )
    return "\n".join(lines).encode("latin-1")


@lru_cache(maxsize=1024)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for step in (day, region, SERVICE, TERMINATOR):
        key = hmac.digest(key, step.encode(), "sha256")
    return key
