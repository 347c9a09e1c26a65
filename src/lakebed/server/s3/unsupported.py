"""What S3 has and Lakebed does not, and how a request for it is refused.

A client that only looks gets the answer that S3 gives where nothing is set, and goes on. A client
that wants to change something gets 405 with the code that lakeFS has for it. An ``x-amz-`` header
that is neither honoured nor harmless gets 501: an object stored without it would not be the object
that the client asked for.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.server.s3.environ import Environ, environ_key
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

_PREFIX: Final = "x-amz-"

_HONOURED: Final = frozenset(
    {
        "copy-source",
        "copy-source-if-match",
        "copy-source-if-modified-since",
        "copy-source-if-none-match",
        "copy-source-if-unmodified-since",
        "copy-source-range",
        "decoded-content-length",
        "metadata-directive",
        "mp-object-size",
        "object-attributes",
        "trailer",
    }
)
"""Headers that operations read."""

_SIGNATURE: Final = frozenset(
    {
        "algorithm",
        "content-sha256",
        "credential",
        "date",
        "expires",
        "security-token",
        "signature",
        "signedheaders",
    }
)
"""Parts of a signature, in headers or in the query; the gateway refuses session tokens itself."""

_HARMLESS: Final = frozenset(
    {
        # Objects are not locked, and have neither tags nor a state of restoration.
        "bypass-governance-retention",
        "optional-object-attributes",
        "tagging-directive",
        # No list of parts is answered, so there is nothing to page through.
        "max-parts",
        "part-number-marker",
        # Remarks of SDKs. A `te` offers to take a checksum behind the body; S3 may send none.
        "sdk-checksum-algorithm",
        "te",
        "user-agent",
    }
)
"""Headers that can be ignored: an answer that knows nothing of them is what they ask for."""

_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "acl": frozenset({"private", "bucket-owner-full-control", "bucket-owner-read"}),
    "api-version": frozenset({"2006-03-01"}),
    "bucket-object-lock-enabled": frozenset({"false"}),
    "object-ownership": frozenset({"BucketOwnerEnforced"}),
    "storage-class": frozenset({"STANDARD"}),
}
"""Headers that can be ignored if they have one of these values: it is the only state there is."""


def check_headers(environ: Environ, query: Mapping[str, str]) -> None:
    """Refuse each ``x-amz-`` header, and parameter of that name, that would be ignored.

    Some SDKs write headers into the query of presigned URLs. That is harmless if the client sends
    the header as well.

    Raises:
        S3Error: `NOT_IMPLEMENTED`: the request asks for something that Lakebed does not do.
    """
    for key, value in environ.items():
        if key.startswith("HTTP_X_AMZ_"):
            name = key.removeprefix("HTTP_").replace("_", "-").lower()
            _check(name, value, in_query=False)
    for parameter, value in query.items():
        name = parameter.lower()
        if name.startswith(_PREFIX) and environ.get(environ_key(name)) != value:
            _check(name, value, in_query=True)


def _check(header: str, value: str, *, in_query: bool) -> None:
    name = header.removeprefix(_PREFIX)
    if name in _SIGNATURE or name in _HARMLESS or name.startswith("checksum-"):
        return
    if not in_query and (name in _HONOURED or name.startswith("meta-")):
        return
    # SDKs and proxies send some headers without a value, which ask for nothing.
    if not value.strip() or value in _VALUES.get(name, ()):
        return
    place = "the parameter" if in_query else "the header"
    message = f"{place} {header[:100]} is not supported; leave it out"
    if name in _VALUES:
        accepted = " or ".join(sorted(_VALUES[name]))
        message = (
            f'{place} {header} must be {accepted}, or left out; "{value[:100]}" is not supported'
        )
    raise S3Error(ErrorCode.NOT_IMPLEMENTED, message)


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
