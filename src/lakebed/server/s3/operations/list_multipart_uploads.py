"""ListMultipartUploads: those that are not over, by key and id."""

from heapq import nsmallest
from typing import Final, NamedTuple

from lakebed.auth import Action
from lakebed.catalog.multiparts import OpenUpload
from lakebed.server.s3.call import Call, Reply, xml
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.xml_writer import (
    Markup,
    boolean,
    document,
    element,
    timestamp,
    url_encoded,
)

_UPLOADS_MAX: Final = 1000


class _Place(NamedTuple):
    """Where an upload stands in the order of the list."""

    key: str
    upload_id: str


def handle(call: Call) -> Reply:
    """Answer the request."""
    call.authorize_repository(Action.LIST_OBJECTS)
    query = call.route.query
    if query.get("delimiter"):
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "uploads are listed without a delimiter")
    prefix, amount = query.get("prefix", ""), call.amount("max-uploads", _UPLOADS_MAX)
    after = _Place(query.get("key-marker", ""), query.get("upload-id-marker", ""))
    found = (
        (place, upload)
        for upload in call.services.catalog.multiparts.list_open(call.repository)
        if (place := _place(upload)).key.startswith(prefix) and _is_behind(place, after)
    )
    first = nsmallest(amount + 1, found, key=lambda item: item[0])
    shown = first[:amount]
    last = shown[-1][0] if shown else after
    encode = url_encoded if query.get("encoding-type") == "url" else str
    return xml(
        document(
            "ListMultipartUploadsResult",
            element("Bucket", call.route.bucket),
            element("Prefix", encode(prefix)),
            element("KeyMarker", encode(after.key)),
            element("UploadIdMarker", after.upload_id),
            element("NextKeyMarker", encode(last.key)),
            element("NextUploadIdMarker", last.upload_id),
            element("MaxUploads", amount),
            element("IsTruncated", boolean(len(first) > amount > 0)),
            *([element("EncodingType", "url")] if encode is url_encoded else []),
            *(_upload(encode(place.key), upload) for place, upload in shown),
        )
    )


def _place(upload: OpenUpload) -> _Place:
    return _Place(f"{upload.branch}/{upload.path.decode(errors='replace')}", upload.id)


def _is_behind(place: _Place, after: _Place) -> bool:
    """Whether an upload follows the markers; without an id, the whole key is passed over."""
    return place > after if after.upload_id else place.key > after.key


def _upload(key: str, upload: OpenUpload) -> Markup:
    return element(
        "Upload",
        element("Key", key),
        element("UploadId", upload.id),
        element("StorageClass", "STANDARD"),
        element("Initiated", timestamp(upload.created)),
    )
