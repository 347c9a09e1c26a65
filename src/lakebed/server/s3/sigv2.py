"""Signature version 2: used by old clients, and by boto3 and aws-cli for presigned URLs.

The signature is in the ``Authorization`` header, or in the query of a presigned URL:

    Authorization: AWS <access key id>:<base64>
    ?AWSAccessKeyId=<access key id>&Expires=<seconds since 1970>&Signature=<base64>

It covers the method, the bucket and the path, a time, content type and MD5, ``x-amz-`` headers, and
the parameters that select an operation or set response headers. It covers neither the rest of the
query nor the body. So:

- A presigned URL is accepted only for its usual purposes: reading or writing one object.
- A header is valid for every operation, for 15 minutes. Parameters that it does not cover are
  accepted only for lists, where they merely select the items shown.
- A body must match ``x-amz-content-sha256``, if a client sends this header of version 4. It cannot
  be chunked: only version 4 defines the verification of chunks (`sigv4`).
"""

import hmac
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote_from_bytes

from lakebed.server.s3.environ import Environ, environ_key, parse_number
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.router import S3Operation, S3Route
from lakebed.server.s3.sigv4 import CLOCK_SKEW_MAX, IdentityT, SecretFor, Verified
from lakebed.server.s3.sigv4_fields import EXPIRES_SECONDS_MAX, UNSIGNED_PAYLOAD

_SCHEME: Final = "AWS "
_PRESIGNED: Final = frozenset(
    {
        S3Operation.GET_OBJECT,
        S3Operation.HEAD_OBJECT,
        S3Operation.PUT_OBJECT,
        S3Operation.UPLOAD_PART,
    }
)
_LISTS: Final = frozenset(
    {
        S3Operation.LIST_BUCKETS,
        S3Operation.LIST_OBJECTS,
        S3Operation.LIST_OBJECTS_V2,
        S3Operation.LIST_OBJECT_VERSIONS,
        S3Operation.LIST_MULTIPART_UPLOADS,
        S3Operation.LIST_PARTS,
    }
)
_SIGNATURE_PARAMETERS: Final = frozenset({"AWSAccessKeyId", "Expires", "Signature"})
_SIGNED_PARAMETERS: Final = frozenset(
    {
        "accelerate",
        "acl",
        "delete",
        "location",
        "logging",
        "notification",
        "partNumber",
        "requestPayment",
        "tagging",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
    }
)
"""Parameters of supported operations that clients of version 2 sign."""
_SIGNED_PREFIX: Final = "response-"
_EXPIRES_DIGITS_MAX: Final = 12
_STREAMING: Final = "STREAMING-"


def has_signature(environ: Environ, route: S3Route) -> bool:
    """Whether a request has a signature of version 2, in its headers or its query."""
    return "AWSAccessKeyId" in route.query or _header(environ).startswith(_SCHEME)


