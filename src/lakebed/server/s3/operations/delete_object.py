"""DeleteObject; without a condition, succeeds if the object does not exist."""

from http import HTTPStatus

from lakebed.auth import Action
from lakebed.engine.model import BranchID
from lakebed.engine.staging.writer import check_condition
from lakebed.lake.versions import UNCOMMITTED
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    if request.version_id != UNCOMMITTED:
        raise S3Error(ErrorCode.NO_VERSION_DELETES)
    if request.header("If-None-Match"):
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "If-None-Match of a delete is not supported")
    condition = request.write_condition
    branch, path = request.ref_path
    request.authorize_object(Action.DELETE_OBJECT, path)
    if request.is_branch_itself:  # see put_object.py
        request.services.catalog.objects.check_writable(request.repository, BranchID(branch))
        if condition is not None:
            check_condition(condition, path, None)
        return S3Reply(HTTPStatus.NO_CONTENT)
    request.services.catalog.objects.delete(request.repository, BranchID(branch), path, condition)
    return S3Reply(HTTPStatus.NO_CONTENT)
