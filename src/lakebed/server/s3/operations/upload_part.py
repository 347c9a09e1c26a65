"""UploadPart."""

from lakebed.auth import Action
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import value_headers
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request


def handle(call: S3Request) -> S3Reply:
    """Answer the request."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    body = call.body()
    part = call.services.catalog.multiparts.put_part(
        target, part_number(call), body, size=body.size, proof=body
    )
    found = body.checksums or value_headers(part.checksum)
    return S3Reply(headers={"ETag": etag(part.md5), **found})


def part_number(call: S3Request) -> int:
    """Return which part a request is about.

    Raises:
        S3Error: `INVALID_ARGUMENT`: it does not say.
    """
    if not call.route.query.get("partNumber"):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "partNumber is missing")
    return call.amount("partNumber", 1 << 31)