def verify(
    environ: Environ, route: S3Route, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Verify the signature of a request; return its signer.

    Raises:
        S3Error: The signature is wrong, expired or too early, or does not cover a parameter that
            changes the request's meaning.
        Exception: Any exception of `secret_for`.
    """
    if "AWSAccessKeyId" in route.query:
        access_key_id, signature, time = _query_fields(environ, route, now)
    else:
        access_key_id, signature, time = _header_fields(environ, route, now)
    payload = environ.get("HTTP_X_AMZ_CONTENT_SHA256", UNSIGNED_PAYLOAD)
    if payload.startswith(_STREAMING):
        raise S3Error(
            ErrorCode.INVALID_REQUEST,
            "a body in chunks must be signed by version 4: set the signature version of the client"
            " to 4",
        )
    identity, secret = secret_for(access_key_id)
    for path in _paths(environ, route):
        signed = _signed_text(environ, route, time, path).encode("latin-1")
        digest = hmac.digest(secret.encode(), signed, "sha1")
        if hmac.compare_digest(b64encode(digest), signature.encode()):
            return Verified(identity, payload, scope=None)
    raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)


def _header(environ: Environ) -> str:
    value: str = environ.get("HTTP_AUTHORIZATION", "")
    return value


def _query_fields(environ: Environ, route: S3Route, now: datetime) -> tuple[str, str, str]:
    """Return access key id, signature and time of a presigned URL."""
    malformed = ErrorCode.AUTHORIZATION_QUERY_PARAMETERS
    if _header(environ):
        raise S3Error(malformed, "a presigned URL must come without an Authorization header")
    if not route.query.keys() >= _SIGNATURE_PARAMETERS:
        raise S3Error(malformed, "the query must have AWSAccessKeyId, Expires and Signature")
    if route.operation not in _PRESIGNED:
        raise S3Error(
            ErrorCode.INVALID_REQUEST,
            f"a URL for {route.operation.value} must be signed by version 4: set the signature"
            " version of the client to 4",
        )
    expires = parse_number(route.query["Expires"], digits_max=_EXPIRES_DIGITS_MAX)
    if expires is None:
        raise S3Error(malformed, "Expires must be a number of seconds since 1970")
    _check_expiry(expires, now)
    return route.query["AWSAccessKeyId"], route.query["Signature"], route.query["Expires"]


def _check_expiry(expires: int, now: datetime) -> None:
    left = expires - now.astimezone(UTC).timestamp()
    if left < 0:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the presigned URL has expired; make a new one")
    if left > EXPIRES_SECONDS_MAX:
        days = timedelta(seconds=EXPIRES_SECONDS_MAX).days
        raise S3Error(ErrorCode.ACCESS_DENIED, f"a presigned URL must expire within {days} days")


def _header_fields(environ: Environ, route: S3Route, now: datetime) -> tuple[str, str, str]:
    """Return access key id, signature and time of a request signed in its headers."""
    access_key_id, colon, signature = _header(environ).removeprefix(_SCHEME).partition(":")
    if not (access_key_id and colon and signature):
        raise S3Error(
            ErrorCode.AUTHORIZATION_HEADER_MALFORMED,
            "the Authorization header must be AWS <access key id>:<signature>",
        )
    if _SIGNATURE_PARAMETERS & route.query.keys():
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            "the request is signed in the Authorization header and in the query; sign it in one",
        )
    # x-amz-date takes precedence, and is signed among the x-amz- headers.
    own = _trimmed(environ, "HTTP_X_AMZ_DATE")
    date = own or _trimmed(environ, "HTTP_DATE")
    if abs(_time_of(date) - now) > CLOCK_SKEW_MAX:
        raise S3Error(ErrorCode.REQUEST_TIME_TOO_SKEWED)
    return access_key_id, signature, "" if "HTTP_X_AMZ_DATE" in environ else date


def _time_of(date: str) -> datetime:
    for parse in _TIMES:
        try:
            found = parse(date)
        except (TypeError, ValueError, IndexError, OverflowError):
            continue
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    raise S3Error(
        ErrorCode.ACCESS_DENIED,
        f'x-amz-date or Date must be a time like Sat, 31 Jan 2026 23:59:59 GMT, not "{date[:100]}"',
    )


_TIMES: Final[tuple[Callable[[str], datetime], ...]] = (
    lambda date: datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
    parsedate_to_datetime,
)


def _paths(environ: Environ, route: S3Route) -> list[bytes]:
    """Return the path of a request with its bucket, in all variants that clients sign.

    Some sign a bare bucket with a slash at its end, whether they send one or not.
    """
    path: bytes = environ["PATH_INFO"].encode("latin-1")
    if not route.is_path_style:
        return [f"/{route.bucket}".encode() + path]
    return [path] if route.key or path.endswith(b"/") else [path, path + b"/"]


def _signed_text(environ: Environ, route: S3Route, time: str, path: bytes) -> str:
    headers = sorted(
        (key.removeprefix("HTTP_").replace("_", "-").lower(), _trimmed(environ, key))
        for key in environ
        if key.startswith("HTTP_X_AMZ_")
    )
    lines = [
        environ["REQUEST_METHOD"],
        _trimmed(environ, "HTTP_CONTENT_MD5"),
        _trimmed(environ, "CONTENT_TYPE"),
        time,
        *(f"{name}:{value}" for name, value in headers),
        _resource(environ, route, path),
    ]
    return "\n".join(lines)


def _resource(environ: Environ, route: S3Route, path: bytes) -> str:
    """Return the path and the signed parameters; refuse unsigned parameters with an effect."""
    is_list = route.operation in _LISTS
    parameters = []
    for name in sorted(route.query.keys() - _SIGNATURE_PARAMETERS):
        value = route.query[name].encode().decode("latin-1")
        if name in _SIGNED_PARAMETERS or name.startswith(_SIGNED_PREFIX):
            signed = name.encode().decode("latin-1")
            parameters.append(f"{signed}={value}" if value else signed)
        elif not is_list and name != "x-id" and value != _signed_header(environ, name):
            raise S3Error(
                ErrorCode.ACCESS_DENIED,
                f'the parameter "{name[:50]}" is not signed by version 2: set the signature version'
                " of the client to 4",
            )
    resource = quote_from_bytes(path, safe="/-_.~")
    return f"{resource}?{'&'.join(parameters)}" if parameters else resource


def _signed_header(environ: Environ, name: str) -> str | None:
    """Return a header, if headers of this name are signed.

    botocore repeats such headers in the query, which is accepted for equal values.
    """
    if name in {"content-md5", "content-type"} or name.startswith("x-amz-"):
        return _trimmed(environ, environ_key(name))
    return None


def _trimmed(environ: Environ, key: str) -> str:
    """Return the value of a header, empty if missing; inner spaces are signed."""
    value: str = environ.get(key, "")
    return value.strip(" \t")
