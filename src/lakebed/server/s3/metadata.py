"""The metadata of objects, between headers and entries: the user's own, and headers of HTTP.

A header ``x-amz-meta-<name>`` is kept as ``X-Amz-Meta-<name>``, the name in lower case, as clients
of the REST API know it. Metadata that came by the REST API has plain names; it is shown too.

Headers carry bytes, metadata are texts. What is not ASCII comes back as an encoded word (RFC 2047),
as S3 sends it; what has no form as a header is counted in ``x-amz-missing-meta``.

Headers like ``Content-Encoding`` come with the object and go with it; see
`lakebed.catalog.entry_metadata`.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final

from lakebed.catalog.entry_metadata import HEADERS, for_headers
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Request

METADATA_BYTES_MAX: Final = 2048
_HEADER_PREFIX: Final = "x-amz-meta-"
_KEPT_PREFIX: Final = "X-Amz-Meta-"
_CHUNKED: Final = "aws-chunked"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def metadata_of(call: S3Request) -> dict[str, str]:
    """Return the metadata that a request brings along: the user's, and headers that are kept.

    Raises:
        S3Error: `METADATA_TOO_LARGE`.
    """
    return _user_metadata(call) | for_headers(_kept_headers(call))


def _user_metadata(call: S3Request) -> dict[str, str]:
    found = {name: _text(value) for name, value in call.headers(_HEADER_PREFIX)}
    size = sum(len(name) + len(value.encode()) for name, value in found.items())
    if size > METADATA_BYTES_MAX:
        raise S3Error(ErrorCode.METADATA_TOO_LARGE)
    return {_KEPT_PREFIX + name: value for name, value in found.items()}


def _kept_headers(call: S3Request) -> dict[str, str]:
    found = {name: _text(value) for name in HEADERS if (value := call.header(name))}
    encoding = found.pop("Content-Encoding", "")
    # How the body came over the wire is not how the object is encoded.
    codings = [coding.strip() for coding in encoding.split(",")]
    if left := ",".join(coding for coding in codings if coding not in {"", _CHUNKED}):
        found["Content-Encoding"] = left
    if sum(len(value.encode()) for value in found.values()) > METADATA_BYTES_MAX:
        raise S3Error(ErrorCode.METADATA_TOO_LARGE)
    return found


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that tell of an object's metadata."""
    headers: dict[str, str] = {}
    missing = 0
    # Names that came by this door come last, and so win over plain ones.
    for name, value in sorted(metadata.items(), key=lambda item: item[0].startswith(_KEPT_PREFIX)):
        plain = name.removeprefix(_KEPT_PREFIX)
        if _NAME.fullmatch(plain):
            headers[_HEADER_PREFIX + plain.lower()] = _header(value)
        elif "::" not in name:  # what is internal is not the user's
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def _text(value: str) -> str:
    """The text of a header: UTF-8 if it is that, else Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _header(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    return f"=?UTF-8?B?{b64encode(value.encode()).decode()}?="
