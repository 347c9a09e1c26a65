"""Presigned URLs of signature version 2, which boto3 and aws-cli still make by default.

    ?AWSAccessKeyId=<access key id>&Expires=<seconds since 1970>&Signature=<base64>

The signature covers method, path, expiry, content type and MD5, ``x-amz-`` headers, and those
parameters that tell operations apart or set headers of the answer; neither host nor body. So it is
taken for what such URLs are made for, and for nothing else: reading or writing one object, with a
body that is not in chunks. Everything else is signed by version 4 (`sigv4`).
"""

import hmac
import re
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote_from_bytes

from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.router import Operation, Route
from lakebed.server.s3.sigv4 import (
    EXPIRES_SECONDS_MAX,
    UNSIGNED_PAYLOAD,
    Environ,
    IdentityT,
    SecretFor,
    Verified,
    environ_key,
    folded_header,
)

_OPERATIONS: Final = frozenset(
    {Operation.GET_OBJECT, Operation.HEAD_OBJECT, Operation.PUT_OBJECT, Operation.UPLOAD_PART}
)
_OWN: Final = frozenset({"AWSAccessKeyId", "Expires", "Signature"})
_SIGNED: Final = frozenset({"partNumber", "uploadId"})
_SIGNED_PREFIX: Final = "response-"
_EXPIRES: Final = re.compile(r"[0-9]{1,12}", re.ASCII)


def is_signed_so(route: Route) -> bool:
    """Whether a request carries a signature of version 2 in its query."""
    return "AWSAccessKeyId" in route.query


def verify(
    environ: Environ, route: Route, secret_for: SecretFor[IdentityT], *, now: datetime
) -> Verified[IdentityT]:
    """Prove who presigned a URL, and that nothing of what it means was changed.

    Raises:
        S3Error: It is not well signed, has expired, or is not for reading or writing an object.
        Exception: Whatever `secret_for` raises.
    """
    malformed = S3Error(ErrorCode.AUTHORIZATION_QUERY_PARAMETERS)
    if "HTTP_AUTHORIZATION" in environ or not route.query.keys() >= _OWN:
        raise malformed
    if route.operation not in _OPERATIONS:
        raise S3Error(ErrorCode.INVALID_REQUEST, "sign this request by version 4")
    expires = route.query["Expires"]
    if not _EXPIRES.fullmatch(expires):
        raise malformed
    _check_time(int(expires), now)
    identity, secret = secret_for(route.query["AWSAccessKeyId"])
    digest = hmac.digest(secret.encode(), _text(environ, route).encode("latin-1"), "sha1")
    if not hmac.compare_digest(b64encode(digest), route.query["Signature"].encode()):
        raise S3Error(ErrorCode.SIGNATURE_DOES_NOT_MATCH)
    return Verified(identity, UNSIGNED_PAYLOAD, scope=None)


def _check_time(expires: int, now: datetime) -> None:
    left = expires - now.astimezone(UTC).timestamp()
    if left < 0:
        raise S3Error(ErrorCode.ACCESS_DENIED, "the request has expired")
    if left > EXPIRES_SECONDS_MAX:
        days = timedelta(seconds=EXPIRES_SECONDS_MAX).days
        raise S3Error(ErrorCode.ACCESS_DENIED, f"a URL is good for {days} days at most")


def _text(environ: Environ, route: Route) -> str:
    """What is signed."""
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
    path = environ["PATH_INFO"].encode("latin-1")
    if not route.is_path_style:
        path = f"/{route.bucket}".encode() + path
    parameters = []
    for name in sorted(route.query.keys() - _OWN):
        value = route.query[name].encode().decode("latin-1")
        if name in _SIGNED or name.startswith(_SIGNED_PREFIX):
            parameters.append(f"{name}={value}" if value else name)
        elif name != "x-id" and value != _signed_header(environ, name):
            raise S3Error(ErrorCode.ACCESS_DENIED, f"the parameter {name[:50]!r} is not signed")
    resource = quote_from_bytes(path, safe="/-_.~")
    return f"{resource}?{'&'.join(parameters)}" if parameters else resource


def _signed_header(environ: Environ, name: str) -> str | None:
    """The header of a name, if such are signed: botocore names them in the query once more."""
    if name in {"content-md5", "content-type"} or name.startswith("x-amz-"):
        return folded_header(environ, environ_key(name))
    return None
