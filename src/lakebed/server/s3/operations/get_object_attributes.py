"""GetObjectAttributes: the requested attributes, as far as the object has them."""

from collections.abc import Callable, Mapping
from typing import Final

from lakebed.lake.entry_metadata import checksum_of, parts_of
from lakebed.lake.model import ObjectStats
from lakebed.server.http.conditions import http_date
from lakebed.server.s3.checksum_fields import object_elements
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.operations.get_object import find
from lakebed.server.s3.request import VERSION_ID, S3Reply, S3Request, version_headers, xml
from lakebed.server.s3.xml_writer import Markup, document, element

_HEADER: Final = "x-amz-object-attributes"


def handle(request: S3Request) -> S3Reply:
    """Handle the request."""
    names = {name.strip() for name in (request.header(_HEADER) or "").split(",")}
    if not names <= _ATTRIBUTES.keys():
        raise S3Error(
            ErrorCode.INVALID_ARGUMENT,
            f"{_HEADER} must contain only {', '.join(_ATTRIBUTES)}",
        )
    stats = find(request)
    found = [show(stats) for name, show in _ATTRIBUTES.items() if name in names]
    return xml(
        document("GetObjectAttributesResponse", *found),
        {
            "Last-Modified": http_date(stats.mtime),
            **version_headers(VERSION_ID, request.version_id),
        },
    )


def _parts(stats: ObjectStats) -> Markup:
    """Return the number of parts, or nothing if the object was not uploaded in parts."""
    parts = parts_of(stats.reserved, stats.size)
    return (
        Markup("") if parts is None else element("ObjectParts", element("PartsCount", len(parts)))
    )


def _checksum(stats: ObjectStats) -> Markup:
    """Return the checksum of the object, or nothing if uploaded without one."""
    elements = object_elements(checksum_of(stats.reserved))
    return element("Checksum", *elements) if elements else Markup("")


_ATTRIBUTES: Final[Mapping[str, Callable[[ObjectStats], Markup]]] = {
    "ETag": lambda stats: element("ETag", stats.checksum),
    "Checksum": _checksum,
    "ObjectParts": _parts,
    "StorageClass": lambda _: element("StorageClass", "STANDARD"),
    "ObjectSize": lambda stats: element("ObjectSize", stats.size),
}
