"""ACLs of buckets and objects: always full control for one owner; policies decide."""

from lakebed.auth import Action
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.operations.get_object import find, find_for
from lakebed.server.s3.operations.probes import check_repository
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_grantees
from lakebed.server.s3.xml_writer import Markup, document, element, owner


def get_of_bucket(request: S3Request) -> S3Reply:
    """Handle GetBucketAcl: full control for the user."""
    check_repository(request, Action.READ_REPOSITORY)
    return _full_control(request)


def get_of_object(request: S3Request) -> S3Reply:
    """Handle GetObjectAcl: the same as for the bucket."""
    find(request)
    return _full_control(request)


def put_of_bucket(request: S3Request) -> S3Reply:
    """Handle PutBucketAcl: accept the ACL that the bucket has."""
    check_repository(request, Action.UPDATE_REPOSITORY)
    return _accept(request)


def put_of_object(request: S3Request) -> S3Reply:
    """Handle PutObjectAcl: accept the ACL that the object has."""
    find_for(request, Action.WRITE_OBJECT)
    return _accept(request)


def _accept(request: S3Request) -> S3Reply:
    """Accept an ACL without effect, or refuse one that grants access to others.

    The gateway has checked a canned ACL in ``x-amz-acl``.
    """
    body = request.body().read(XML_BYTES_MAX)
    if body or not request.header("x-amz-acl"):
        others = set(read_grantees(body)) - {request.identity.user_id}
        if others:
            raise S3Error(
                ErrorCode.NOT_SUPPORTED,
                f'an ACL cannot grant access to "{min(others)[:100]}": use policies of Lakebed',
            )
    return S3Reply()


def _full_control(request: S3Request) -> S3Reply:
    user = request.identity.user_id
    grantee = Markup(
        '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        f' xsi:type="CanonicalUser">{element("ID", user)}{element("DisplayName", user)}</Grantee>'
    )
    grant = element("Grant", grantee, element("Permission", "FULL_CONTROL"))
    return xml(document("AccessControlPolicy", owner(user), element("AccessControlList", grant)))
