"""Errors of the S3 gateway, with the error codes of S3.

LakebedError └── S3Error     a code of `ErrorCode`, with a message for people
"""

from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import ClassVar, Final

from lakebed.base.errors import LakebedError
from lakebed.server.s3.xml_writer import Markup, document, element

NO_VERSION_IDS: Final = "objects have no version ids; name a commit in the key instead"
NO_CONDITIONAL_DELETES: Final = "deletes with conditions are not supported"


class ErrorCode(Enum):
    """An error code of S3 with its HTTP status, S3's message, and Lakebed's detail.

    S3 has a fixed message for most codes, which tools and tests compare. For the other codes S3's
    message describes the request; Lakebed's does too, and the fixed message is empty.
    """

    def __init__(self, code: str, status: HTTPStatus, message: str, detail: str = "") -> None:
        self.code = code
        self.status = status
        self.message = message
        """S3's message; empty if specific to each request."""
        self.detail = detail
        """The default detail; empty if `message` suffices."""

    # Authentication
    ACCESS_DENIED = (
        "AccessDenied",
        HTTPStatus.FORBIDDEN,
        "Access Denied",
    )
    AUTHORIZATION_HEADER_MALFORMED = (
        "AuthorizationHeaderMalformed",
        HTTPStatus.BAD_REQUEST,
        "",
        "the Authorization header is malformed",
    )
    AUTHORIZATION_QUERY_PARAMETERS = (
        "AuthorizationQueryParametersError",
        HTTPStatus.BAD_REQUEST,
        "",
        "the query parameters of the signature are malformed",
    )
    INVALID_ACCESS_KEY_ID = (
        "InvalidAccessKeyId",
        HTTPStatus.FORBIDDEN,
        "The AWS Access Key Id you provided does not exist in our records.",
        "unknown access key id; check the credentials of the client",
    )
    INVALID_TOKEN = (
        "InvalidToken",
        HTTPStatus.BAD_REQUEST,
        "The provided token is malformed or otherwise invalid.",
        "keys of Lakebed have no session token; configure the client without one",
    )
    REQUEST_TIME_TOO_SKEWED = (
        "RequestTimeTooSkewed",
        HTTPStatus.FORBIDDEN,
        "The difference between the request time and the current time is too large.",
        "the request time differs from the server's by over 15 minutes; set the client's clock",
    )
    SIGNATURE_DOES_NOT_MATCH = (
        "SignatureDoesNotMatch",
        HTTPStatus.FORBIDDEN,
        (
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
        "the signature does not match the request; check the secret access key",
    )

    # Bodies
    BAD_DIGEST = (
        "BadDigest",
        HTTPStatus.BAD_REQUEST,
        "The Content-MD5 you specified did not match what we received.",
        "the body does not match the checksum of the request",
    )
    CONTENT_SHA256_MISMATCH = (
        "XAmzContentSHA256Mismatch",
        HTTPStatus.BAD_REQUEST,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
        "the body does not match the x-amz-content-sha256 of the request",
    )
    ENTITY_TOO_LARGE = (
        "EntityTooLarge",
        HTTPStatus.BAD_REQUEST,
        "Your proposed upload exceeds the maximum allowed size",
    )
    ENTITY_TOO_SMALL = (
        "EntityTooSmall",
        HTTPStatus.BAD_REQUEST,
        "Your proposed upload is smaller than the minimum allowed size",
        "a part is too small; only the last one may be smaller than 5 MiB",
    )
    INCOMPLETE_BODY = (
        "IncompleteBody",
        HTTPStatus.BAD_REQUEST,
        "You did not provide the number of bytes specified by the Content-Length HTTP header.",
        "the body does not have the announced length",
    )
    INVALID_DIGEST = (
        "InvalidDigest",
        HTTPStatus.BAD_REQUEST,
        "The Content-MD5 you specified was invalid.",
    )
    MALFORMED_TRAILER = (
        "MalformedTrailerError",
        HTTPStatus.BAD_REQUEST,
        (
            "The request contained trailing data that was not well-formed or did not conform "
            "to our published schema."
        ),
    )
    MALFORMED_XML = (
        "MalformedXML",
        HTTPStatus.BAD_REQUEST,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
    MISSING_CONTENT_LENGTH = (
        "MissingContentLength",
        HTTPStatus.LENGTH_REQUIRED,
        "You must provide the Content-Length HTTP header.",
    )
    REQUEST_TIMEOUT = (
        "RequestTimeout",
        HTTPStatus.BAD_REQUEST,
        (
            "Your socket connection to the server was not read from or written to within the "
            "timeout period."
        ),
        "the body took too long to arrive",
    )

    # Requests
    INVALID_ARGUMENT = (
        "InvalidArgument",
        HTTPStatus.BAD_REQUEST,
        "",
        "an argument is invalid",
    )
    INVALID_BUCKET_NAME = (
        "InvalidBucketName",
        HTTPStatus.BAD_REQUEST,
        "The specified bucket is not valid.",
        "the bucket name is not a valid name of a repository",
    )
    INVALID_PART = (
        "InvalidPart",
        HTTPStatus.BAD_REQUEST,
        (
            "One or more of the specified parts could not be found. The part may not have "
            "been uploaded, or the specified entity tag may not match the part's entity tag."
        ),
        "a part was not uploaded, or has another ETag",
    )
    INVALID_PART_NUMBER = (
        "InvalidPartNumber",
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        "The requested partnumber is not satisfiable",
        "the object has no part of this number",
    )
    INVALID_PART_ORDER = (
        "InvalidPartOrder",
        HTTPStatus.BAD_REQUEST,
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    )
    INVALID_RANGE = (
        "InvalidRange",
        HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
        "The requested range is not satisfiable",
        "the range begins after the end of the object",
    )
    INVALID_REQUEST = (
        "InvalidRequest",
        HTTPStatus.BAD_REQUEST,
        "",
        "the request is invalid",
    )
    INVALID_URI = (
        "InvalidURI",
        HTTPStatus.BAD_REQUEST,
        "Couldn't parse the specified URI.",
        "the path or the query is not valid",
    )
    KEY_TOO_LONG = (
        "KeyTooLongError",
        HTTPStatus.BAD_REQUEST,
        "Your key is too long",
    )
    METADATA_TOO_LARGE = (
        "MetadataTooLarge",
        HTTPStatus.BAD_REQUEST,
        "Your metadata headers exceed the maximum allowed metadata size",
        "the metadata is larger than 2 KiB",
    )
    METHOD_NOT_ALLOWED = (
        "MethodNotAllowed",
        HTTPStatus.METHOD_NOT_ALLOWED,
        "The specified method is not allowed against this resource.",
    )
    NOT_IMPLEMENTED = (
        "NotImplemented",
        HTTPStatus.NOT_IMPLEMENTED,
        "A header you provided implies functionality that is not implemented",
        "Lakebed does not support this part of S3",
    )
    NOT_SUPPORTED = (
        "ERRLakeFSNotSupported",
        HTTPStatus.METHOD_NOT_ALLOWED,
        "This operation is not supported in LakeFS",
    )
    PRECONDITION_FAILED = (
        "PreconditionFailed",
        HTTPStatus.PRECONDITION_FAILED,
        "At least one of the pre-conditions you specified did not hold",
    )

    # Existence
    BUCKET_ALREADY_EXISTS = (
        "BucketAlreadyExists",
        HTTPStatus.CONFLICT,
        (
            "The requested bucket name is not available. The bucket namespace is shared by "
            "all users of the system. Please select a different name and try again."
        ),
        "a repository of this name exists already",
    )
    NO_SUCH_BUCKET = (
        "NoSuchBucket",
        HTTPStatus.NOT_FOUND,
        "The specified bucket does not exist",
        "the repository or ref does not exist",
    )
    NO_SUCH_BUCKET_BUT_API = (
        "ErrNoSuchBucketPossibleAPIEndpoint",
        HTTPStatus.NOT_FOUND,
        (
            'Repository "api" not found; this can happen if your endpoint URL mistakenly '
            'ends in "/api/v1".'
        ),
        "the endpoint of S3 clients is the address of the server alone, without /api/v1",
    )
    NO_SUCH_KEY = (
        "NoSuchKey",
        HTTPStatus.NOT_FOUND,
        "The specified key does not exist.",
    )
    NO_SUCH_UPLOAD = (
        "NoSuchUpload",
        HTTPStatus.NOT_FOUND,
        (
            "The specified upload does not exist. The upload ID may be invalid, or the "
            "upload may have been aborted or completed."
        ),
    )
    OBJECT_CHANGED = (
        "ObjectChanged",
        HTTPStatus.GONE,
        "",
        "the bytes in the storage are not those of the object",
    )
    NO_SUCH_VERSION = (
        "NoSuchVersion",
        HTTPStatus.NOT_FOUND,
        "The specified version does not exist.",
        "the bytes of the object are no longer in the storage",
    )
    READ_ONLY_REPOSITORY = (
        "ErrReadOnlyRepository",
        HTTPStatus.FORBIDDEN,
        "Attempted to write to a read-only repository",
    )
    WRITE_TO_PROTECTED_BRANCH = (
        "ErrWriteToProtectedBranch",
        HTTPStatus.FORBIDDEN,
        "Attempted to write to a protected branch",
    )

    # Bucket settings that repositories do not have: clients query these and continue
    NO_SUCH_BUCKET_POLICY = (
        "NoSuchBucketPolicy",
        HTTPStatus.NOT_FOUND,
        "The bucket policy does not exist",
    )
    NO_SUCH_CORS = (
        "NoSuchCORSConfiguration",
        HTTPStatus.NOT_FOUND,
        "The CORS configuration does not exist",
    )
    NO_SUCH_ENCRYPTION = (
        "ServerSideEncryptionConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "The server side encryption configuration was not found",
    )
    NO_SUCH_LIFECYCLE = (
        "NoSuchLifecycleConfiguration",
        HTTPStatus.NOT_FOUND,
        "The lifecycle configuration does not exist",
    )
    NO_SUCH_OBJECT_LOCK = (
        "ObjectLockConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "Object Lock configuration does not exist for this bucket",
    )
    NO_SUCH_OWNERSHIP_CONTROLS = (
        "OwnershipControlsNotFoundError",
        HTTPStatus.NOT_FOUND,
        "The bucket ownership controls were not found",
    )
    NO_SUCH_PUBLIC_ACCESS_BLOCK = (
        "NoSuchPublicAccessBlockConfiguration",
        HTTPStatus.NOT_FOUND,
        "The public access block configuration was not found",
    )
    NO_SUCH_REPLICATION = (
        "ReplicationConfigurationNotFoundError",
        HTTPStatus.NOT_FOUND,
        "The replication configuration was not found",
    )
    NO_SUCH_TAG_SET = (
        "NoSuchTagSet",
        HTTPStatus.NOT_FOUND,
        "The TagSet does not exist",
    )
    NO_SUCH_WEBSITE = (
        "NoSuchWebsiteConfiguration",
        HTTPStatus.NOT_FOUND,
        "The specified bucket does not have a website configuration",
    )

    # The server
    INTERNAL_ERROR = (
        "InternalError",
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "We encountered an internal error. Please try again.",
    )
    SLOW_DOWN = (
        "SlowDown",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Please reduce your request rate.",
        "the server is busy; try again later",
    )
    SERVICE_UNAVAILABLE = (
        "ServiceUnavailable",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "Service is unable to handle request.",
        "the storage does not answer; try again later",
    )


class S3Error(LakebedError):
    """A refused or failed request, with an error code of S3."""

    kind: ClassVar[str] = "s3"

    def __init__(
        self,
        code: ErrorCode,
        detail: str | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Create an error; `detail` describes the problem, with the value, and the remedy."""
        super().__init__(detail or code.detail or code.message)
        self.code = code
        self.headers = headers or {}


def error_elements(error: S3Error) -> list[Markup]:
    """Return the elements for an error: S3's code and message, and Lakebed's detail."""
    detail = _printable(str(error))
    message = error.code.message or detail
    elements = [element("Code", error.code.code), element("Message", message)]
    return elements if detail == message else [*elements, element("Detail", detail)]


def error_body(error: S3Error, *, resource: str, request_id: str) -> bytes:
    """Return the XML document of an error; `resource` is the percent-encoded path."""
    return document(
        "Error",
        *error_elements(error),
        element("Resource", resource),
        element("RequestId", request_id),
        namespace=None,
    )


def _printable(text: str) -> str:
    """Replace control characters: a message may quote a client's input."""
    return "".join(character if character.isprintable() else "?" for character in text)
