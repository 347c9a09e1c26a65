"""CreateMultipartUpload."""

from lakebed.auth import Action
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE
from lakebed.catalog.nouns import BranchID
from lakebed.server.s3.checksum_fields import requested_scheme, upload_headers
from lakebed.server.s3.metadata import metadata_of
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import document, element


def handle(call: S3Request) -> S3Reply:
    """Carry the operation out."""
    branch, path = call.place
    call.authorize_object(Action.WRITE_OBJECT, path)
    scheme = requested_scheme(call)
    upload_id = call.services.catalog.multiparts.create(
        call.repository,
        BranchID(branch),
        path,
        content_type=call.header("Content-Type") or DEFAULT_CONTENT_TYPE,
        metadata=metadata_of(call),
        scheme=scheme,
    )
    body = document(
        "InitiateMultipartUploadResult",
        element("Bucket", call.route.bucket),
        element("Key", call.route.key),
        element("UploadId", upload_id),
    )
    return xml(body, upload_headers(scheme))
