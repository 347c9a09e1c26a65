"""ListParts: the uploaded parts of a multipart upload."""

from typing import Final

from lakebed.auth import Action
from lakebed.lake.multipart.records import StoredPart
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import part_elements, upload_elements
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, boolean, document, element, timestamp

_PARTS_MAX: Final = 1000


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    target = request.upload
    request.authorize_object(Action.WRITE_OBJECT, target.path)
    amount = request.amount("max-parts", _PARTS_MAX)
    marker = request.number("part-number-marker") or 0
    uploaded = request.services.catalog.multiparts.list_parts(target)
    left = [part for part in uploaded.parts if part.number > marker]
    shown = left[:amount]
    return xml(
        document(
            "ListPartsResult",
            element("Bucket", request.route.bucket),
            element("Key", request.route.key),
            element("UploadId", target.upload_id),
            element("PartNumberMarker", marker),
            element("NextPartNumberMarker", shown[-1].number if shown else marker),
            element("MaxParts", amount),
            element("IsTruncated", boolean(len(left) > len(shown) > 0)),
            element("StorageClass", "STANDARD"),
            *upload_elements(uploaded.scheme),
            *map(_part, shown),
        )
    )


def _part(part: StoredPart) -> Markup:
    return element(
        "Part",
        element("PartNumber", part.number),
        element("LastModified", timestamp(part.modified)),
        element("ETag", etag(part.md5)),
        element("Size", part.size),
        *part_elements(part.checksum),
    )
