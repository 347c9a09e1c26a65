"""CreateMultipartUpload."""

from lakebed.auth import Action
from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.engine.model import BranchID
from lakebed.lake.entry_metadata import for_tags
from lakebed.server.s3.checksum_fields import requested_scheme, upload_headers
from lakebed.server.s3.encryption import encryption_headers
from lakebed.server.s3.metadata import metadata_of
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.tagging import requested_tags
from lakebed.server.s3.xml_writer import document, element


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    branch, path = request.ref_path
    request.authorize_object(Action.WRITE_OBJECT, path)
    scheme = requested_scheme(request)
    upload = request.services.catalog.multiparts.create(
        request.repository,
        BranchID(branch),
        path,
        content_type=request.header("Content-Type") or DEFAULT_CONTENT_TYPE,
        metadata={**metadata_of(request), **for_tags(requested_tags(request))},
        scheme=scheme,
    )
    body = document(
        "InitiateMultipartUploadResult",
        element("Bucket", request.route.bucket),
        element("Key", request.route.key),
        element("UploadId", upload.id),
    )
    encryption = encryption_headers(request.services.catalog.encryption)
    return xml(body, {**upload_headers(scheme), **encryption})
