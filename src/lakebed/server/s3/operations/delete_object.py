"""DeleteObject: also of what is not there."""

from http import HTTPStatus
from typing import Final

from lakebed.auth import Action
from lakebed.catalog.nouns import BranchID
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.errors import ErrorCode, S3Error

_CONDITIONS: Final = ("If-Match", "x-amz-if-match-last-modified-time", "x-amz-if-match-size")


def handle(call: Call) -> Reply:
    """Answer the request."""
    if any(call.header(name) is not None for name in _CONDITIONS):
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "objects are deleted without conditions")
    branch, path = call.place
    call.authorize_object(Action.DELETE_OBJECT, path)
    if call.is_branch_itself:  # see PutObject
        call.services.catalog.objects.check_writable(call.repository, BranchID(branch))
        return Reply(HTTPStatus.NO_CONTENT)
    call.services.catalog.objects.delete(call.repository, BranchID(branch), path)
    return Reply(HTTPStatus.NO_CONTENT)
