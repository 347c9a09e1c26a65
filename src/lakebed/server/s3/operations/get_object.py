"""GetObject and HeadObject."""

from email.utils import format_datetime
from http import HTTPStatus
from typing import Final

from lakebed.auth import Action
from lakebed.block import ByteRange
from lakebed.block.ranges import resolve
from lakebed.catalog.model import ObjectStats
from lakebed.graveler.errors import EntryNotFound
from lakebed.server.conditions import etag, requested_range
from lakebed.server.s3.call import Call, Reply
from lakebed.server.s3.conditions import Verdict, judge
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.metadata import metadata_headers

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
    stats = _find(call)
    reply, wanted = _head(call, stats)
    if reply.status is HTTPStatus.NOT_MODIFIED:
        return reply
    stream = call.services.catalog.objects.read(stats, byte_range=wanted)
    return Reply(reply.status, reply.headers, stream)


def handle_head(call: Call) -> Reply:
    """Answer a HeadObject."""
    return _head(call, _find(call))[0]


def _find(call: Call) -> ObjectStats:
    ref, path = call.place
    call.authorize_object(Action.READ_OBJECT, path)
    if not path:
        raise EntryNotFound(path)
    stats = call.services.catalog.objects.stat(call.repository, ref, path)
    if "partNumber" in call.route.query and "-" in stats.checksum:
        raise S3Error(ErrorCode.NOT_IMPLEMENTED, "parts of finished objects cannot be told apart")
    return stats


def _head(call: Call, stats: ObjectStats) -> tuple[Reply, ByteRange | None]:
    """Return all of an answer but the bytes, and which bytes they are."""
    verdict = judge(stats, call.header)
    if verdict is Verdict.FAILED:
        raise S3Error(ErrorCode.PRECONDITION_FAILED)
    headers = _headers(call, stats)
    if verdict is Verdict.NOT_MODIFIED:
        return Reply(HTTPStatus.NOT_MODIFIED, headers), None
    wanted = requested_range(call.header("Range"))
    offset, length = resolve(wanted, stats.size)
    headers["Content-Length"] = str(length)
    if wanted is None:
        return Reply(HTTPStatus.OK, headers), None
    headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{stats.size}"
    return Reply(HTTPStatus.PARTIAL_CONTENT, headers), wanted


def _headers(call: Call, stats: ObjectStats) -> dict[str, str]:
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Type": stats.content_type,
        "ETag": etag(stats.checksum),
        "Last-Modified": format_datetime(stats.mtime, usegmt=True),
        **metadata_headers(stats.metadata),
    }
    for parameter, name in _OVERRIDES.items():
        value = call.route.query.get(parameter)
        if value is not None:
            headers[name] = _header_value(parameter, value)
    return headers


def _header_value(parameter: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f"{parameter} cannot be a header")
    return value
