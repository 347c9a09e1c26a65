"""DeleteObject: also of what is not there."""

from http import HTTPStatus

from lakebed.auth import Action
from lakebed.graveler.model import BranchID
from lakebed.server.s3.call import Call, Reply


def handle(call: Call) -> Reply:
    """Answer the request."""
    branch, path = call.place
    call.authorize_object(Action.DELETE_OBJECT, path)
    if call.is_branch_itself:  # see PutObject
        call.services.graveler.check_writable(call.repository, BranchID(branch))
        return Reply(HTTPStatus.NO_CONTENT)
    call.services.catalog.objects.delete(call.repository, BranchID(branch), path)
    return Reply(HTTPStatus.NO_CONTENT)
