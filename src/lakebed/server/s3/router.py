"""Routing of S3 requests: operation, bucket and key.

S3 selects the operation by the method, the presence of a bucket and a key, a parameter without a
value (a *subresource*, like ``?uploads``), and sometimes a header. Operations of S3 that Lakebed
does not have are in `lakebed.server.s3.unsupported`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, unique
from types import MappingProxyType
from typing import Final

from lakebed.server.s3 import unsupported
from lakebed.server.s3.environ import Environ, query_parameters
from lakebed.server.s3.errors import ErrorCode, S3Error

_PARAMETERS_MAX: Final = 100


@unique
class S3Operation(Enum):
    """Operations by their names in S3."""

    LIST_BUCKETS = "ListBuckets"

    HEAD_BUCKET = "HeadBucket"
    CREATE_BUCKET = "CreateBucket"
    GET_BUCKET_LOCATION = "GetBucketLocation"
    GET_BUCKET_VERSIONING = "GetBucketVersioning"
    GET_BUCKET_ACL = "GetBucketAcl"
    PUT_BUCKET_ACL = "PutBucketAcl"
    GET_BUCKET_ACCELERATE = "GetBucketAccelerateConfiguration"
    GET_BUCKET_ENCRYPTION = "GetBucketEncryption"
    GET_BUCKET_LOGGING = "GetBucketLogging"
    GET_BUCKET_NOTIFICATION = "GetBucketNotificationConfiguration"
    GET_BUCKET_REQUEST_PAYMENT = "GetBucketRequestPayment"
    LIST_OBJECTS = "ListObjects"
    LIST_OBJECTS_V2 = "ListObjectsV2"
    LIST_OBJECT_VERSIONS = "ListObjectVersions"
    LIST_MULTIPART_UPLOADS = "ListMultipartUploads"
    DELETE_OBJECTS = "DeleteObjects"

    GET_OBJECT = "GetObject"
    HEAD_OBJECT = "HeadObject"
    PUT_OBJECT = "PutObject"
    POST_OBJECT = "PostObject"
    COPY_OBJECT = "CopyObject"
    DELETE_OBJECT = "DeleteObject"
    GET_OBJECT_ATTRIBUTES = "GetObjectAttributes"
    GET_OBJECT_TAGGING = "GetObjectTagging"
    PUT_OBJECT_TAGGING = "PutObjectTagging"
    DELETE_OBJECT_TAGGING = "DeleteObjectTagging"
    GET_OBJECT_ACL = "GetObjectAcl"
    PUT_OBJECT_ACL = "PutObjectAcl"

    CREATE_MULTIPART_UPLOAD = "CreateMultipartUpload"
    UPLOAD_PART = "UploadPart"
    UPLOAD_PART_COPY = "UploadPartCopy"
    COMPLETE_MULTIPART_UPLOAD = "CompleteMultipartUpload"
    ABORT_MULTIPART_UPLOAD = "AbortMultipartUpload"
    LIST_PARTS = "ListParts"


@dataclass(frozen=True, slots=True)
class S3Route:
    """An operation with its bucket, key and parameters."""

    operation: S3Operation
    bucket: str
    """Empty: the request names no bucket."""
    key: str
    """Empty: the request concerns the bucket itself."""
    query: Mapping[str, str]
    is_path_style: bool
    """Whether the bucket is in the path, not in the host."""


_ON_BUCKET: Final[Mapping[tuple[str, str], S3Operation]] = {
    ("GET", ""): S3Operation.LIST_OBJECTS,
    ("GET", "accelerate"): S3Operation.GET_BUCKET_ACCELERATE,
    ("GET", "acl"): S3Operation.GET_BUCKET_ACL,
    ("GET", "encryption"): S3Operation.GET_BUCKET_ENCRYPTION,
    ("GET", "location"): S3Operation.GET_BUCKET_LOCATION,
    ("GET", "logging"): S3Operation.GET_BUCKET_LOGGING,
    ("GET", "notification"): S3Operation.GET_BUCKET_NOTIFICATION,
    ("GET", "requestPayment"): S3Operation.GET_BUCKET_REQUEST_PAYMENT,
    ("GET", "uploads"): S3Operation.LIST_MULTIPART_UPLOADS,
    ("GET", "versioning"): S3Operation.GET_BUCKET_VERSIONING,
    ("GET", "versions"): S3Operation.LIST_OBJECT_VERSIONS,
    ("HEAD", ""): S3Operation.HEAD_BUCKET,
    ("POST", ""): S3Operation.POST_OBJECT,
    ("POST", "delete"): S3Operation.DELETE_OBJECTS,
    ("PUT", ""): S3Operation.CREATE_BUCKET,
    ("PUT", "acl"): S3Operation.PUT_BUCKET_ACL,
}

_ON_OBJECT: Final[Mapping[tuple[str, str], S3Operation]] = {
    ("DELETE", ""): S3Operation.DELETE_OBJECT,
    ("DELETE", "tagging"): S3Operation.DELETE_OBJECT_TAGGING,
    ("DELETE", "uploadId"): S3Operation.ABORT_MULTIPART_UPLOAD,
    ("GET", ""): S3Operation.GET_OBJECT,
    ("GET", "acl"): S3Operation.GET_OBJECT_ACL,
    ("GET", "attributes"): S3Operation.GET_OBJECT_ATTRIBUTES,
    ("GET", "tagging"): S3Operation.GET_OBJECT_TAGGING,
    ("GET", "uploadId"): S3Operation.LIST_PARTS,
    ("HEAD", ""): S3Operation.HEAD_OBJECT,
    ("POST", "uploadId"): S3Operation.COMPLETE_MULTIPART_UPLOAD,
    ("POST", "uploads"): S3Operation.CREATE_MULTIPART_UPLOAD,
    ("PUT", ""): S3Operation.PUT_OBJECT,
    ("PUT", "acl"): S3Operation.PUT_OBJECT_ACL,
    ("PUT", "tagging"): S3Operation.PUT_OBJECT_TAGGING,
    ("PUT", "uploadId"): S3Operation.UPLOAD_PART,
}

_ON_VERSIONS: Final = frozenset(
    {
        S3Operation.DELETE_OBJECT,
        S3Operation.GET_OBJECT,
        S3Operation.GET_OBJECT_ACL,
        S3Operation.GET_OBJECT_ATTRIBUTES,
        S3Operation.GET_OBJECT_TAGGING,
        S3Operation.HEAD_OBJECT,
    }
)
"""Operations with an optional ``versionId``."""

_WITH_COPY_SOURCE: Final[Mapping[S3Operation, S3Operation]] = {
    S3Operation.PUT_OBJECT: S3Operation.COPY_OBJECT,
    S3Operation.UPLOAD_PART: S3Operation.UPLOAD_PART_COPY,
}
"""Operations replaced if the request has a copy source."""

_SUBRESOURCES: Final = unsupported.SUBRESOURCES | {
    name for _, name in [*_ON_BUCKET, *_ON_OBJECT] if name
}


def is_s3_request(environ: Environ, *, domain: str) -> bool:
    """Whether a request is for S3: by an AWS signature, a form for a bucket, or the domain.

    An unsupported signature counts too, so that the refusal is S3's.
    """
    if environ.get("HTTP_AUTHORIZATION", "").startswith("AWS"):
        return True
    query = environ.get("QUERY_STRING", "")
    if "X-Amz-" in query or "AWSAccessKeyId" in query:
        names = {item.partition("=")[0] for item in query.split("&")}
        if names & {"X-Amz-Algorithm", "X-Amz-Signature", "AWSAccessKeyId"}:
            return True
    is_form = environ.get("CONTENT_TYPE", "").startswith("multipart/form-data")
    if is_form and environ["REQUEST_METHOD"] == "POST":
        path = environ["PATH_INFO"].strip("/")
        if path and "/" not in path:  # a bucket
            return True
    # The gateway's domain, or a bucket in it.
    host: str = environ.get("HTTP_HOST", "").partition(":")[0].lower()
    return host == domain or host.endswith(f".{domain}")


def route(
    environ: Environ, *, domain: str, satisfied: Mapping[str, str] = MappingProxyType({})
) -> S3Route:
    """Return the route of a request.

    `satisfied` are values of headers that ask for what the storage does anyway.

    Raises:
        S3Error: Lakebed does not have the operation, or the path or query is invalid.
    """
    path = _text(environ.get("PATH_INFO", "").encode("latin-1")).removeprefix("/")
    host: str = environ.get("HTTP_HOST", "").partition(":")[0].lower()
    is_path_style = not host.endswith(f".{domain}")
    if is_path_style:
        bucket, _, key = path.partition("/")
    else:
        bucket, key = host.removesuffix(f".{domain}"), path
    query = _query(environ.get("QUERY_STRING", ""))
    unsupported.check_headers(environ, query, satisfied)
    return S3Route(_operation(environ, bucket, key, query), bucket, key, query, is_path_style)


def _operation(environ: Environ, bucket: str, key: str, query: Mapping[str, str]) -> S3Operation:
    method = environ["REQUEST_METHOD"]
    if not bucket:
        if method in {"GET", "HEAD"}:
            return S3Operation.LIST_BUCKETS
        raise S3Error(ErrorCode.METHOD_NOT_ALLOWED)
    subresource = _subresource(query)
    operation = (_ON_OBJECT if key else _ON_BUCKET).get((method, subresource))
    if operation is None:
        raise unsupported.unknown_operation(method, subresource)
    if "versionId" in query and operation not in _ON_VERSIONS:
        raise unsupported.unknown_operation(method, "versionId")
    if operation is S3Operation.LIST_OBJECTS and query.get("list-type") == "2":
        return S3Operation.LIST_OBJECTS_V2
    if "HTTP_X_AMZ_COPY_SOURCE" in environ:
        return _WITH_COPY_SOURCE.get(operation, operation)
    return operation


def _subresource(query: Mapping[str, str]) -> str:
    found = query.keys() & _SUBRESOURCES
    if len(found) > 1:
        names = ", ".join(sorted(found))
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT, f"the query must have only one of the parameters {names}"
        )
    return found.pop() if found else ""


def _query(query: str) -> dict[str, str]:
    """Return the parameters of a query; duplicates are refused as ambiguous."""
    items = query_parameters(query)
    if len(items) > _PARAMETERS_MAX:
        raise S3Error(
            ErrorCode.INVALID_URI,
            f"the query has {len(items)} parameters; at most {_PARAMETERS_MAX} are allowed",
        )
    parameters: dict[str, str] = {}
    for encoded, value in items:
        name = _text(encoded)
        if name in parameters:
            raise S3Error(
                ErrorCode.INVALID_ARGUMENT, f'the parameter "{name[:50]}" is in the query twice'
            )
        parameters[name] = _text(value)
    return parameters


def _text(data: bytes) -> str:
    if b"\0" in data:
        raise S3Error(ErrorCode.INVALID_URI, "the path or the query contains a NUL character")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise S3Error(ErrorCode.INVALID_URI, "the path and the query must be UTF-8") from None
