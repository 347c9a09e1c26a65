"""ListMultipartUploads: those that are not over, by key and id."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest
from operator import itemgetter
from typing import Final, NamedTuple

from lakebed.auth import Action
from lakebed.catalog.multipart.uploads import OpenUpload
from lakebed.server.s3.checksum_fields import scheme_elements
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Reply, S3Request, xml
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for."""

    prefix: str
    delimiter: str
    after: _Place
    amount: int
    is_encoded: bool
    """Whether keys are to be percent-encoded."""

    def text(self, key: str) -> str:
        return url_encoded(key) if self.is_encoded else key


def handle(call: S3Request) -> S3Reply:
    """Answer the request."""
    call.authorize_repository(Action.LIST_OBJECTS)
    asked = _asked(call)
    found = _found(asked, call.services.catalog.multiparts.list_open(call.repository))
    first = nsmallest(asked.amount + 1, found.items(), key=itemgetter(0))
    shown = first[: asked.amount]
    last = shown[-1][0] if shown else asked.after
    return xml(
        document(
            "ListMultipartUploadsResult",
            element("Bucket", call.route.bucket),
            element("Prefix", asked.text(asked.prefix)),
            *([element("Delimiter", asked.text(asked.delimiter))] if asked.delimiter else []),
            element("KeyMarker", asked.text(asked.after.key)),
            element("UploadIdMarker", asked.after.upload_id),
            element("NextKeyMarker", asked.text(last.key)),
            element("NextUploadIdMarker", last.upload_id),
            element("MaxUploads", asked.amount),
            element("IsTruncated", boolean(len(first) > asked.amount > 0)),
            *([element("EncodingType", "url")] if asked.is_encoded else []),
            *(_upload(asked.text(place.key), upload) for place, upload in shown if upload),
            *(_common_prefix(asked.text(place.key)) for place, upload in shown if not upload),
        )
    )


def _asked(call: S3Request) -> _Asked:
    query = call.route.query
    encoding = query.get("encoding-type")
    if encoding not in {None, "url"}:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "encoding-type can only be url")
    return _Asked(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=_Place(query.get("key-marker", ""), query.get("upload-id-marker", "")),
        amount=call.amount("max-uploads", _UPLOADS_MAX),
        is_encoded=encoding == "url",
    )


def _found(asked: _Asked, uploads: Iterable[OpenUpload]) -> dict[_Place, OpenUpload | None]:
    """What is behind the markers: uploads, and common prefixes of several as None."""
    found: dict[_Place, OpenUpload | None] = {}
    for upload in uploads:
        place = _place(upload)
        if not place.key.startswith(asked.prefix) or not _is_behind(place, asked.after):
            continue
        head, cut, _ = place.key[len(asked.prefix) :].partition(asked.delimiter or "\0")
        if not cut:
            found[place] = upload
        elif (common := asked.prefix + head + cut) != asked.after.key:
            found[_Place(common, "")] = None
    return found


def _place(upload: OpenUpload) -> _Place:
    return _Place(f"{upload.branch}/{upload.path.decode(errors='replace')}", upload.id)


def _is_behind(place: _Place, after: _Place) -> bool:
    """Whether an upload follows the markers; without an id, the whole key is passed over."""
    return place > after if after.upload_id else place.key > after.key


def _common_prefix(key: str) -> Markup:
    return element("CommonPrefixes", element("Prefix", key))


def _upload(key: str, upload: OpenUpload) -> Markup:
    return element(
        "Upload",
        element("Key", key),
        element("UploadId", upload.id),
        element("StorageClass", "STANDARD"),
        element("Initiated", timestamp(upload.created)),
        *scheme_elements(upload.scheme),
    )
