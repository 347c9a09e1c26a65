"""Queries of settings by which clients inspect a bucket before use.

Repositories have few of these settings; the answers let clients continue.
"""

from collections.abc import Callable

from lakebed.auth import Action
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, document, element

_CLASSIC_REGION = "us-east-1"


def get_bucket_location(request: S3Request) -> S3Reply:
    """GetBucketLocation: the region of the gateway; S3 sends us-east-1 as an empty text."""
    check_repository(request, Action.READ_REPOSITORY)
    region = request.services.settings.gateways.s3.region
    return xml(document("LocationConstraint", "" if region == _CLASSIC_REGION else region))


def get_bucket_encryption(request: S3Request) -> S3Reply:
    """GetBucketEncryption: the encryption configured for the storage."""
    check_repository(request, Action.READ_REPOSITORY)
    encryption = request.services.catalog.encryption
    if encryption is None:
        raise S3Error(ErrorCode.NO_SUCH_ENCRYPTION)
    key = encryption.kms_key_id
    default = element(
        "ApplyServerSideEncryptionByDefault",
        element("SSEAlgorithm", encryption.algorithm),
        *([] if key is None else [element("KMSMasterKeyID", key)]),
    )
    return xml(document("ServerSideEncryptionConfiguration", element("Rule", default)))


def not_set(root: str, *content: Markup) -> Callable[[S3Request], S3Reply]:
    """Return a handler that answers S3's document of a setting that is not set."""

    def handle(request: S3Request) -> S3Reply:
        check_repository(request, Action.READ_REPOSITORY)
        return xml(document(root, *content))

    return handle


get_bucket_accelerate = not_set("AccelerateConfiguration")
get_bucket_logging = not_set("BucketLoggingStatus")
get_bucket_notification = not_set("NotificationConfiguration")
get_bucket_request_payment = not_set("RequestPaymentConfiguration", element("Payer", "BucketOwner"))
# Commits version objects, not writes.
get_bucket_versioning = not_set("VersioningConfiguration")


def check_repository(request: S3Request, action: Action) -> None:
    """Check a permission on the repository, and that it exists."""
    request.authorize_repository(action)
    request.services.catalog.repositories.get(request.repository)
