"""The operations of S3: one file for each, and the table of all."""

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
    """The function that carries an operation out."""

    handle: Callable[[S3Request], S3Reply]
    is_transfer: bool = False
    """Whether it moves the bytes of objects."""


OPERATIONS: Final[Mapping[Operation, Handler]] = {
    Operation.LIST_BUCKETS: Handler(list_buckets.handle),
    Operation.HEAD_BUCKET: Handler(head_bucket.handle),
    Operation.CREATE_BUCKET: Handler(create_bucket.handle),
    Operation.GET_BUCKET_LOCATION: Handler(probes.get_bucket_location),
    Operation.GET_BUCKET_VERSIONING: Handler(probes.get_bucket_versioning),
    Operation.GET_BUCKET_ACL: Handler(probes.get_bucket_acl),
    Operation.LIST_OBJECTS: Handler(list_objects.handle),
    Operation.LIST_OBJECTS_V2: Handler(list_objects.handle_v2),
    Operation.DELETE_OBJECTS: Handler(delete_objects.handle),
    Operation.GET_OBJECT: Handler(get_object.handle, is_transfer=True),
    Operation.HEAD_OBJECT: Handler(get_object.handle_head),
    Operation.PUT_OBJECT: Handler(put_object.handle, is_transfer=True),
    Operation.COPY_OBJECT: Handler(copy_object.handle, is_transfer=True),
    Operation.DELETE_OBJECT: Handler(delete_object.handle),
    Operation.GET_OBJECT_ATTRIBUTES: Handler(get_object_attributes.handle),
    Operation.GET_OBJECT_TAGGING: Handler(probes.get_object_tagging),
    Operation.GET_OBJECT_ACL: Handler(probes.get_object_acl),
    Operation.CREATE_MULTIPART_UPLOAD: Handler(create_multipart_upload.handle),
    Operation.UPLOAD_PART: Handler(upload_part.handle, is_transfer=True),
    Operation.UPLOAD_PART_COPY: Handler(upload_part_copy.handle, is_transfer=True),
    Operation.COMPLETE_MULTIPART_UPLOAD: Handler(
        complete_multipart_upload.handle, is_transfer=True
    ),
    Operation.ABORT_MULTIPART_UPLOAD: Handler(abort_multipart_upload.handle),
    Operation.LIST_PARTS: Handler(list_parts.handle),
    Operation.LIST_MULTIPART_UPLOADS: Handler(list_multipart_uploads.handle),
}
