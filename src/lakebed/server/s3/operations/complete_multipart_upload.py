"""CompleteMultipartUpload; a repeated request gets the same answer."""

from lakebed.auth import Action
from lakebed.lake.entry_metadata import checksum_of
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import object_elements, requested_checksum, requested_type
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_complete
from lakebed.server.s3.xml_writer import document, element


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    target = request.upload
    request.authorize_object(Action.WRITE_OBJECT, target.path)
    # Checksums in headers refer to the whole object here, not to the body.
    named = read_complete(request.body(has_checksums=False).read(XML_BYTES_MAX))
    completed = request.services.catalog.completions.complete(
        target,
        named,
        size=request.number_header("x-amz-mp-object-size"),
        whole=requested_checksum(request),
        whole_type=requested_type(request),
        condition=request.write_condition,
    )
    return xml(
        document(
            "CompleteMultipartUploadResult",
            element("Location", request.url),
            element("Bucket", request.route.bucket),
            element("Key", request.route.key),
            element("ETag", etag(completed.checksum)),
            *object_elements(checksum_of(completed.reserved)),
        ),
        request.encryption_headers(completed),
    )
