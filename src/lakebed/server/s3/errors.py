"""Errors of the S3 gateway, with the codes that S3 clients know.

LakebedError
└── S3Error     one of the codes of `ErrorCode`, with a message for people
"""

from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import ClassVar, Final

from lakebed.errors import LakebedError
from lakebed.server.s3.xml_writer import document, element

NO_VERSION_IDS: Final = "objects have no version ids; name a commit in the key instead"
NO_CONDITIONAL_DELETES: Final = "deletes with conditions are not supported"


class ErrorCode(Enum):
    """A code of S3, the HTTP status it is sent with, and the message if there is no better one."""

    def __init__(self, code: str, status: HTTPStatus, message: str) -> None:
        self.code = code
        self.status = status
        self.message = message

    # Who sends the request
    ACCESS_DENIED = "AccessDenied", HTTPStatus.FORBIDDEN, "access denied"
    AUTHORIZATION_HEADER_MALFORMED = (
        "AuthorizationHeaderMalformed",
        HTTPStatus.BAD_REQUEST,
        "the Authorization header is malformed",
    )
    AUTHORIZATION_QUERY_PARAMETERS = (
        "AuthorizationQueryParametersError",
        HTTPStatus.BAD_REQUEST,
        "the query parameters of the signature are malformed",
    )
    INVALID_ACCESS_KEY_ID = (
        "InvalidAccessKeyId",
        HTTPStatus.FORBIDDEN,
        "the access key id is not known; check the credentials of the client",
    )
    REQUEST_TIME_TOO_SKEWED = (
        "RequestTimeTooSkewed",
        HTTPStatus.FORBIDDEN,
        "the time of the request is more than 15 minutes off the server's; set the client's clock",
    )
    SIGNATURE_DOES_NOT_MATCH = (
        "SignatureDoesNotMatch",
        HTTPStatus.FORBIDDEN,
        "the signature does not match the request; check the secret access key",
    )

    # Bodies
    BAD_DIGEST = (
        "BadDigest",
        HTTPStatus.BAD_REQUEST,
        "the bytes that arrived do not have the checksum of the request",
    )
    CONTENT_SHA256_MISMATCH = (
        "XAmzContentSHA256Mismatch",
        HTTPStatus.BAD_REQUEST,
        "the bytes that arrived do not have the x-amz-content-sha256 of the request",
    )
    ENTITY_TOO_LARGE = "EntityTooLarge", HTTPStatus.BAD_REQUEST, "the body is too large"
    ENTITY_TOO_SMALL = (
        "EntityTooSmall",
        HTTPStatus.BAD_REQUEST,
        "a part is too small; only the last one may be smaller than 5 MiB",
    )
    INCOMPLETE_BODY = (
        "IncompleteBody",
        HTTPStatus.BAD_REQUEST,
        "the body does not have the length that was announced",
    )
    INVALID_DIGEST = "InvalidDigest", HTTPStatus.BAD_REQUEST, "the Content-MD5 is malformed"
    MALFORMED_TRAILER = "MalformedTrailerError", HTTPStatus.BAD_REQUEST, "the trailer is malformed"
    MALFORMED_XML = "MalformedXML", HTTPStatus.BAD_REQUEST, "the XML of the body is malformed"
    MISSING_CONTENT_LENGTH = (
        "MissingContentLength",
        HTTPStatus.LENGTH_REQUIRED,
        "the request needs a Content-Length header",
    )
    REQUEST_TIMEOUT = (
        "RequestTimeout",
        HTTPStatus.BAD_REQUEST,
        "the body took too long to arrive",
    )

    # Requests
    INVALID_ARGUMENT = "InvalidArgument", HTTPStatus.BAD_REQUEST, "an argument is invalid"
    INVALID_BUCKET_NAME = (
        "InvalidBucketName",
        HTTPStatus.BAD_REQUEST,
        "the bucket name is not a valid name of a repository",
    )
    INVALID_PART = (
        "InvalidPart",
        HTTPStatus.BAD_REQUEST,
        "a part was not uploaded, or has another ETag",
    )
    INVALID_PART_NUMBER = (
        "InvalidPartNumber",
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        "the object does not have a part of this number",
    )
    INVALID_PART_ORDER = (
        "InvalidPartOrder",
        HTTPStatus.BAD_REQUEST,
        "the parts are not in ascending order",
    )
    INVALID_RANGE = (
        "InvalidRange",
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        "the range begins behind the end of the object",
    )
    INVALID_REQUEST = "InvalidRequest", HTTPStatus.BAD_REQUEST, "the request is invalid"
    INVALID_URI = "InvalidURI", HTTPStatus.BAD_REQUEST, "the path or the query is not valid"
    KEY_TOO_LONG = "KeyTooLongError", HTTPStatus.BAD_REQUEST, "the key is too long"
    METADATA_TOO_LARGE = (
        "MetadataTooLarge",
        HTTPStatus.BAD_REQUEST,
        "the metadata is larger than 2 KiB",
    )
    METHOD_NOT_ALLOWED = (
        "MethodNotAllowed",
        HTTPStatus.METHOD_NOT_ALLOWED,
        "the method is not allowed on this resource",
    )
    NOT_IMPLEMENTED = (
        "NotImplemented",
        HTTPStatus.NOT_IMPLEMENTED,
        "Lakebed does not support this part of S3",
    )
    PRECONDITION_FAILED = (
        "PreconditionFailed",
        HTTPStatus.PRECONDITION_FAILED,
        "a condition of the request is not met",
    )

    # What exists and what does not
    BUCKET_ALREADY_EXISTS = (
        "BucketAlreadyExists",
        HTTPStatus.CONFLICT,
        "a repository of this name exists already",
    )
    NO_SUCH_BUCKET = (
        "NoSuchBucket",
        HTTPStatus.NOT_FOUND,
        "the repository or ref does not exist",
    )
    NO_SUCH_KEY = "NoSuchKey", HTTPStatus.NOT_FOUND, "the object does not exist"
    NO_SUCH_UPLOAD = "NoSuchUpload", HTTPStatus.NOT_FOUND, "the multipart upload does not exist"
    OBJECT_CHANGED = (
        "ObjectChanged",
        HTTPStatus.GONE,
        "the bytes in the storage are not those of the object",
    )
    NO_SUCH_VERSION = (
        "NoSuchVersion",
        HTTPStatus.NOT_FOUND,
        "the bytes of the object are no longer in the storage",
    )
    READ_ONLY_REPOSITORY = (
        "ErrReadOnlyRepository",
        HTTPStatus.FORBIDDEN,
        "the repository is read-only",
    )
    WRITE_TO_PROTECTED_BRANCH = (
        "ErrWriteToProtectedBranch",
        HTTPStatus.FORBIDDEN,
        "the branch is protected",
    )

    # Settings of buckets that repositories do not have; clients look for them and go on
    NO_SUCH_BUCKET_POLICY = "NoSuchBucketPolicy", HTTPStatus.NOT_FOUND, "there is no bucket policy"
    NO_SUCH_CORS = "NoSuchCORSConfiguration", HTTPStatus.NOT_FOUND, "there is no CORS configuration"
    NO_SUCH_ENCRYPTION = (
        "ServerSideEncryptionConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "there is no encryption configuration",
    )
    NO_SUCH_LIFECYCLE = (
        "NoSuchLifecycleConfiguration",
        HTTPStatus.NOT_FOUND,
        "there is no lifecycle configuration",
    )
    NO_SUCH_OBJECT_LOCK = (
        "ObjectLockConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "there is no object lock configuration",
    )
    NO_SUCH_OWNERSHIP_CONTROLS = (
        "OwnershipControlsNotFoundError",
        HTTPStatus.NOT_FOUND,
        "there are no ownership controls",
    )
    NO_SUCH_PUBLIC_ACCESS_BLOCK = (
        "NoSuchPublicAccessBlockConfiguration",
        HTTPStatus.NOT_FOUND,
        "there is no public access block",
    )
    NO_SUCH_REPLICATION = (
        "ReplicationConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "there is no replication configuration",
    )
    NO_SUCH_TAG_SET = "NoSuchTagSet", HTTPStatus.NOT_FOUND, "there is no tag set"
    NO_SUCH_WEBSITE = (
        "NoSuchWebsiteConfiguration",
        HTTPStatus.NOT_FOUND,
        "there is no website configuration",
    )

    # The server
    INTERNAL_ERROR = (
        "InternalError",
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "the server failed; try again",
    )
    SLOW_DOWN = "SlowDown", HTTPStatus.SERVICE_UNAVAILABLE, "the server is busy; try again later"
    SERVICE_UNAVAILABLE = (
        "ServiceUnavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "the storage does not answer; try again later",
    )


class S3Error(LakebedError):
    """A request was refused, or failed, with a code of S3."""

    kind: ClassVar[str] = "s3"

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Make the error; `headers` are sent with the answer."""
        super().__init__(message or code.message)
        self.code = code
        self.headers = headers or {}


def error_body(error: S3Error, *, resource: str, request_id: str) -> bytes:
    """Return the XML document of an error.

    Args:
        error: What went wrong.
        resource: The path of the request, percent-encoded.
        request_id: The id of the request in the server's log.
    """
    return document(
        "Error",
        element("Code", error.code.code),
        element("Message", _printable(str(error))),
        element("Resource", resource),
        element("RequestId", request_id),
        namespace=None,
    )


def _printable(text: str) -> str:
    """Replace control characters: a message may quote what a client sent."""
    return "".join(character if character.isprintable() else "?" for character in text)
