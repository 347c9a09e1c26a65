"""HTTP headers of objects: ETag and time, conditional requests, byte ranges."""

import re
import sys
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Final, NamedTuple
from wsgiref.types import WSGIEnvironment

from lakebed.block.ranges import Between, ByteRange, FromOffset, Suffix
from lakebed.block.ranges import resolve as resolve_range
from lakebed.engine.staging.writer import Condition
from lakebed.lake.model import etag_of
from lakebed.lake.repeats import Invocation

_RANGE: Final = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")
# A UUID in nearly all SDKs. Ids that are not random could collide.
_INVOCATION: Final = re.compile(r"[0-9A-Fa-f-]{32,64}")
_BEYOND_EVERY_END: Final = FromOffset(sys.maxsize)
"""The range ``bytes=-0``, which no object satisfies."""
_COPIED_RANGE: Final = re.compile(r"bytes=([0-9]{1,19})-([0-9]{1,19})")


class Selection(NamedTuple):
    """The bytes of an object in an answer."""

    byte_range: ByteRange | None
    """None: all bytes."""
    length: int
    status: HTTPStatus
    headers: dict[str, str]
    """``Content-Range``, if the answer is partial."""


def header_text(value: str) -> str:
    """Return a text stored with an object, or an empty text if unsafe in a header."""
    return value if value.isascii() and value.isprintable() else ""


def etag(checksum: str) -> str:
    """Return the ETag header of an object with a checksum."""
    return f'"{checksum}"'


def http_date(time: datetime) -> str:
    """Return a time as headers show it, to the second."""
    return _http_date(int(time.timestamp()))


@lru_cache(maxsize=1024)
def _http_date(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)


def matches(header: str, checksum: str) -> bool:
    """Whether a list of ETags, or ``*``, names an object with this checksum."""
    etags = [etag.strip().removeprefix("W/").strip('"') for etag in header.split(",")]
    return "*" in etags or checksum in etags


def if_match(etags: str) -> Condition:
    """Return the condition that an object exists with one of these ETags; ``*`` means any."""
    return lambda found: found is not None and matches(etags, etag_of(found))


def write_condition(environ: WSGIEnvironment) -> Condition | None:
    """Return the condition of a write's headers, or None if it is unconditional."""
    conditions: list[Condition] = []
    if "HTTP_IF_MATCH" in environ:
        conditions.append(if_match(environ["HTTP_IF_MATCH"]))
    # Some clients send the header empty instead of not at all.
    if environ.get("HTTP_IF_NONE_MATCH"):
        is_match = if_match(environ["HTTP_IF_NONE_MATCH"])
        conditions.append(lambda found: not is_match(found))
    if not conditions:
        return None
    return lambda found: all(holds(found) for holds in conditions)


def invocation_of(principal: str, environ: WSGIEnvironment) -> Invocation | None:
    """Return the request that an attempt belongs to, by the id that the SDKs of AWS send.

    None if the header is missing or not a random id.
    """
    sent = _INVOCATION.fullmatch(environ.get("HTTP_AMZ_SDK_INVOCATION_ID", ""))
    return Invocation(principal, sent[0]) if sent else None


def requested_range(header: str | None) -> ByteRange | None:
    """Return the single range of a ``Range`` header.

    None for several ranges or a malformed header: the answer is then the whole object.
    """
    found = _RANGE.fullmatch(header.replace(" ", "")) if header else None
    if found is None:
        return None
    first, last = found.groups()
    if first and last:
        begin, end = int(first), int(last) + 1
        return Between(begin, end) if begin < end else None
    if first:
        return FromOffset(int(first))
    if not last:
        return None
    return Suffix(int(last)) if int(last) else _BEYOND_EVERY_END


def copied_range(text: str, size: int) -> Between | None:
    """Return the bytes of an object of `size` bytes to copy into a part.

    None if the range is malformed or, unlike in a read, exceeds the object.
    """
    found = _COPIED_RANGE.fullmatch(text)
    if found is None or not int(found[1]) <= int(found[2]) < size:
        return None
    return Between(int(found[1]), int(found[2]) + 1)


def select_bytes(byte_range: ByteRange | None, size: int) -> Selection:
    """Return the bytes to answer for a range of an object of `size` bytes.

    Raises:
        RangeNotSatisfiable: The object has no byte of the range; see `no_bytes_headers`.
    """
    if byte_range is None:
        return Selection(None, size, HTTPStatus.OK, {})
    offset, length = resolve_range(byte_range, size)
    headers = {"Content-Range": f"bytes {offset}-{offset + length - 1}/{size}"}
    return Selection(byte_range, length, HTTPStatus.PARTIAL_CONTENT, headers)


def no_bytes_headers(size: int) -> dict[str, str]:
    """Return the headers of a 416 for an object of `size` bytes."""
    return {"Content-Range": f"bytes */{size}"}
