"""The operations of S3: one file each, and the table of all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lakebed.server.s3.operations import (
    abort_multipart_upload,
    acl,
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
    list_object_versions,
    list_objects,
    list_parts,
    object_tagging,
    post_object,
    probes,
    put_object,
    upload_part,
    upload_part_copy,
)
from lakebed.server.s3.request import S3Reply, S3Request
from lakebed.server.s3.router import S3Operation


@dataclass(frozen=True, slots=True)
class Handler:
    """The function of an operation."""

    handle: Callable[[S3Request], S3Reply]
    is_transfer: bool = False


OPERATIONS: Final[Mapping[S3Operation, Handler]] = {
    S3Operation.LIST_BUCKETS: Handler(list_buckets.handle),
    S3Operation.HEAD_BUCKET: Handler(head_bucket.handle),
    S3Operation.CREATE_BUCKET: Handler(create_bucket.handle),
    S3Operation.GET_BUCKET_LOCATION: Handler(probes.get_bucket_location),
    S3Operation.GET_BUCKET_VERSIONING: Handler(probes.get_bucket_versioning),
    S3Operation.GET_BUCKET_ACL: Handler(acl.get_of_bucket),
    S3Operation.PUT_BUCKET_ACL: Handler(acl.put_of_bucket),
    S3Operation.GET_BUCKET_ACCELERATE: Handler(probes.get_bucket_accelerate),
    S3Operation.GET_BUCKET_ENCRYPTION: Handler(probes.get_bucket_encryption),
    S3Operation.GET_BUCKET_LOGGING: Handler(probes.get_bucket_logging),
    S3Operation.GET_BUCKET_NOTIFICATION: Handler(probes.get_bucket_notification),
    S3Operation.GET_BUCKET_REQUEST_PAYMENT: Handler(probes.get_bucket_request_payment),
    S3Operation.LIST_OBJECTS: Handler(list_objects.handle),
    S3Operation.LIST_OBJECTS_V2: Handler(list_objects.handle_v2),
    S3Operation.LIST_OBJECT_VERSIONS: Handler(list_object_versions.handle),
    S3Operation.DELETE_OBJECTS: Handler(delete_objects.handle),
    S3Operation.GET_OBJECT: Handler(get_object.handle, is_transfer=True),
    S3Operation.HEAD_OBJECT: Handler(get_object.handle_head),
    S3Operation.PUT_OBJECT: Handler(put_object.handle, is_transfer=True),
    S3Operation.POST_OBJECT: Handler(post_object.handle, is_transfer=True),
    S3Operation.COPY_OBJECT: Handler(copy_object.handle, is_transfer=True),
    S3Operation.DELETE_OBJECT: Handler(delete_object.handle),
    S3Operation.GET_OBJECT_ATTRIBUTES: Handler(get_object_attributes.handle),
    S3Operation.GET_OBJECT_TAGGING: Handler(object_tagging.get),
    S3Operation.PUT_OBJECT_TAGGING: Handler(object_tagging.put),
    S3Operation.DELETE_OBJECT_TAGGING: Handler(object_tagging.delete),
    S3Operation.GET_OBJECT_ACL: Handler(acl.get_of_object),
    S3Operation.PUT_OBJECT_ACL: Handler(acl.put_of_object),
    S3Operation.CREATE_MULTIPART_UPLOAD: Handler(create_multipart_upload.handle),
    S3Operation.UPLOAD_PART: Handler(upload_part.handle, is_transfer=True),
    S3Operation.UPLOAD_PART_COPY: Handler(upload_part_copy.handle, is_transfer=True),
    S3Operation.COMPLETE_MULTIPART_UPLOAD: Handler(
        complete_multipart_upload.handle, is_transfer=True
    ),
    S3Operation.ABORT_MULTIPART_UPLOAD: Handler(abort_multipart_upload.handle),
    S3Operation.LIST_PARTS: Handler(list_parts.handle),
    S3Operation.LIST_MULTIPART_UPLOADS: Handler(list_multipart_uploads.handle),
}
