"""GetObject and HeadObject."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from lakebed.auth import Action
from lakebed.base.content_types import DEFAULT_CONTENT_TYPE
from lakebed.block.ranges import Between, ByteRange
from lakebed.lake.entry_metadata import PartRange, checksum_of, headers_of, parts_of, tags_of
from lakebed.lake.errors import InvalidRef, RangeNotSatisfiable, RefNotFound
from lakebed.lake.model import ObjectStats
from lakebed.lake.versions import reading_version
from lakebed.server.http.conditions import (
    Selection,
    etag,
    header_text,
    http_date,
    no_bytes_headers,
    requested_range,
    select_bytes,
)
from lakebed.server.http.dispositions import safe_disposition
from lakebed.server.s3.checksum_fields import object_headers
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.metadata import metadata_headers
from lakebed.server.s3.operations.upload_part import part_number
from lakebed.server.s3.read_conditions import ConditionResult, evaluate, is_unchanged
from lakebed.server.s3.request import (
    VERSION_ID,
    S3Reply,
    S3Request,
    ref_path_of,
    version_headers,
)

AT_ONCE_BYTES_MAX: Final = 1 << 16
"""Smaller answers are sent as one piece, which costs the server less."""

_OVERRIDES: Final = {
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-content-type": "Content-Type",
    "response-expires": "Expires",
}
"""Parameters that set response headers, for links in pages."""

_MD5_OF_PARTS: Final = re.compile("[0-9a-f]{32}-[0-9]{1,5}")
"""The ETag of a multipart upload."""

_REDIRECTION: Final = "s3RedirectionSupport"
"""Clients with this in their User-Agent follow redirections to the storage."""


def handle(request: S3Request) -> S3Reply:
    """Handle GetObject."""
    stats = find(request)
    reply, selection = _head(request, stats)
    headers = _for_browsers(reply.headers)
    if selection is None:
        return S3Reply(reply.status, headers)
    if _is_redirected(request):
        return _redirect(request, stats)
    stream = request.services.catalog.objects.read(stats, byte_range=selection.byte_range)
    if selection.length > AT_ONCE_BYTES_MAX:
        return S3Reply(reply.status, headers, stream)
    with stream:
        return S3Reply(reply.status, headers, b"".join(stream))


def _is_redirected(request: S3Request) -> bool:
    """Whether the client fetches the object from the storage itself.

    Only clients that declare support can. The server answers requests that the storage cannot: with
    headers set by the query, or for parts.
    """
    query = request.route.query
    return (
        _REDIRECTION in (request.header("User-Agent") or "")
        and request.services.catalog.presigning.by_storage
        and "partNumber" not in query
        and not query.keys() & _OVERRIDES.keys()
    )


def _redirect(request: S3Request, stats: ObjectStats) -> S3Reply:
    """Redirect to the storage, with a temporary URL for this object."""
    objects = request.services.catalog.objects
    objects.check_bytes(stats)
    location = {"Location": objects.presign(stats).url, "Cache-Control": "no-store"}
    return S3Reply(HTTPStatus.TEMPORARY_REDIRECT, location)


def _for_browsers(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers of an answer with bytes: browsers must download unsafe types."""
    name = "Content-Disposition"
    disposition = safe_disposition(headers["Content-Type"], headers.get(name))
    return headers if disposition is None else {**headers, name: disposition}


def handle_head(request: S3Request) -> S3Reply:
    """Handle HeadObject."""
    return _head(request, find(request))[0]


def find(request: S3Request) -> ObjectStats:
    """Return the requested object to a reader; raises as `find_for`."""
    return find_for(request, Action.READ_OBJECT)


