"""CompleteMultipartUpload; a repeated request gets the same answer."""

from urllib.parse import quote

from lakebed.auth import Action
from lakebed.catalog.entry_metadata import checksum_of
from lakebed.catalog.multipart.records import NamedPart
from lakebed.server.http.conditions import etag, write_condition
from lakebed.server.s3.checksum_fields import (
    object_elements,
    requested_checksum,
    requested_type,
)
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_complete
from lakebed.server.s3.xml_writer import document, element


def handle(call: S3Request) -> S3Reply:
    """Carry the operation out."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    # Checksums in headers are of the whole object here, not of the body.
    named = read_complete(call.body(has_checksums=False).read(XML_BYTES_MAX))
    completed = call.services.catalog.completions.complete(
        target,
        [NamedPart(part.number, part.etag, part.checksum) for part in named],
        size=call.number_header("x-amz-mp-object-size"),
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
            *object_elements(checksum_of(completed.reserved)),
        )
    )
