"""UploadPart."""

from lakebed.auth import Action
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import part_headers
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    target = request.upload
    request.authorize_object(Action.WRITE_OBJECT, target.path)
    body = request.body()
    part = request.services.catalog.multiparts.put_part(
        target, part_number(request), body, size=body.size, proof=body
    )
    found = body.checksums or part_headers(part.checksum)
    return S3Reply(headers={"ETag": etag(part.md5), **found})


def part_number(request: S3Request) -> int:
    """Return the part number of a request."""
    number = request.number("partNumber")
    if number is None:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "the query must have a partNumber")
    return number
