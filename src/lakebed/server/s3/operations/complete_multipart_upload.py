"""CompleteMultipartUpload; repeating it answers the same."""

from typing import Final
from urllib.parse import quote

from lakebed.auth import Action
from lakebed.catalog.entry_metadata import checksum_of
from lakebed.catalog.multipart.records import NamedPart
from lakebed.server.http.conditions import etag, write_condition
from lakebed.server.s3.checksum_fields import (
    checksum_elements,
    requested_checksum,
    requested_type,
)
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_complete
from lakebed.server.s3.xml_writer import document, element

_DIGITS_MAX: Final = 15


def handle(call: S3Request) -> S3Reply:
    """Answer the request."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    # A checksum here is that of the whole object.
    named = read_complete(call.body(has_checksums=False).read(XML_BYTES_MAX))
    completed = call.services.catalog.completions.complete(
        target,
        [NamedPart(part.number, part.etag, part.checksum) for part in named],
        size=_size(call),
        whole=requested_checksum(call),
        whole_type=requested_type(call),
        condition=write_condition(call.header("If-Match"), call.header("If-None-Match")),
    )
    return xml(
        document(
            "CompleteMultipartUploadResult",
            element("Location", f"/{call.route.bucket}/{quote(call.route.key)}"),
            element("Bucket", call.route.bucket),
            element("Key", call.route.key),
            element("ETag", etag(completed.checksum)),
            *checksum_elements(checksum_of(completed.reserved)),
        )
    )


def _size(call: S3Request) -> int | None:
    """How large the sender takes the object to be; None: it does not say."""
    size = call.header("x-amz-mp-object-size")
    if size is None:
        return None
    if not (size.isascii() and size.isdecimal() and len(size) <= _DIGITS_MAX):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "x-amz-mp-object-size must be a number")
    return int(size)
