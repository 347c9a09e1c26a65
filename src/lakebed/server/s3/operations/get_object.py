"""GetObject and HeadObject."""

from http import HTTPStatus
from typing import Final

from lakebed.auth import Action
from lakebed.catalog.entry_metadata import PartRange, checksum_of, headers_of, parts_of
from lakebed.catalog.errors import EntryNotFound, RangeNotSatisfiable
from lakebed.catalog.model import DEFAULT_CONTENT_TYPE, ObjectStats
from lakebed.catalog.nouns import Between, ByteRange, resolve_range
from lakebed.server.http.conditions import etag, http_date, requested_range
from lakebed.server.s3.checksum_fields import object_headers
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.metadata import metadata_headers
from lakebed.server.s3.operations.upload_part import part_number
from lakebed.server.s3.read_conditions import Verdict, is_unchanged, judge
from lakebed.server.s3.request import S3Reply, S3Request

AT_ONCE_BYTES_MAX: Final = 1 << 16
"""Smaller answers go out in one piece, which costs the server less than piece by piece."""

_OVERRIDES: Final = {
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-content-type": "Content-Type",
    "response-expires": "Expires",
}
"""Parameters that set headers of the answer, as a link in a page needs."""


def handle(call: S3Request) -> S3Reply:
    """Carry GetObject out."""
    stats = find(call)
    reply, wanted = _head(call, stats)
    if reply.status is HTTPStatus.NOT_MODIFIED:
        return reply
    stream = call.services.catalog.objects.read(stats, byte_range=wanted)
    if int(reply.headers["Content-Length"]) > AT_ONCE_BYTES_MAX:
        return S3Reply(reply.status, reply.headers, stream)
    with stream:
        return S3Reply(reply.status, reply.headers, b"".join(stream))


def handle_head(call: S3Request) -> S3Reply:
    """Carry HeadObject out."""
    return _head(call, find(call))[0]


def find(call: S3Request) -> ObjectStats:
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


def _head(call: S3Request, stats: ObjectStats) -> tuple[S3Reply, ByteRange | None]:
    """Return the answer without its bytes, and which bytes belong to it; None: all of them."""
    verdict = judge(stats, call.header)
    if verdict is Verdict.FAILED:
        raise S3Error(ErrorCode.PRECONDITION_FAILED)
    headers = _headers(call, stats)
    if verdict is Verdict.NOT_MODIFIED:
        return S3Reply(HTTPStatus.NOT_MODIFIED, headers), None
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
            headers |= object_headers(checksum_of(stats.reserved))
        return S3Reply(HTTPStatus.OK, headers), None
    headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{stats.size}"
    return S3Reply(HTTPStatus.PARTIAL_CONTENT, headers), wanted


def _range(call: S3Request, stats: ObjectStats) -> ByteRange | None:
    """Return the bytes that the headers ask for; None: all of them."""
    only_if = call.header("If-Range")
    if only_if is not None and not is_unchanged(stats, only_if):
        return None
    return requested_range(call.header("Range"))


def _part(call: S3Request, stats: ObjectStats, headers: dict[str, str]) -> ByteRange | None:
    """Return the bytes of the part that is asked for; add the number of parts to the headers."""
    if call.header("Range") is not None:
        raise S3Error(
            ErrorCode.INVALID_REQUEST, "ask for a Range or for a partNumber, not for both"
        )
    number = part_number(call)
    if not number:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "partNumber must be 1 or more")
    parts = parts_of(stats.reserved, stats.size)
    if parts is not None:
        headers["x-amz-mp-parts-count"] = str(len(parts))
    elif "-" in stats.checksum:  # an ETag like <md5>-<number of parts>
        raise S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            "the sizes of the parts of this object are not known; ask for a Range",
        )
    else:
        parts = [PartRange(0, stats.size)]
    if number > len(parts):
        raise S3Error(
            ErrorCode.INVALID_PART_NUMBER, f"the object has {len(parts)} parts, and not {number}"
        )
    part = parts[number - 1]
    return Between(part.offset, part.offset + part.size) if part.size else None


def _headers(call: S3Request, stats: ObjectStats) -> dict[str, str]:
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Type": _header_text(stats.content_type) or DEFAULT_CONTENT_TYPE,
        "ETag": etag(_header_text(stats.checksum)),
        "Last-Modified": http_date(stats.mtime),
        **headers_of(stats.reserved),
        **metadata_headers(stats.metadata),
    }
    for parameter, name in _OVERRIDES.items():
        value = call.route.query.get(parameter)
        if value is not None:
            if not (value.isascii() and value.isprintable()):
                raise S3Error(
                    ErrorCode.INVALID_ARGUMENT, f"{parameter} must be printable ASCII characters"
                )
            headers[name] = value
    return headers


def _header_text(value: str) -> str:
    """Return a text that the API may have set to anything; empty if it cannot be a header."""
    return value if value.isascii() and value.isprintable() else ""
