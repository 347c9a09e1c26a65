"""PutObject."""

from lakebed.auth import Action
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE
from lakebed.graveler.model import BranchID
from lakebed.server.conditions import etag, write_condition
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.metadata import user_metadata


def handle(call: Call) -> Reply:
    """Answer the request."""
    branch, path = call.place
    call.authorize_object(Action.WRITE_OBJECT, path)
    body = call.body()
    stored = call.services.catalog.uploads.upload(
        call.repository,
        BranchID(branch),
        path,
        body,
        content_type=call.header("Content-Type") or DEFAULT_CONTENT_TYPE,
        metadata=user_metadata(call),
        condition=write_condition(call.header("If-Match"), call.header("If-None-Match")),
    )
    return Reply(headers={"ETag": etag(stored.checksum), **body.checksums})
