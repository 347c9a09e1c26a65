"""Which operation a request is, on which bucket and key; and whether it is for the gateway at all.

S3 tells operations apart by method, by whether there is a bucket and a key, by the name of a
parameter without meaning otherwise (a *subresource*, like ``?uploads``), and now and then by a
header. What S3 has and Lakebed has not is refused by name: 501 where a client asks to change it,
the "there is none" that clients expect where they only look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.sigv4 import Environ, query_parameters

_PARAMETERS_MAX: Final = 100


class Operation(Enum):
    """What a request asks for."""

    LIST_BUCKETS = auto()

    HEAD_BUCKET = auto()
    CREATE_BUCKET = auto()
    GET_BUCKET_LOCATION = auto()
    GET_BUCKET_VERSIONING = auto()
    GET_BUCKET_ACL = auto()
    LIST_OBJECTS = auto()
    LIST_OBJECTS_V2 = auto()
    LIST_MULTIPART_UPLOADS = auto()
    DELETE_OBJECTS = auto()

    GET_OBJECT = auto()
    HEAD_OBJECT = auto()
    PUT_OBJECT = auto()
    COPY_OBJECT = auto()
    DELETE_OBJECT = auto()
    GET_OBJECT_ATTRIBUTES = auto()
    GET_OBJECT_TAGGING = auto()
    GET_OBJECT_ACL = auto()

    CREATE_MULTIPART_UPLOAD = auto()
    UPLOAD_PART = auto()
    UPLOAD_PART_COPY = auto()
    COMPLETE_MULTIPART_UPLOAD = auto()
    ABORT_MULTIPART_UPLOAD = auto()
    LIST_PARTS = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """An operation and what it is about."""

    operation: Operation
    bucket: str
    """Empty: about no bucket."""
    key: str
    """Empty: about the bucket itself."""
    query: Mapping[str, str]
    """The parameters, decoded."""
    is_path_style: bool
    """Whether the bucket stands in the path; else it stands in the host."""


_BUCKET: Final[Mapping[tuple[str, str], Operation]] = {
    ("GET", ""): Operation.LIST_OBJECTS,
    ("GET", "acl"): Operation.GET_BUCKET_ACL,
    ("GET", "location"): Operation.GET_BUCKET_LOCATION,
    ("GET", "uploads"): Operation.LIST_MULTIPART_UPLOADS,
    ("GET", "versioning"): Operation.GET_BUCKET_VERSIONING,
    ("HEAD", ""): Operation.HEAD_BUCKET,
    ("POST", "delete"): Operation.DELETE_OBJECTS,
    ("PUT", ""): Operation.CREATE_BUCKET,
}
"""Operations on a bucket by method and subresource."""

_OBJECT: Final[Mapping[tuple[str, str], Operation]] = {
    ("DELETE", ""): Operation.DELETE_OBJECT,
    ("DELETE", "uploadId"): Operation.ABORT_MULTIPART_UPLOAD,
    ("GET", ""): Operation.GET_OBJECT,
    ("GET", "acl"): Operation.GET_OBJECT_ACL,
    ("GET", "attributes"): Operation.GET_OBJECT_ATTRIBUTES,
    ("GET", "tagging"): Operation.GET_OBJECT_TAGGING,
    ("GET", "uploadId"): Operation.LIST_PARTS,
    ("HEAD", ""): Operation.HEAD_OBJECT,
    ("POST", "uploadId"): Operation.COMPLETE_MULTIPART_UPLOAD,
    ("POST", "uploads"): Operation.CREATE_MULTIPART_UPLOAD,
    ("PUT", ""): Operation.PUT_OBJECT,
    ("PUT", "uploadId"): Operation.UPLOAD_PART,
}
"""Operations on an object by method and subresource."""

_WITH_COPY_SOURCE: Final[Mapping[Operation, Operation]] = {
    Operation.PUT_OBJECT: Operation.COPY_OBJECT,
    Operation.UPLOAD_PART: Operation.UPLOAD_PART_COPY,
}
"""What an operation is if it names an object to copy from."""

_ABSENT: Final[Mapping[str, ErrorCode]] = {
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
"""Settings of buckets that a client may look for, and what S3 says where there are none."""

_UNKNOWN: Final = frozenset(
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
"""The other subresources of S3."""

_SUBRESOURCES: Final = (
    frozenset(name for _, name in [*_BUCKET, *_OBJECT] if name) | _ABSENT.keys() | _UNKNOWN
)


def is_s3_request(environ: Environ, *, domain: str) -> bool:
    """Whether a request is for the gateway: it carries an AWS signature, or asks for its domain.

    The signature may be of a kind that is refused later; it is refused in the way of S3.
    """
    if environ.get("HTTP_AUTHORIZATION", "").startswith("AWS"):
        return True
    query = environ.get("QUERY_STRING", "")
    if "X-Amz-" in query or "AWSAccessKeyId" in query:
        names = {item.partition("=")[0] for item in query.split("&")}
        if names & {"X-Amz-Algorithm", "X-Amz-Signature", "AWSAccessKeyId"}:
            return True
    host = _host(environ)
    return host == domain or host.endswith(f".{domain}")


def route(environ: Environ, *, domain: str) -> Route:
    """Return what a request asks for.

    Raises:
        S3Error: It is no operation that Lakebed has, or its path or query cannot be read.
    """
    is_path_style = not _host(environ).endswith(f".{domain}")
    bucket, key = _place(environ, domain)
    query = _query(environ.get("QUERY_STRING", ""))
    operation = _operation(environ, bucket, key, query)
    return Route(operation, bucket, key, query, is_path_style)


def _operation(environ: Environ, bucket: str, key: str, query: Mapping[str, str]) -> Operation:
    method = environ["REQUEST_METHOD"]
    if not bucket:
        if method in {"GET", "HEAD"}:
            return Operation.LIST_BUCKETS
        raise S3Error(ErrorCode.METHOD_NOT_ALLOWED)
    subresource = _subresource(query)
    operation = (_OBJECT if key else _BUCKET).get((method, subresource))
    if operation is None:
        raise _refusal(method, subresource)
    if operation is Operation.LIST_OBJECTS and query.get("list-type") == "2":
        return Operation.LIST_OBJECTS_V2
    if "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return _WITH_COPY_SOURCE.get(operation, operation)
    return operation


def _subresource(query: Mapping[str, str]) -> str:
    found = query.keys() & _SUBRESOURCES
    if not found:
        return ""
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f"a request asks for one of: {names}")
    return found.pop()


def _refusal(method: str, subresource: str) -> S3Error:
    if method in {"GET", "HEAD"} and subresource in _ABSENT:
        return S3Error(_ABSENT[subresource])
    if subresource:
        return S3Error(ErrorCode.NOT_IMPLEMENTED, f"repositories have no {subresource} to {method}")
    return S3Error(ErrorCode.METHOD_NOT_ALLOWED)


def _place(environ: Environ, domain: str) -> tuple[str, str]:
    """Return bucket and key; a bucket stands in the host or at the start of the path."""
    path = _text(environ.get("PATH_INFO", "").encode("latin-1")).removeprefix("/")
    host = _host(environ)
    if host.endswith(f".{domain}"):
        return host.removesuffix(f".{domain}"), path
    bucket, _, key = path.partition("/")
    return bucket, key


def _host(environ: Environ) -> str:
    host: str = environ.get("HTTP_HOST", "")
    return host.partition(":")[0].lower()


def _query(query: str) -> dict[str, str]:
    """The parameters; one that is there twice could be read in two ways, and is refused."""
    items = query_parameters(query)
    if len(items) > _PARAMETERS_MAX:
        raise S3Error(ErrorCode.INVALID_URI, f"there are more than {_PARAMETERS_MAX} parameters")
    parameters = {_text(name): _text(value) for name, value in items}
    if len(parameters) < len(items):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "a parameter is in the query twice")
    return parameters


def _text(data: bytes) -> str:
    if b"\0" in data:
        raise S3Error(ErrorCode.INVALID_URI, "paths and parameters have no NUL")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise S3Error(ErrorCode.INVALID_URI, "the path or the query is not UTF-8") from None
