"""What S3 has and Lakebed does not, and how a request for it is refused.

A client that only looks gets the answer that S3 gives where nothing is set, and goes on. A client
that wants to change something gets 405 with the code that lakeFS has for it. A header that asks for
what objects do not have gets 501, as S3 answers where it does not know a header's function.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.server.s3.environ import Environ
from lakebed.server.s3.errors import ErrorCode, S3Error

_NOT_SET: Final[Mapping[str, ErrorCode]] = {
    "cors": ErrorCode.NO_SUCH_CORS,
    "encryption": ErrorCode.NO_SUCH_ENCRYPTION,
    "lifecycle": ErrorCode.NO_SUCH_LIFECYCLE,
    "object-lock": ErrorCode.NO_SUCH_OBJECT_LOCK,
    "ownershipControls": ErrorCode.NO_SUCH_OWNERSHIP_CONTROLS,
    "policy": ErrorCode.NO_SUCH_BUCKET_POLICY,
    "policyStatus": ErrorCode.NO_SUCH_BUCKET_POLICY,
    "publicAccessBlock": ErrorCode.NO_SUCH_PUBLIC_ACCESS_BLOCK,
    "replication": ErrorCode.NO_SUCH_REPLICATION,
    "tagging": ErrorCode.NO_SUCH_TAG_SET,
    "website": ErrorCode.NO_SUCH_WEBSITE,
}
"""Settings of buckets that clients look for, and what S3 answers where they are not set."""

_OTHERS: Final = frozenset(
    {
        "accelerate",
        "analytics",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "logging",
        "metadataConfiguration",
        "metadataTable",
        "metrics",
        "notification",
        "renameObject",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "session",
        "torrent",
        "versionId",
        "versions",
    }
)

SUBRESOURCES: Final = _NOT_SET.keys() | _OTHERS
"""Names of parameters by which S3 knows an operation that Lakebed does not have."""

_HEADERS: Final[Mapping[str, str]] = {
    "HTTP_X_AMZ_OBJECT_LOCK_LEGAL_HOLD": "locks",
    "HTTP_X_AMZ_OBJECT_LOCK_MODE": "locks",
    "HTTP_X_AMZ_OBJECT_LOCK_RETAIN_UNTIL_DATE": "locks",
    "HTTP_X_AMZ_SERVER_SIDE_ENCRYPTION_CUSTOMER_ALGORITHM": "encryption by the client's own key",
    "HTTP_X_AMZ_TAGGING": "tags",
    "HTTP_X_AMZ_WEBSITE_REDIRECT_LOCATION": "redirects",
}
"""Headers that ask for something that objects do not have.

They are refused: an object stored without it would not be what the client asked for.
"""


def check_headers(environ: Environ) -> None:
    """Refuse headers that ask for something that objects do not have.

    Raises:
        S3Error: `NOT_IMPLEMENTED`.
    """
    for key in environ.keys() & _HEADERS.keys():
        name = key.removeprefix("HTTP_").replace("_", "-").lower()
        raise S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            f"{_HEADERS[key]} of objects are not supported; send no {name} header",
        )


def unknown_operation(method: str, subresource: str) -> S3Error:
    """Return the refusal of a request that is not an operation of Lakebed."""
    if method in {"GET", "HEAD"} and subresource in _NOT_SET:
        return S3Error(_NOT_SET[subresource])
    if subresource:
        return S3Error(
            ErrorCode.NOT_SUPPORTED, f"{method} with ?{subresource} is not supported here"
        )
    if method == "DELETE":
        return S3Error(
            ErrorCode.NOT_SUPPORTED,
            "S3 clients cannot delete a repository; delete it by the API or the command line",
        )
    return S3Error(ErrorCode.METHOD_NOT_ALLOWED)
