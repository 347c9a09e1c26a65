"""What clients ask before they work: answers that let them go on."""

from lakebed.auth import Action
from lakebed.server.s3.call import Call, Reply, xml
from lakebed.server.s3.xml_writer import Markup, document, element, owner

_CLASSIC_REGION = "us-east-1"


def bucket_location(call: Call) -> Reply:
    """GetBucketLocation: the region of the gateway; the first one there was has no name here."""
    _check_repository(call)
    region = call.services.settings.gateways.s3.region
    return xml(document("LocationConstraint", "" if region == _CLASSIC_REGION else region))


def bucket_versioning(call: Call) -> Reply:
    """GetBucketVersioning: none in the sense of S3; history is in the commits."""
    _check_repository(call)
    return xml(document("VersioningConfiguration"))


def bucket_acl(call: Call) -> Reply:
    """GetBucketAcl: everything is the asker's, as far as policies allow."""
    _check_repository(call)
    return _full_control(call)


def object_acl(call: Call) -> Reply:
    """GetObjectAcl: as of the bucket."""
    _check_object(call)
    return _full_control(call)


def object_tagging(call: Call) -> Reply:
    """GetObjectTagging: objects have no tags."""
    _check_object(call)
    return xml(document("Tagging", element("TagSet")))


def _check_repository(call: Call) -> None:
    call.authorize_repository(Action.READ_REPOSITORY)
    call.services.catalog.repositories.get(call.repository)


def _check_object(call: Call) -> None:
    ref, path = call.place
    call.authorize_object(Action.READ_OBJECT, path)
    call.services.catalog.objects.stat(call.repository, ref, path)


def _full_control(call: Call) -> Reply:
    user = call.identity.user_id
    grantee = Markup(
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:type="CanonicalUser">{element("ID", user)}{element("DisplayName", user)}</Grantee>'
    )
    grant = element("Grant", grantee, element("Permission", "FULL_CONTROL"))
    return xml(document("AccessControlPolicy", owner(user), element("AccessControlList", grant)))
