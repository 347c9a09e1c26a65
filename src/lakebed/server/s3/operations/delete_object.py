"""DeleteObject; succeeds if the object does not exist."""

from http import HTTPStatus

from lakebed.auth import Action
from lakebed.engine.model import BranchID
from lakebed.lake.versions import UNCOMMITTED
from lakebed.server.s3.errors import (
    NO_CONDITIONAL_DELETES,
    ErrorCode,
    S3Error,
)
from lakebed.server.s3.request import S3Reply, S3Request


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    if request.header("If-Match") is not None:
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, NO_CONDITIONAL_DELETES)
    if request.version_id != UNCOMMITTED:
        raise S3Error(ErrorCode.NO_VERSION_DELETES)
    branch, path = request.ref_path
    request.authorize_object(Action.DELETE_OBJECT, path)
    if request.is_branch_itself:  # see put_object.py
        request.services.catalog.objects.check_writable(request.repository, BranchID(branch))
        return S3Reply(HTTPStatus.NO_CONTENT)
    request.services.catalog.objects.delete(request.repository, BranchID(branch), path)
    return S3Reply(HTTPStatus.NO_CONTENT)
