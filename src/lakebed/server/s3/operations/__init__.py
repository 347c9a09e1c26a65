"""What the gateway does: one file for each operation, and the table of all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.server.s3.operations import (
    abort_multipart_upload,
    complete_multipart_upload,
    copy_object,
    create_bucket,
    create_multipart_upload,
    delete_object,
    delete_objects,
    get_object,
    get_object_attributes,
    head_bucket,
    list_buckets,
    list_multipart_uploads,
    list_objects,
    list_parts,
    probes,
    put_object,
    upload_part,
    upload_part_copy,
)
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.router import Operation


@dataclass(frozen=True, slots=True)
class Handler:
    """What does an operation."""

    name: str
    """For logs and metrics."""
    handle: Callable[[S3Request], S3Reply]
    is_transfer: bool = False
    """Whether it moves the bytes of objects."""


OPERATIONS: Final[Mapping[Operation, Handler]] = {
    Operation.LIST_BUCKETS: Handler("s3:ListBuckets", list_buckets.handle),
    Operation.HEAD_BUCKET: Handler("s3:HeadBucket", head_bucket.handle),
    Operation.CREATE_BUCKET: Handler("s3:CreateBucket", create_bucket.handle),
    Operation.GET_BUCKET_LOCATION: Handler("s3:GetBucketLocation", probes.bucket_location),
    Operation.GET_BUCKET_VERSIONING: Handler("s3:GetBucketVersioning", probes.bucket_versioning),
    Operation.GET_BUCKET_ACL: Handler("s3:GetBucketAcl", probes.bucket_acl),
    Operation.LIST_OBJECTS: Handler("s3:ListObjects", list_objects.handle),
    Operation.LIST_OBJECTS_V2: Handler("s3:ListObjectsV2", list_objects.handle_v2),
    Operation.DELETE_OBJECTS: Handler("s3:DeleteObjects", delete_objects.handle),
    Operation.GET_OBJECT: Handler("s3:GetObject", get_object.handle, is_transfer=True),
    Operation.HEAD_OBJECT: Handler("s3:HeadObject", get_object.handle_head),
    Operation.PUT_OBJECT: Handler("s3:PutObject", put_object.handle, is_transfer=True),
    Operation.COPY_OBJECT: Handler("s3:CopyObject", copy_object.handle, is_transfer=True),
    Operation.DELETE_OBJECT: Handler("s3:DeleteObject", delete_object.handle),
    Operation.GET_OBJECT_ATTRIBUTES: Handler(
        "s3:GetObjectAttributes", get_object_attributes.handle
    ),
    Operation.GET_OBJECT_TAGGING: Handler("s3:GetObjectTagging", probes.object_tagging),
    Operation.GET_OBJECT_ACL: Handler("s3:GetObjectAcl", probes.object_acl),
    Operation.CREATE_MULTIPART_UPLOAD: Handler(
        "s3:CreateMultipartUpload", create_multipart_upload.handle
    ),
    Operation.UPLOAD_PART: Handler("s3:UploadPart", upload_part.handle, is_transfer=True),
    Operation.UPLOAD_PART_COPY: Handler(
        "s3:UploadPartCopy", upload_part_copy.handle, is_transfer=True
    ),
    Operation.COMPLETE_MULTIPART_UPLOAD: Handler(
        "s3:CompleteMultipartUpload", complete_multipart_upload.handle, is_transfer=True
    ),
    Operation.ABORT_MULTIPART_UPLOAD: Handler(
        "s3:AbortMultipartUpload", abort_multipart_upload.handle
    ),
    Operation.LIST_PARTS: Handler("s3:ListParts", list_parts.handle),
    Operation.LIST_MULTIPART_UPLOADS: Handler(
        "s3:ListMultipartUploads", list_multipart_uploads.handle
    ),
}
