"""Signature version 2, in presigned URLs only: boto3 and aws-cli still make them by default.

    ?AWSAccessKeyId=<access key id>&Expires=<seconds since 1970>&Signature=<base64>

The signature covers the method, the path, the expiry, content type and MD5, ``x-amz-`` headers, and
the parameters that choose an operation or set headers of the answer. It covers neither host nor
body. So such a URL is accepted for what people make it for and for nothing else: reading or writing
one object, with a body that is not in chunks. Everything else must be signed by version 4
(`lakebed.server.s3.sigv4`).
"""

import hmac
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote_from_bytes

from lakebed.server.s3.environ import Environ, environ_key, folded_header, parse_number
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.router import Operation, Route
from lakebed.server.s3.sigv4 import IdentityT, SecretFor, Verified
from lakebed.server.s3.sigv4_claim import EXPIRES_SECONDS_MAX, UNSIGNED_PAYLOAD

_OPERATIONS: Final = frozenset(
    {Operation.GET_OBJECT, Operation.HEAD_OBJECT, Operation.PUT_OBJECT, Operation.UPLOAD_PART}
)
_SIGNATURE_PARAMETERS: Final = frozenset({"AWSAccessKeyId", "Expires", "Signature"})
_SIGNED_PARAMETERS: Final = frozenset({"partNumber", "uploadId"})
_SIGNED_PREFIX: Final = "response-"
_EXPIRES_DIGITS_MAX: Final = 12


def has_signature(route: Route) -> bool:
    """Whether a request carries a signature of version 2 in its query."""
    return "AWSAccessKeyId" in route.query


def verify(
    environ: Environ, route: Route, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Check who presigned a URL, and that nothing of its meaning was changed.

    Raises:
        S3Error: It has a wrong signature, has expired, or is not for reading or writing an object.
        Exception: Whatever `secret_for` raises.
    """
    malformed = ErrorCode.AUTHORIZATION_QUERY_PARAMETERS
    if "HTTP_AUTHORIZATION" in environ:
        raise S3Error(malformed, "a presigned URL must come without an Authorization header")
    if not route.query.keys() >= _SIGNATURE_PARAMETERS:
        raise S3Error(malformed, "the query must have AWSAccessKeyId, Expires and Signature")
    if route.operation not in _OPERATIONS:
        raise S3Error(
            ErrorCode.INVALID_REQUEST,
            f"{route.operation.value} must be signed by version 4: set the signature version of"
            " the client to 4",
        )
    expires = parse_number(route.query["Expires"], digits_max=_EXPIRES_DIGITS_MAX)
    if expires is None:
        raise S3Error(malformed, "Expires must be a number of seconds since 1970")
    _check_time(expires, now)
    identity, secret = secret_for(route.query["AWSAccessKeyId"])
    digest = hmac.digest(secret.encode(), _signed_text(environ, route).encode("latin-1"), "sha1")
    if not hmac.compare_digest(b64encode(digest), route.query["Signature"].encode()):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, UNSIGNED_PAYLOAD, scope=None)


def _check_time(expires: int, now: datetime) -> None:
    left = expires - now.astimezone(UTC).timestamp()
    if left < 0:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the presigned URL has expired; make a new one")
    if left > EXPIRES_SECONDS_MAX:
        days = timedelta(seconds=EXPIRES_SECONDS_MAX).days
        raise S3Error(ErrorCode.ACCESS_DENIED, f"a presigned URL must expire within {days} days")


def _signed_text(environ: Environ, route: Route) -> str:
    """Return the text that is signed."""
    headers = sorted(
        (key.removeprefix("HTTP_").replace("_", "-").lower(), folded_header(environ, key))
        for key in environ
        if key.startswith("HTTP_X_AMZ_")
    )
    lines = [
        environ["REQUEST_METHOD"],
        folded_header(environ, "HTTP_CONTENT_MD5"),
        folded_header(environ, "CONTENT_TYPE"),
        route.query["Expires"],
        *(f"{name}:{value}" for name, value in headers),
        _resource(environ, route),
    ]
    return "\n".join(lines)


def _resource(environ: Environ, route: Route) -> str:
    """Return the path and the signed parameters; refuse parameters that mean something unsigned."""
    path = environ["PATH_INFO"].encode("latin-1")
    if not route.is_path_style:
        path = f"/{route.bucket}".encode() + path
    parameters = []
    for name in sorted(route.query.keys() - _SIGNATURE_PARAMETERS):
        value = route.query[name].encode().decode("latin-1")
        if name in _SIGNED_PARAMETERS or name.startswith(_SIGNED_PREFIX):
            signed = name.encode().decode("latin-1")
            parameters.append(f"{signed}={value}" if value else signed)
        elif name != "x-id" and value != _signed_header(environ, name):
            raise S3Error(ErrorCode.ACCESS_DENIED, f'the parameter "{name[:50]}" must be signed')
    resource = quote_from_bytes(path, safe="/-_.~")
    return f"{resource}?{'&'.join(parameters)}" if parameters else resource


def _signed_header(environ: Environ, name: str) -> str | None:
    """Return a header, if headers of this name are signed.

    botocore repeats such headers in the query; there they may stand with the same value.
    """
    if name in {"content-md5", "content-type"} or name.startswith("x-amz-"):
        return folded_header(environ, environ_key(name))
    return None
