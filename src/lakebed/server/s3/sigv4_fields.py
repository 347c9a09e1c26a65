"""Parser of a request's signature of version 4, without verification.

The signature is in the ``Authorization`` header, or in the query of a presigned URL, which is valid
for up to seven days.

Every ``x-amz-`` header received must be signed. So only the owner of the secret can change the
meaning of a request.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from lakebed.server.s3.environ import Environ, environ_key, parse_number, query_parameters
from lakebed.server.s3.errors import ErrorCode, S3Error

ALGORITHM: Final = "AWS4-HMAC-SHA256"
SERVICE: Final = "s3"
TERMINATOR: Final = "aws4_request"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
EXPIRES_SECONDS_MAX: Final = 7 * 24 * 3600

_SIGNED_HEADERS_MAX: Final = 100
_NAMES_KEPT_MAX: Final = 500
_EXPIRES_DIGITS_MAX: Final = 6
_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z", re.ASCII)
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HEADER_NAME: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_SIGN_BY_VERSION_4: Final = (
    f"requests must be signed by {ALGORITHM}: set the signature version of the client to 4"
)


class SignatureFields(NamedTuple):
    """The fields of a request's signature, unverified."""

    access_key_id: str
    day: str
    region: str
    time: str
    """As in ``x-amz-date``; begins with `day`."""
    expires_seconds: int | None
    """The validity of a presigned URL; None: the signature is in a header, and must be recent."""
    signed_headers: list[str]
    signature: str
    payload: str
    """The SHA-256 of the body, or the name of another verification."""
    query: list[tuple[bytes, bytes]]
    """All parameters except the signature."""

    @property
    def scope(self) -> str:
        """The scope of the signing key."""
        return f"{self.day}/{self.region}/{SERVICE}/{TERMINATOR}"


def parse_signature(environ: Environ) -> SignatureFields:
    """Return the unverified signature of a request."""
    header = environ.get("HTTP_AUTHORIZATION", "")
    query = query_parameters(environ.get("QUERY_STRING", ""))
    is_presigned = any(name == b"X-Amz-Algorithm" for name, _ in query)
    if header and is_presigned:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            "the request is signed in the Authorization header and in the query; sign it in one",
        )
    if is_presigned:
        return _query_fields(environ, query)
    if not header:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the request is not signed")
    return _header_fields(environ, header, query)


def parse_form_signature(fields: Mapping[str, str]) -> SignatureFields:
    """Parse the signature of a form's policy; names of fields are in lower case."""
    malformed = ErrorCode.INVALID_ARGUMENT
    if "policy" not in fields:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the form has no policy before its file")
    if fields.get("x-amz-algorithm") != ALGORITHM:
        raise S3Error(ErrorCode.INVALID_REQUEST, _SIGN_BY_VERSION_4)
    access_key_id, day, region = _credential(fields.get("x-amz-credential", ""), malformed)
    return SignatureFields(
        access_key_id,
        day,
        region,
        time=_time(fields.get("x-amz-date", ""), day, malformed),
        expires_seconds=EXPIRES_SECONDS_MAX,
        signed_headers=[],
        signature=_signature(fields.get("x-amz-signature", ""), malformed),
        payload=UNSIGNED_PAYLOAD,
        query=[],
    )


