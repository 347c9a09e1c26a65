"""Queries of settings by which clients inspect a bucket or object before use.

Repositories have none of these settings; the answers let clients continue.
"""

from lakebed.auth import Action
from lakebed.server.s3.operations.get_object import find
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, document, element, owner

_CLASSIC_REGION = "us-east-1"


def get_bucket_location(request: S3Request) -> S3Reply:
    """GetBucketLocation: the region of the gateway; S3 sends us-east-1 as an empty text."""
    _check_repository(request)
    region = request.services.settings.gateways.s3.region
    return xml(document("LocationConstraint", "" if region == _CLASSIC_REGION else region))


def get_bucket_versioning(request: S3Request) -> S3Reply:
    """GetBucketVersioning: not set, as commits version objects, not writes."""
    _check_repository(request)
    return xml(document("VersioningConfiguration"))


def get_bucket_acl(request: S3Request) -> S3Reply:
    """GetBucketAcl: full control for the user, subject to policies."""
    _check_repository(request)
    return _full_control(request)


def get_object_acl(request: S3Request) -> S3Reply:
    """GetObjectAcl: the same as for the bucket."""
    find(request)
    return _full_control(request)


def get_object_tagging(request: S3Request) -> S3Reply:
    """GetObjectTagging: objects have no tags."""
    find(request)
    return xml(document("Tagging", element("TagSet")))


def _check_repository(request: S3Request) -> None:
    request.authorize_repository(Action.READ_REPOSITORY)
    request.services.catalog.repositories.get(request.repository)


def _full_control(request: S3Request) -> S3Reply:
    user = request.identity.user_id
    grantee = Markup(
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:type="CanonicalUser">{element("ID", user)}{element("DisplayName", user)}</Grantee>'
    )
    grant = element("Grant", grantee, element("Permission", "FULL_CONTROL"))
    return xml(document("AccessControlPolicy", owner(user), element("AccessControlList", grant)))
