"""GetObject and HeadObject."""

from http import HTTPStatus
from typing import Final

from lakebed.auth import Action
from lakebed.catalog.entry_metadata import PartRange, checksum_of, headers_of, parts_of
from lakebed.catalog.errors import EntryNotFound, RangeNotSatisfiable
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE, ObjectStats
from lakebed.catalog.nouns import Between, ByteRange, resolve_range
from lakebed.server.http.conditions import etag, http_date, requested_range
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.conditions import Verdict, is_unchanged, judge
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.metadata import metadata_headers
from lakebed.server.s3.object_checksums import checksum_headers
from lakebed.server.s3.operations.upload_part import part_number

AT_ONCE_BYTES_MAX: Final = 1 << 16
"""Small answers go out in one piece, which takes the server less than to ask for piece by piece."""

_OVERRIDES: Final = {
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-content-type": "Content-Type",
    "response-expires": "Expires",
}
"""Parameters by which the sender chooses headers of the answer, as for a link in a page."""


def handle(call: Call) -> Reply:
    """Answer a GetObject."""
    stats = find(call)
    reply, wanted = _head(call, stats)
    if reply.status is HTTPStatus.NOT_MODIFIED:
        return reply
    stream = call.services.catalog.objects.read(stats, byte_range=wanted)
    if int(reply.headers["Content-Length"]) > AT_ONCE_BYTES_MAX:
        return Reply(reply.status, reply.headers, stream)
    with stream:
        return Reply(reply.status, reply.headers, b"".join(stream))


def handle_head(call: Call) -> Reply:
    """Answer a HeadObject."""
    return _head(call, find(call))[0]


def find(call: Call) -> ObjectStats:
    """Return the object that a request asks for.

    Raises:
        Denied: The sender may not read it.
        RepositoryNotFound, RefNotFound, InvalidRef, EntryNotFound: There is none.
    """
    ref, path = call.place
    call.authorize_object(Action.READ_OBJECT, path)
    if not path:
        raise EntryNotFound(path)
    return call.services.catalog.objects.stat(call.repository, ref, path)


def _head(call: Call, stats: ObjectStats) -> tuple[Reply, ByteRange | None]:
    """Return all of an answer but the bytes, and which bytes they are."""
    verdict = judge(stats, call.header)
    if verdict is Verdict.FAILED:
        raise S3Error(ErrorCode.PRECONDITION_FAILED)
    headers = _headers(call, stats)
    if verdict is Verdict.NOT_MODIFIED:
        return Reply(HTTPStatus.NOT_MODIFIED, headers), None
    if "partNumber" in call.route.query:
        wanted = _part(call, stats, headers)
    else:
        wanted = _range(call, stats)
    try:
        offset, length = resolve_range(wanted, stats.size)
    except RangeNotSatisfiable as error:
        size = {"Content-Range": f"bytes */{stats.size}"}
        raise S3Error(ErrorCode.INVALID_RANGE, str(error), headers=size) from error
    headers["Content-Length"] = str(length)
    if wanted is None:
        if call.header("x-amz-checksum-mode") == "ENABLED":
            headers |= checksum_headers(checksum_of(stats.reserved))
        return Reply(HTTPStatus.OK, headers), None
    headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{stats.size}"
    return Reply(HTTPStatus.PARTIAL_CONTENT, headers), wanted


def _range(call: Call, stats: ObjectStats) -> ByteRange | None:
    """The bytes that the headers ask for; None: all of them."""
    only_if = call.header("If-Range")
    if only_if is not None and not is_unchanged(stats, only_if):
        return None
    return requested_range(call.header("Range"))


def _part(call: Call, stats: ObjectStats, headers: dict[str, str]) -> ByteRange | None:
    """The bytes of the part that is asked for; notes in the headers how many parts there are."""
    if call.header("Range") is not None:
        raise S3Error(ErrorCode.INVALID_REQUEST, "a request asks for a range or for a part")
    number = part_number(call)
    if not number:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "parts are numbered from 1 on")
    parts = parts_of(stats.reserved, stats.size)
    if parts is not None:
        headers["x-amz-mp-parts-count"] = str(len(parts))
    elif "-" in stats.checksum:
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "nothing is known of the parts of this object")
    else:
        parts = [PartRange(0, stats.size)]
    if number > len(parts):
        raise S3Error(ErrorCode.INVALID_PART_NUMBER)
    part = parts[number - 1]
    return Between(part.offset, part.offset + part.size) if part.size else None


def _headers(call: Call, stats: ObjectStats) -> dict[str, str]:
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Type": _sane(stats.content_type) or DEFAULT_CONTENT_TYPE,
        "ETag": etag(_sane(stats.checksum)),
        "Last-Modified": http_date(stats.mtime),
        **headers_of(stats.reserved),
        **metadata_headers(stats.metadata),
    }
    for parameter, name in _OVERRIDES.items():
        value = call.route.query.get(parameter)
        if value is not None:
            headers[name] = _header_value(parameter, value)
    return headers


def _sane(value: str) -> str:
    """What came by the API may be any text; what cannot be a header is left out."""
    return value if value.isascii() and value.isprintable() else ""


def _header_value(parameter: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f"{parameter} cannot be a header")
    return value
