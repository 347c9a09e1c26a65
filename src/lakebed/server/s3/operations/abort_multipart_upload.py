"""AbortMultipartUpload."""

from http import HTTPStatus

from lakebed.auth import Action
from lakebed.server.s3.request import S3Reply, S3Request


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    target = request.upload
    request.authorize_object(Action.WRITE_OBJECT, target.path)
    request.services.catalog.multiparts.abort(target)
    return S3Reply(HTTPStatus.NO_CONTENT)
