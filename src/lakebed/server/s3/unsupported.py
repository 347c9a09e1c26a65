"""Requests for features of S3 that Lakebed does not have, and their answers.

Queries of a setting get S3's answer for an unset setting, so that clients continue. Changes get 405
with lakeFS's code. An unknown ``x-amz-`` header gets 501, unless it is harmless: without its
effect, the stored object would differ from the requested one.
"""

from collections.abc import Mapping
from typing import Final

from lakebed.server.s3.encryption import ENCRYPTION_HEADER
from lakebed.server.s3.environ import Environ, environ_key
from lakebed.server.s3.errors import ErrorCode, S3Error

_NOT_SET: Final[Mapping[str, ErrorCode]] = {
    "cors": ErrorCode.NO_SUCH_CORS,
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
"""Bucket settings that clients query, and S3's answers if they are unset."""

_OTHERS: Final = frozenset(
    {
        "analytics",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "metadataConfiguration",
        "metadataTable",
        "metrics",
        "renameObject",
        "restore",
        "retention",
        "select",
        "session",
        "torrent",
    }
)

SUBRESOURCES: Final = _NOT_SET.keys() | _OTHERS
"""Parameters of S3's operations missing in Lakebed."""

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
        "tagging",
        "tagging-directive",
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
        # Objects are not locked, and have no state of restoration.
        "bypass-governance-retention",
        "optional-object-attributes",
        # Answers contain no list of parts to page through.
        "max-parts",
        "part-number-marker",
        # Hints of SDKs. A `te` accepts a checksum behind the body, which S3 need not send.
        "sdk-checksum-algorithm",
        "te",
        "user-agent",
    }
)
"""Ignored headers: the answer satisfies them anyway."""

_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "acl": frozenset({"private", "bucket-owner-full-control", "bucket-owner-read"}),
    "api-version": frozenset({"2006-03-01"}),
    "bucket-object-lock-enabled": frozenset({"false"}),
    "object-ownership": frozenset({"BucketOwnerEnforced"}),
    "storage-class": frozenset({"STANDARD"}),
}
"""Ignored values of headers: the only state of Lakebed's objects."""


def check_headers(environ: Environ, query: Mapping[str, str], satisfied: Mapping[str, str]) -> None:
    """Refuse each unsupported ``x-amz-`` header, and parameter of the same name.

    `satisfied` are values of further headers whose effect every object has.

    Some SDKs write headers into the query of presigned URLs, which is harmless if the client sends
    the header as well.

    Raises:
        S3Error: `NOT_IMPLEMENTED`: the request needs a missing feature.
    """
    for key, value in environ.items():
        if key.startswith("HTTP_X_AMZ_"):
            name = key.removeprefix("HTTP_").replace("_", "-").lower()
            if satisfied.get(name) != value:
                _check(name, value, satisfied, in_query=False)
    for parameter, value in query.items():
        name = parameter.lower()
        if not name.startswith(_PREFIX) or satisfied.get(name) == value:
            continue
        if environ.get(environ_key(name)) != value:
            _check(name, value, satisfied, in_query=True)


def _check(header: str, value: str, satisfied: Mapping[str, str], *, in_query: bool) -> None:
    name = header.removeprefix(_PREFIX)
    if name in _SIGNATURE or name in _HARMLESS or name.startswith("checksum-"):
        return
    if not in_query and (name in _HONOURED or name.startswith("meta-")):
        return
    # SDKs and proxies send some headers without a value, to no effect.
    if not value.strip() or value in _VALUES.get(name, ()):
        return
    place = "the parameter" if in_query else "the header"
    message = f"{place} {header[:100]} is not supported; leave it out"
    accepted = " or ".join(sorted(_VALUES.get(name, ())))
    if header in satisfied:
        # The id of the configured key is not shown: the client is not authenticated yet.
        accepted = satisfied[header] if header == ENCRYPTION_HEADER else "the configured one"
    if accepted:
        message = (
            f'{place} {header} must be {accepted}, or left out; "{value[:100]}" is not supported'
        )
    raise S3Error(ErrorCode.NOT_IMPLEMENTED, message)


def unknown_operation(method: str, subresource: str) -> S3Error:
    """Return the error for a request without a matching operation."""
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