def find_for(request: S3Request, action: Action) -> ObjectStats:
    """Return the requested object.

    Raises:
        Denied: The user lacks the permission for the action.
        S3Error: `NO_SUCH_KEY`: the key has no path, or its ref does not exist.
        RepositoryNotFound, EntryNotFound: The repository or object does not exist.
        InvalidVersion, VersionNotFound: The version does not exist.
    """
    ref, path = ref_path_of(request.route.key)
    request.authorize_object(action, path)
    if not path:
        request.services.catalog.repositories.get(request.repository)
        raise S3Error(
            ErrorCode.NO_SUCH_KEY,
            f'the key "{request.route.key}" must be <ref>/<path of an object>',
        )
    try:
        with reading_version(ref, request.version_id) as place:
            return request.services.catalog.objects.stat(request.repository, place, path)
    except (RefNotFound, InvalidRef) as error:
        # The bucket exists; a part of the key does not.
        raise S3Error(ErrorCode.NO_SUCH_KEY, str(error)) from error


def _head(request: S3Request, stats: ObjectStats) -> tuple[S3Reply, Selection | None]:
    """Return the answer without its bytes, and the bytes to send; None: not modified."""
    verdict = evaluate(stats, request.header)
    if verdict is ConditionResult.FAILED:
        raise S3Error(ErrorCode.PRECONDITION_FAILED)
    headers = _headers(request, stats)
    if verdict is ConditionResult.NOT_MODIFIED:
        request.services.catalog.objects.check_bytes(stats)
        return S3Reply(HTTPStatus.NOT_MODIFIED, headers), None
    if "partNumber" in request.route.query:
        wanted = _part(request, stats, headers)
    else:
        wanted = _range(request, stats)
    try:
        selection = select_bytes(wanted, stats.size)
    except RangeNotSatisfiable as error:
        size = no_bytes_headers(stats.size)
        raise S3Error(ErrorCode.INVALID_RANGE, str(error), headers=size) from error
    headers |= {"Content-Length": str(selection.length), **selection.headers}
    if wanted is None and request.header("x-amz-checksum-mode") == "ENABLED":
        headers |= object_headers(checksum_of(stats.reserved))
    return S3Reply(selection.status, headers), selection


def _range(request: S3Request, stats: ObjectStats) -> ByteRange | None:
    """Return the byte range of the headers, or None for all bytes."""
    only_if = request.header("If-Range")
    if only_if is not None and not is_unchanged(stats, only_if):
        return None
    return requested_range(request.header("Range"))


def _part(request: S3Request, stats: ObjectStats, headers: dict[str, str]) -> ByteRange | None:
    """Return the bytes of the requested part; add the number of parts to the headers."""
    if request.header("Range") is not None:
        raise S3Error(
            ErrorCode.INVALID_REQUEST,
            "Range and partNumber are mutually exclusive: send one of them",
        )
    number = part_number(request)
    if not number:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, "partNumber must be 1 or more")
    parts = parts_of(stats.reserved, stats.size)
    if parts is not None:
        headers["x-amz-mp-parts-count"] = str(len(parts))
    elif _MD5_OF_PARTS.fullmatch(stats.checksum):
        raise S3Error(
            ErrorCode.NOT_IMPLEMENTED,
            "the part sizes of this object are unknown; request a Range",
        )
    else:
        parts = [PartRange(0, stats.size)]
    if number > len(parts):
        raise S3Error(
            ErrorCode.INVALID_PART_NUMBER, f"the object has {len(parts)} parts, not {number}"
        )
    part = parts[number - 1]
    return Between(part.offset, part.offset + part.size) if part.size else None


def _headers(request: S3Request, stats: ObjectStats) -> dict[str, str]:
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Type": header_text(stats.content_type) or DEFAULT_CONTENT_TYPE,
        "ETag": etag(header_text(stats.checksum)),
        "Last-Modified": http_date(stats.mtime),
        **headers_of(stats.reserved),
        **metadata_headers(stats.metadata),
        **request.encryption_headers(stats),
        **version_headers(VERSION_ID, request.version_id),
    }
    if tags := tags_of(stats.reserved):
        headers["x-amz-tagging-count"] = str(len(tags))
    for parameter, name in _OVERRIDES.items():
        value = request.route.query.get(parameter)
        if value is not None:
            if not (value.isascii() and value.isprintable()):
                raise S3Error(
                    ErrorCode.INVALID_ARGUMENT, f"{parameter} must be printable ASCII characters"
                )
            headers[name] = value
    return headers
