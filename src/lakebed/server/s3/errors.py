"""Errors of the S3 gateway, with the error codes of S3.

LakebedError └── S3Error     a code of `ErrorCode`, with a message for people
"""

from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus
from typing import ClassVar

from lakebed.base.errors import LakebedError
from lakebed.server.s3.xml_writer import Markup, document, element


class ErrorCode(Enum):
    """An error code of S3 with its HTTP status, S3's message, and a fixed detail, if any.

    S3 has a fixed message for most codes, which tools and tests compare: it is sent as ``Message``,
    and Lakebed's text as ``Detail``. For the other codes the fixed message is empty, and Lakebed's
    text is the ``Message``.
    """

    def __init__(self, code: str, status: int, message: str, detail: str = "") -> None:
        self.code = code
        self.status = HTTPStatus(status)
        self.message = message
        """S3's message; empty if specific to each request."""
        self.detail = detail
        """The text of an error of the protocol without a value; empty if `message` suffices."""

    # Authentication
    ACCESS_DENIED = ("AccessDenied", 403, "Access Denied")
    AUTHORIZATION_HEADER_MALFORMED = ("AuthorizationHeaderMalformed", 400, "")
    AUTHORIZATION_QUERY_PARAMETERS = ("AuthorizationQueryParametersError", 400, "")
    INVALID_ACCESS_KEY_ID = (
        "InvalidAccessKeyId",
        403,
        "The AWS Access Key Id you provided does not exist in our records.",
    )
    INVALID_TOKEN = (
        "InvalidToken",
        400,
        "The provided token is malformed or otherwise invalid.",
        "keys of Lakebed have no session token; configure the client without one",
    )
    REQUEST_TIME_TOO_SKEWED = (
        "RequestTimeTooSkewed",
        403,
        "The difference between the request time and the current time is too large.",
        "the request time differs from the server's by over 15 minutes; set the client's clock",
    )
    SIGNATURE_DOES_NOT_MATCH = (
        "SignatureDoesNotMatch",
        403,
        (
            "The request signature we calculated does not match the signature you provided. "
            "Check your key and signing method."
        ),
        "the signature does not match the request; check the secret access key",
    )

    # Bodies
    BAD_DIGEST = (
        "BadDigest",
        400,
        (
            "The Content-MD5 or checksum value that you specified did not match what the server "
            "received."
        ),
    )
    CONTENT_SHA256_MISMATCH = (
        "XAmzContentSHA256Mismatch",
        400,
        "The provided 'x-amz-content-sha256' header does not match what was computed.",
        "the body does not match the x-amz-content-sha256 of the request",
    )
    ENTITY_TOO_LARGE = (
        "EntityTooLarge",
        400,
        "Your proposed upload exceeds the maximum allowed size",
    )
    ENTITY_TOO_SMALL = (
        "EntityTooSmall",
        400,
        "Your proposed upload is smaller than the minimum allowed size",
    )
    INCOMPLETE_BODY = (
        "IncompleteBody",
        400,
        "You did not provide the number of bytes specified by the Content-Length HTTP header.",
    )
    INVALID_DIGEST = ("InvalidDigest", 400, "The Content-MD5 you specified was invalid.")
    MALFORMED_TRAILER = (
        "MalformedTrailerError",
        400,
        (
            "The request contained trailing data that was not well-formed or did not conform "
            "to our published schema."
        ),
    )
    MALFORMED_XML = (
        "MalformedXML",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )
    MISSING_CONTENT_LENGTH = (
        "MissingContentLength",
        411,
        "You must provide the Content-Length HTTP header.",
    )
    REQUEST_TIMEOUT = (
        "RequestTimeout",
        400,
        (
            "Your socket connection to the server was not read from or written to within the "
            "timeout period."
        ),
    )

    # Requests
    INVALID_ARGUMENT = ("InvalidArgument", 400, "")
    INVALID_BUCKET_NAME = ("InvalidBucketName", 400, "The specified bucket is not valid.")
    INVALID_PART = (
        "InvalidPart",
        400,
        (
            "One or more of the specified parts could not be found. The part may not have "
            "been uploaded, or the specified entity tag may not match the part's entity tag."
        ),
    )
    INVALID_PART_NUMBER = ("InvalidPartNumber", 416, "The requested partnumber is not satisfiable")
    INVALID_PART_ORDER = (
        "InvalidPartOrder",
        400,
        "The list of parts was not in ascending order. Parts must be ordered by part number.",
    )
    INVALID_RANGE = ("InvalidRange", 416, "The requested range is not satisfiable")
    INVALID_REQUEST = ("InvalidRequest", 400, "")
    INVALID_POLICY_DOCUMENT = ("InvalidPolicyDocument", 400, "")
    INVALID_TAG = ("InvalidTag", 400, "")
    INVALID_URI = ("InvalidURI", 400, "Couldn't parse the specified URI.")
    KEY_TOO_LONG = ("KeyTooLongError", 400, "Your key is too long")
    MALFORMED_POST_REQUEST = (
        "MalformedPOSTRequest",
        400,
        "The body of your POST request is not well-formed multipart/form-data.",
    )
    METADATA_TOO_LARGE = (
        "MetadataTooLarge",
        400,
        "Your metadata headers exceed the maximum allowed metadata size",
    )
    METHOD_NOT_ALLOWED = (
        "MethodNotAllowed",
        405,
        "The specified method is not allowed against this resource.",
    )
    NO_VERSION_DELETES = (
        "MethodNotAllowed",
        405,
        (
            "Versions are commits and cannot be deleted; delete the object without a version id,"
            " or expire commits by retention rules."
        ),
    )
    NOT_IMPLEMENTED = (
        "NotImplemented",
        501,
        "A header you provided implies functionality that is not implemented",
    )
    NOT_SUPPORTED = ("ERRLakeFSNotSupported", 405, "This operation is not supported in LakeFS")
    TOO_MANY_TAGS = ("BadRequest", 400, "Object tags cannot be greater than 10")
    PRECONDITION_FAILED = (
        "PreconditionFailed",
        412,
        "At least one of the pre-conditions you specified did not hold",
    )

    # Existence
    BUCKET_ALREADY_EXISTS = (
        "BucketAlreadyExists",
        409,
        (
            "The requested bucket name is not available. The bucket namespace is shared by "
            "all users of the system. Please select a different name and try again."
        ),
    )
    NO_SUCH_BUCKET = ("NoSuchBucket", 404, "The specified bucket does not exist")
    NO_SUCH_BUCKET_BUT_API = (
        "ErrNoSuchBucketPossibleAPIEndpoint",
        404,
        (
            'Repository "api" not found; this can happen if your endpoint URL mistakenly '
            'ends in "/api/v1".'
        ),
        "the endpoint of S3 clients is the address of the server alone, without /api/v1",
    )
    NO_SUCH_KEY = ("NoSuchKey", 404, "The specified key does not exist.")
    NO_SUCH_UPLOAD = (
        "NoSuchUpload",
        404,
        (
            "The specified upload does not exist. The upload ID may be invalid, or the "
            "upload may have been aborted or completed."
        ),
    )
    INVALID_OBJECT_STATE = (
        "InvalidObjectState",
        403,
        "The operation is not valid for the object's storage class",
    )
    OBJECT_CHANGED = ("ObjectChanged", 410, "")
    NO_SUCH_VERSION = ("NoSuchVersion", 404, "The specified version does not exist.")
    READ_ONLY_REPOSITORY = (
        "ErrReadOnlyRepository",
        403,
        "Attempted to write to a read-only repository",
    )
    WRITE_TO_PROTECTED_BRANCH = (
        "ErrWriteToProtectedBranch",
        403,
        "Attempted to write to a protected branch",
    )

    # Bucket settings that repositories do not have: clients query these and continue
    NO_SUCH_BUCKET_POLICY = ("NoSuchBucketPolicy", 404, "The bucket policy does not exist")
    NO_SUCH_CORS = ("NoSuchCORSConfiguration", 404, "The CORS configuration does not exist")
    NO_SUCH_ENCRYPTION = (
        "ServerSideEncryptionConfigurationNotFoundError",
        404,
        "The server side encryption configuration was not found",
    )
    NO_SUCH_LIFECYCLE = (
        "NoSuchLifecycleConfiguration",
        404,
        "The lifecycle configuration does not exist",
    )
    NO_SUCH_OBJECT_LOCK = (
        "ObjectLockConfigurationNotFoundError",
        404,
        "Object Lock configuration does not exist for this bucket",
    )
    NO_SUCH_OWNERSHIP_CONTROLS = (
        "OwnershipControlsNotFoundError",
        404,
        "The bucket ownership controls were not found",
    )
    NO_SUCH_PUBLIC_ACCESS_BLOCK = (
        "NoSuchPublicAccessBlockConfiguration",
        404,
        "The public access block configuration was not found",
    )
    NO_SUCH_REPLICATION = (
        "ReplicationConfigurationNotFoundError",
        404,
        "The replication configuration was not found",
    )
    NO_SUCH_TAG_SET = ("NoSuchTagSet", 404, "The TagSet does not exist")
    NO_SUCH_WEBSITE = (
        "NoSuchWebsiteConfiguration",
        404,
        "The specified bucket does not have a website configuration",
    )

    # The server
    INTERNAL_ERROR = ("InternalError", 500, "We encountered an internal error. Please try again.")
    SLOW_DOWN = ("SlowDown", 503, "Please reduce your request rate.")
    SERVICE_UNAVAILABLE = ("ServiceUnavailable", 503, "Service is unable to handle request.")


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
