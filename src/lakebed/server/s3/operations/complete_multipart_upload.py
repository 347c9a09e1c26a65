"""CompleteMultipartUpload; repeating it answers the same."""

from urllib.parse import quote

from lakebed.auth import Action
from lakebed.catalog.multipart_records import NamedPart
from lakebed.server.conditions import etag, write_condition
from lakebed.server.s3.call import Call, Reply, xml
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_complete
from lakebed.server.s3.xml_writer import document, element


def handle(call: Call) -> Reply:
    """Answer the request."""
    target = call.upload
    call.authorize_object(Action.WRITE_OBJECT, target.path)
    named = read_complete(call.body().read(XML_BYTES_MAX))
    completed = call.services.catalog.completions.complete(
        target,
        [NamedPart(part.number, part.etag) for part in named],
        condition=write_condition(call.header("If-Match"), call.header("If-None-Match")),
    )
    return xml(
        document(
            "CompleteMultipartUploadResult",
            element("Location", f"/{call.route.bucket}/{quote(call.route.key)}"),
            element("Bucket", call.route.bucket),
            element("Key", call.route.key),
            element("ETag", etag(completed.checksum)),
        )
    )
