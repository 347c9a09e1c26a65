"""GetObjectAttributes: those of an object's attributes that are asked for and known."""

from collections.abc import Callable, Mapping
from typing import Final

from lakebed.catalog.entry_metadata import checksum_of, parts_of
from lakebed.catalog.model import ObjectStats
from lakebed.server.http.conditions import http_date
from lakebed.server.s3.checksum_fields import checksum_elements
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.operations.get_object import find
from lakebed.server.s3.request import XML_TYPE, S3Reply, S3Request
from lakebed.server.s3.xml_writer import Markup, document, element

_HEADER: Final = "x-amz-object-attributes"


def handle(call: S3Request) -> S3Reply:
    """Answer the request."""
    names = {name.strip() for name in (call.header(_HEADER) or "").split(",")}
    if not names <= _ATTRIBUTES.keys():
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f"{_HEADER} must be of {', '.join(_ATTRIBUTES)}")
    stats = find(call)
    found = [show(stats) for name, show in _ATTRIBUTES.items() if name in names]
    return S3Reply(
        headers={
            "Content-Type": XML_TYPE,
            "Last-Modified": http_date(stats.mtime),
        },
        body=document("GetObjectAttributesResponse", *found),
    )


def _parts(stats: ObjectStats) -> Markup:
    """How many parts there are; of an object that was not uploaded in parts, nothing."""
    parts = parts_of(stats.reserved, stats.size)
    return (
        Markup("") if parts is None else element("ObjectParts", element("PartsCount", len(parts)))
    )


def _checksum(stats: ObjectStats) -> Markup:
    """The checksum that came with the object; of one that came without, nothing."""
    elements = checksum_elements(checksum_of(stats.reserved))
    return element("Checksum", *elements) if elements else Markup("")


_ATTRIBUTES: Final[Mapping[str, Callable[[ObjectStats], Markup]]] = {
    "ETag": lambda stats: element("ETag", stats.checksum),
    "Checksum": _checksum,
    "ObjectParts": _parts,
    "StorageClass": lambda _: element("StorageClass", "STANDARD"),
    "ObjectSize": lambda stats: element("ObjectSize", stats.size),
}