def _header_fields(
    environ: Environ, header: str, query: list[tuple[bytes, bytes]]
) -> SignatureFields:
    malformed = ErrorCode.AUTHORIZATION_HEADER_MALFORMED
    algorithm, _, rest = header.partition(" ")
    if algorithm != ALGORITHM:
        raise S3Error(ErrorCode.INVALID_REQUEST, _SIGN_BY_VERSION_4)
    fields: dict[str, str] = {}
    for item in rest.split(","):
        name, equals, value = item.strip().partition("=")
        if not equals or name in fields:
            raise _needs_fields()
        fields[name] = value
    if fields.keys() != {"Credential", "SignedHeaders", "Signature"}:
        raise _needs_fields()
    access_key_id, day, region = _credential(fields["Credential"], malformed)
    payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256")
    if payload is None:
        raise S3Error(ErrorCode.INVALID_REQUEST, "the request needs an x-amz-content-sha256 header")
    return SignatureFields(
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


def _needs_fields() -> S3Error:
    return S3Error(
        ErrorCode.AUTHORIZATION_HEADER_MALFORMED,
        "the Authorization header must have Credential, SignedHeaders and Signature, once each",
    )


def _query_fields(environ: Environ, query: list[tuple[bytes, bytes]]) -> SignatureFields:
    malformed = ErrorCode.AUTHORIZATION_QUERY_PARAMETERS

    def only(name: str, default: str | None = None) -> str:
        values = [value for found, value in query if found == name.encode()]
        if not values and default is not None:
            return default
        if len(values) != 1:
            raise S3Error(malformed, f"the query must have {name}, once")
        return values[0].decode("latin-1")

    if only("X-Amz-Algorithm") != ALGORITHM:
        raise S3Error(malformed, _SIGN_BY_VERSION_4)
    access_key_id, day, region = _credential(only("X-Amz-Credential"), malformed)
    expires = parse_number(only("X-Amz-Expires"), digits_max=_EXPIRES_DIGITS_MAX) or 0
    if not 1 <= expires <= EXPIRES_SECONDS_MAX:
        raise S3Error(
            malformed, f"X-Amz-Expires must be a number of seconds from 1 to {EXPIRES_SECONDS_MAX}"
        )
    declared = environ.get("HTTP_X_AMZ_CONTENT_SHA256", UNSIGNED_PAYLOAD)
    return SignatureFields(
        access_key_id,
        day,
        region,
        time=_time(only("X-Amz-Date"), day, malformed),
        expires_seconds=expires,
        signed_headers=_signed_headers(environ, only("X-Amz-SignedHeaders"), malformed),
        signature=_signature(only("X-Amz-Signature"), malformed),
        payload=only("X-Amz-Content-Sha256", declared),
        query=[item for item in query if item[0] != b"X-Amz-Signature"],
    )


def _credential(credential: str, malformed: ErrorCode) -> tuple[str, str, str]:
    form = f"Credential must be <access key id>/<day>/<region>/{SERVICE}/{TERMINATOR}"
    parts = credential.split("/")
    if parts[3:] != [SERVICE, TERMINATOR]:
        raise S3Error(malformed, form)
    access_key_id, day, region = parts[:3]
    return access_key_id, day, region


def _time(time: str, day: str, malformed: ErrorCode) -> str:
    if not _TIME.fullmatch(time):
        raise S3Error(
            ErrorCode.ACCESS_DENIED,
            f'x-amz-date must be a time like 20260131T235959Z, not "{time[:100]}"',
        )
    if not time.startswith(f"{day}T"):
        raise S3Error(
            malformed,
            f"the Credential is of day {day[:100]}, and x-amz-date is {time}: use the same day",
        )
    return time


def _signature(signature: str, malformed: ErrorCode) -> str:
    if not _SIGNATURE.fullmatch(signature):
        raise S3Error(malformed, "the signature must have 64 hexadecimal digits in lower case")
    return signature


def _signed_headers(environ: Environ, names: str, malformed: ErrorCode) -> list[str]:
    # Cached: a client signs the same headers every time. Long lists are not cached.
    read = _read_names if len(names) <= _NAMES_KEPT_MAX else _read_names.__wrapped__
    signed, keys = read(names, malformed)
    for key in environ:
        if key.startswith("HTTP_X_AMZ_") and key not in keys:
            name = key.removeprefix("HTTP_").replace("_", "-").lower()
            raise S3Error(ErrorCode.ACCESS_DENIED, f'the header "{name[:100]}" must be signed')
    return signed


@lru_cache(maxsize=256)
def _read_names(names: str, malformed: ErrorCode) -> tuple[list[str], frozenset[str]]:
    """Return the signed header names, and their keys in WSGI."""
    signed = names.split(";")
    if len(signed) > _SIGNED_HEADERS_MAX or not all(map(_HEADER_NAME.fullmatch, signed)):
        raise S3Error(
            malformed,
            "SignedHeaders must be names in lower case, separated by ';', and at most"
            f" {_SIGNED_HEADERS_MAX}",
        )
    if signed != sorted(set(signed)):
        raise S3Error(malformed, "SignedHeaders must be in ascending order, once each")
    if "host" not in signed:
        raise S3Error(malformed, "the host header must be signed")
    return signed, frozenset(map(environ_key, signed))
