"""Signature version 4: who sent a request, and that it is the one they signed.

A client derives a key from its secret, a day, a region and a service, and signs with it a digest of
the request in one canonical spelling: method, path, query, the headers that it names, and the hash
of the body (or a word for how the body proves itself; see `lakebed.server.s3.payload`). The server
spells the request that arrived in the same way and compares.

The path is taken from ``PATH_INFO``, since WSGI has no other: the bytes that arrived after percent-
decoding, encoded again. The signature stands in the ``Authorization`` header, or in the query
(a presigned URL, good for up to seven days).

Every ``x-amz-`` header that arrives must be among the signed ones. So whatever changes the meaning
of a request was put there by the holder of the secret.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

from lakebed.server.s3.errors import ErrorCode, S3Error

Environ = dict[str, Any]
"""A request as WSGI hands it over."""

IdentityT = TypeVar("IdentityT")

SecretFor = Callable[[str], tuple[IdentityT, str]]
"""From an access key id to its owner and its secret; it raises where there is no such key."""

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"

CLOCK_SKEW_MAX: Final = timedelta(minutes=15)
EXPIRES_SECONDS_MAX: Final = 7 * 24 * 3600

_SERVICE: Final = "s3"
_TERMINATOR: Final = "aws4_request"
_UNRESERVED: Final = "-_.~"
_SIGNED_HEADERS_MAX: Final = 100

_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_EXPIRES: Final = re.compile(r"[0-9]{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SigningScope:
    """What the signatures of one request have in common: those of its chunks go on from here."""

    key: bytes
    """Derived from the secret."""
    time: str
    """As in ``x-amz-date``."""
    scope: str
    """Day, region, service."""
    signature: str
    """Of the request itself, in hexadecimal."""

    def sign(self, kind: str, *lines: str) -> str:
        """Return the signature of some lines in this scope."""
        text = "\n".join((kind, self.time, self.scope, *lines))
        return hmac.digest(self.key, text.encode(), "sha256").hex()


@dataclass(frozen=True, slots=True)
class Verified(Generic[IdentityT]):
    """A request that its sender signed."""

    identity: IdentityT
    payload: str
    """The SHA-256 that the body must have, or the word that says how it proves itself."""
    scope: SigningScope | None
    """Where the signatures of chunks go on from; None: chunks cannot be signed."""


def verify(
    environ: Environ, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Prove who sent a request and that nothing of it was changed; the body comes later.

    Raises:
        S3Error: It is not signed, not well signed, too old or too early.
        Exception: Whatever `secret_for` raises.
    """
    claim = _claim(environ)
    _check_time(claim, now)
    identity, secret = secret_for(claim.access_key_id)
    key = _signing_key(secret, claim.day, claim.region)
    scope = SigningScope(key, claim.time, claim.scope, claim.signature)
    digest = sha256(_canonical_request(environ, claim)).hexdigest()
    if not hmac.compare_digest(scope.sign(ALGORITHM, digest), claim.signature):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, claim.payload, scope)


class _Claim(NamedTuple):
    """What a request says of its own signature; nothing of it is proved."""

    access_key_id: str
    day: str
    region: str
    time: str
    expires_seconds: int | None
    """None: signed in a header, for now."""
    signed_headers: list[str]
    signature: str
    payload: str
    query: list[tuple[bytes, bytes]]
    """All of it but the signature."""

    @property
    def scope(self) -> str:
        return f"{self.day}/{self.region}/{_SERVICE}/{_TERMINATOR}"


def _claim(environ: Environ) -> _Claim:
    header = environ.get("HTTP_AUTHORIZATION", "")
    query = query_parameters(environ.get("QUERY_STRING", ""))
    presigned = any(name == b"X-Amz-Algorithm" for name, _ in query)
    if header and presigned:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "a request is signed in one place, not in two")
    if presigned:
        return _query_claim(environ, query)
    if not header:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the request is not signed")
    return _header_claim(environ, header, query)


def _header_claim(environ: Environ, header: str, query: list[tuple[bytes, bytes]]) -> _Claim:
    malformed = ErrorCode.AUTHORIZATION_HEADER_MALFORMED
    algorithm, _, rest = header.partition(" ")
    if algorithm != ALGORITHM:
        raise _other_algorithm()
    fields: dict[str, str] = {}
    for item in rest.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals or name in fields:
            raise S3Error(malformed)
        fields[name] = value
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise S3Error(malformed, "it needs Credential, SignedHeaders and Signature, once each")
    access_key_id, day, region = _credential(fields["Credential"], malformed)
    payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256")
    if payload is None:
        raise S3Error(ErrorCode.INVALID_REQUEST, "there is no x-amz-content-sha256 header")
    return _Claim(
        access_key_id,
        day,
        region,
        time=_time(environ.get("HTTP_X_AMZ_DATE", ""), day, malformed),
        expires_seconds=None,
        signed_headers=_signed_headers(environ, fields["SignedHeaders"], malformed),
        signature=_signature(fields["Signature"], malformed),
        payload=payload,
        query=query,
    )


def _other_algorithm() -> S3Error:
    return S3Error(
        ErrorCode.INVALID_REQUEST,
        f"requests are signed by {ALGORITHM} only: set the client's signature version to 4",
    )


