"""ListMultipartUploads: the open uploads, by key and id."""

from collections.abc import Iterable
from heapq import nsmallest
from operator import itemgetter
from typing import Final, NamedTuple

from lakebed.auth import Action
from lakebed.lake.multipart.uploads import OpenUpload
from lakebed.server.s3.checksum_fields import upload_elements
from lakebed.server.s3.listings import ListingQuery, read_listing_query
from lakebed.server.s3.request import S3Reply, S3Request, xml
from lakebed.server.s3.xml_writer import Markup, boolean, document, element, timestamp

_UPLOADS_MAX: Final = 1000


class _Position(NamedTuple):
    key: str
    upload_id: str


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    request.authorize_repository(Action.LIST_OBJECTS)
    asked = read_listing_query(request, "max-uploads", _UPLOADS_MAX)
    query = request.route.query
    after = _Position(query.get("key-marker", ""), query.get("upload-id-marker", ""))
    found = _find(asked, after, request.services.catalog.multiparts.list_open(request.repository))
    first = nsmallest(asked.amount + 1, found.items(), key=itemgetter(0))
    shown = first[: asked.amount]
    last = shown[-1][0] if shown else after
    return xml(
        document(
            "ListMultipartUploadsResult",
            element("Bucket", request.route.bucket),
            *asked.echo(),
            element("KeyMarker", asked.text(after.key)),
            element("UploadIdMarker", after.upload_id),
            element("NextKeyMarker", asked.text(last.key)),
            element("NextUploadIdMarker", last.upload_id),
            element("MaxUploads", asked.amount),
            element("IsTruncated", boolean(len(first) > asked.amount > 0)),
            *(_upload(asked.text(position.key), upload) for position, upload in shown if upload),
            *(asked.common_prefix(position.key) for position, upload in shown if not upload),
        )
    )


def _find(
    asked: ListingQuery, after: _Position, uploads: Iterable[OpenUpload]
) -> dict[_Position, OpenUpload | None]:
    """Return the uploads behind the markers, and common prefixes, which have no upload."""
    found: dict[_Position, OpenUpload | None] = {}
    for upload in uploads:
        position = _position(upload)
        if not position.key.startswith(asked.prefix) or not _is_behind(position, after):
            continue
        head, cut, _ = position.key[len(asked.prefix) :].partition(asked.delimiter or "\0")
        if not cut:
            found[position] = upload
        elif (common := asked.prefix + head + cut) != after.key:
            found[_Position(common, "")] = None
    return found


def _position(upload: OpenUpload) -> _Position:
    return _Position(f"{upload.branch}/{upload.path.decode(errors='replace')}", upload.id)


def _is_behind(position: _Position, after: _Position) -> bool:
    """Whether an upload follows the markers; without an id, the whole key is skipped."""
    return position > after if after.upload_id else position.key > after.key


def _upload(key: str, upload: OpenUpload) -> Markup:
    return element(
        "Upload",
        element("Key", key),
        element("UploadId", upload.id),
        element("StorageClass", "STANDARD"),
        element("Initiated", timestamp(upload.created)),
        *upload_elements(upload.scheme),
    )
