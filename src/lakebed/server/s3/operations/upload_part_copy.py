"""UploadPartCopy: creates a part from an existing object, or from a byte range of it."""

from lakebed.auth import Action
from lakebed.auth.policy.actions import object_arn
from lakebed.block.ranges import ByteRange
from lakebed.block.ranges import resolve as resolve_range
from lakebed.lake.versions import reading_version
from lakebed.server.http.conditions import copied_range, etag
from lakebed.server.s3.checksum_fields import part_elements
from lakebed.server.s3.copy_source import check_source, copy_source
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.operations.upload_part import part_number
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import document, element, timestamp


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    target, source, number = request.upload, copy_source(request), part_number(request)
    request.authorize_object(Action.WRITE_OBJECT, target.path)
    request.authorize(Action.READ_OBJECT, object_arn(source.repository, source.path.decode()))
    objects = request.services.catalog.objects
    with reading_version(source.ref, source.version_id) as ref:
        stats = objects.stat(source.repository, ref, source.path)
    check_source(request, stats)
    wanted = _range(request, stats.size)
    _, size = resolve_range(wanted, stats.size)
    with objects.read(stats, byte_range=wanted) as stream:
        part = request.services.catalog.multiparts.put_part(
            target, number, stream, size=size, copied_from=stats.address
        )
    return xml(
        document(
            "CopyPartResult",
            element("LastModified", timestamp(part.modified)),
            element("ETag", etag(part.md5)),
            *part_elements(part.checksum),
        ),
        source.headers,
    )


def _range(request: S3Request, size: int) -> ByteRange | None:
    """Return the bytes to copy; unlike in a read, the object must have all of them."""
    header = request.header("x-amz-copy-source-range")
    if header is None:
        return None
    wanted = copied_range(header, size)
    if wanted is None:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            "x-amz-copy-source-range must be bytes=<first>-<last>, within the object of"
            f" {size} bytes",
        )
    return wanted