def _query_claim(environ: Environ, query: list[tuple[bytes, bytes]]) -> _Claim:
    malformed = ErrorCode.AUTHORIZATION_QUERY_PARAMETERS

    def the(name: str, default: str | None = None) -> str:
        values = [value for found, value in query if found == name.encode()]
        if not values and default is not None:
            return default
        if len(values) != 1:
            raise S3Error(malformed, f"the query needs {name}, once")
        return values[0].decode("latin-1")

    if the("X-Amz-Algorithm") != ALGORITHM:
        raise S3Error(malformed, f"requests are signed by {ALGORITHM} only")
    access_key_id, day, region = _credential(the("X-Amz-Credential"), malformed)
    expires = the("X-Amz-Expires")
    if not _EXPIRES.fullmatch(expires) or not 1 <= int(expires) <= EXPIRES_SECONDS_MAX:
        raise S3Error(malformed, f"X-Amz-Expires must be from 1 to {EXPIRES_SECONDS_MAX} seconds")
    declared = environ.get("HTTP_X_AMZ_CONTENT_SHA256", UNSIGNED_PAYLOAD)
    return _Claim(
        access_key_id,
        day,
        region,
        time=_time(the("X-Amz-Date"), day, malformed),
        expires_seconds=int(expires),
        signed_headers=_signed_headers(environ, the("X-Amz-SignedHeaders"), malformed),
        signature=_signature(the("X-Amz-Signature"), malformed),
        payload=the("X-Amz-Content-Sha256", declared),
        query=[item for item in query if item[0] != b"X-Amz-Signature"],
    )


def _credential(credential: str, malformed: ErrorCode) -> tuple[str, str, str]:
    """Return access key id, day and region."""
    parts = credential.split("/")
    if len(parts) != 5:  # noqa: PLR2004 - as many as are named below
        raise S3Error(malformed, "Credential must be <access key id>/<day>/<region>/s3/...")
    access_key_id, day, region, service, terminator = parts
    if service != _SERVICE or terminator != _TERMINATOR:
        raise S3Error(malformed, f"Credential must end in /{_SERVICE}/{_TERMINATOR}")
    return access_key_id, day, region


def _time(time: str, day: str, malformed: ErrorCode) -> str:
    if not _TIME.fullmatch(time):
        raise S3Error(ErrorCode.ACCESS_DENIED, "a signed request needs a valid x-amz-date")
    if not time.startswith(f"{day}T"):
        raise S3Error(malformed, "the day of the Credential is not that of x-amz-date")
    return time


def _signature(signature: str, malformed: ErrorCode) -> str:
    if not _SIGNATURE.fullmatch(signature):
        raise S3Error(malformed, "a signature has 64 hexadecimal digits")
    return signature


def _signed_headers(environ: Environ, names: str, malformed: ErrorCode) -> list[str]:
    signed = names.split(";")
    if len(signed) > _SIGNED_HEADERS_MAX or not all(map(_HEADER_NAME.fullmatch, signed)):
        raise S3Error(malformed, "SignedHeaders are names in lower case, separated by ';'")
    if signed != sorted(set(signed)):
        raise S3Error(malformed, "SignedHeaders must be in ascending order")
    if "host" not in signed:
        raise S3Error(malformed, "the host header must be signed")
    keys = {environ_key(name) for name in signed}
    if any(key not in keys for key in environ if key.startswith("HTTP_X_AMZ_")):
        raise S3Error(ErrorCode.ACCESS_DENIED, "there are x-amz- headers that were not signed")
    return signed


def _check_time(claim: _Claim, now: datetime) -> None:
    try:
        signed = datetime(*_numbers(claim.time), tzinfo=UTC)
    except ValueError:
        raise S3Error(ErrorCode.ACCESS_DENIED, "x-amz-date is no date") from None
    if signed - now > CLOCK_SKEW_MAX:
        raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    if claim.expires_seconds is None:
        if now - signed > CLOCK_SKEW_MAX:
            raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    elif now - signed > timedelta(seconds=claim.expires_seconds):
        raise S3Error(ErrorCode.ACCESS_DENIED, "the request has expired")


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


def _canonical_request(environ: Environ, claim: _Claim) -> bytes:
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


def folded_header(environ: Environ, key: str) -> str:
    """Return the value of a header, its spaces folded; one that did not arrive is empty.

    Folded as bytes: among the characters of Latin-1 there are more spaces than in ASCII.
    """
    value: str = environ.get(key, "")
    return b" ".join(value.encode("latin-1").split()).decode("latin-1")


@lru_cache(maxsize=1024)
def environ_key(name: str) -> str:
    """Return where WSGI keeps a header."""
    if name in {"content-type", "content-length"}:
        return name.upper().replace("-", "_")
    return f"HTTP_{name.upper().replace('-', '_')}"


def query_parameters(query: str) -> list[tuple[bytes, bytes]]:
    """Return the parameters of a query, decoded, in their order; a plus sign is a space."""
    parameters = []
    for item in query.split("&"):
        if item:
            name, _, value = item.replace("+", "%20").encode("latin-1").partition(b"=")
            parameters.append((unquote_to_bytes(name), unquote_to_bytes(value)))
    return parameters


@lru_cache(maxsize=1024)
def _signing_key(secret: str, day: str, region: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for step in (day, region, _SERVICE, _TERMINATOR):
        key = hmac.digest(key, step.encode(), "sha256")
    return key
