"""AbortMultipartUpload."""

from http import HTTPStatus

from lakebed.auth import Action
from lakebed.server.s3.call import Call, Reply


def handle(call: Call) -> Reply:
    """Answer the request."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    call.services.catalog.multiparts.abort(target)
    return Reply(HTTPStatus.NO_CONTENT)
