"""CopyObject: within or between repositories, with the source's metadata or with new metadata."""

from lakebed.auth import Action
from lakebed.auth.policy.actions import object_arn
from lakebed.engine.model import BranchID
from lakebed.lake.entry_metadata import checksum_of
from lakebed.lake.versions import reading_version
from lakebed.server.http.conditions import etag
from lakebed.server.s3.checksum_fields import object_elements
from lakebed.server.s3.copy_source import copy_source, source_condition
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.metadata import metadata_of
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.tagging import requested_tags
from lakebed.server.s3.xml_writer import document, element, timestamp


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    branch, path = request.ref_path
    source = copy_source(request)
    request.authorize_object(Action.WRITE_OBJECT, path)
    request.authorize(Action.READ_OBJECT, object_arn(source.repository, source.path.decode()))
    replaces = _replaces(request, "x-amz-metadata-directive")
    replaces_tags = _replaces(request, "x-amz-tagging-directive")
    with reading_version(source.ref, source.version_id) as ref:
        copied = request.services.catalog.copies.copy(
            request.repository,
            BranchID(branch),
            path,
            source_repository_id=source.repository,
            source_ref=ref,
            source_path=source.path,
            source_condition=source_condition(request),
            content_type=request.header("Content-Type") if replaces else None,
            metadata=metadata_of(request) if replaces else None,
            tags=requested_tags(request) if replaces_tags else None,
            condition=request.write_condition,
            invocation=request.invocation,
            encrypted=request.asks_for_encryption,
        )
    return xml(
        document(
            "CopyObjectResult",
            element("LastModified", timestamp(copied.mtime)),
            element("ETag", etag(copied.checksum)),
            *object_elements(checksum_of(copied.reserved)),
        ),
        {**source.headers, **request.encryption_headers(copied)},
    )


def _replaces(request: S3Request, header: str) -> bool:
    directive = (request.header(header) or "COPY").upper()
    if directive not in {"COPY", "REPLACE"}:
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            f'{header} must be COPY or REPLACE, not "{directive[:100]}"',
        )
    return directive == "REPLACE"
