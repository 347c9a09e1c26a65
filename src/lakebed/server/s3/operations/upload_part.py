"""UploadPart."""

from lakebed.auth import Action
from lakebed.server.http.conditions import etag
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.object_checksums import value_headers


def handle(call: Call) -> Reply:
    """Answer the request."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    body = call.body()
    part = call.services.catalog.multiparts.put_part(
        target, part_number(call), body, size=body.size, proof=body
    )
    found = body.checksums or value_headers(part.checksum)
    return Reply(headers={"ETag": etag(part.md5), **found})


def part_number(call: Call) -> int:
    """Return which part a request is about.

    Raises:
        S3Error: `INVALID_ARGUMENT`: it does not say.
    """
    if not call.route.query.get("partNumber"):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "partNumber is missing")
    return call.amount("partNumber", 1 << 31)
