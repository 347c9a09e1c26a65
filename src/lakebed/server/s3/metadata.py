"""From headers to the metadata of an object, and back.

A header ``x-amz-meta-<name>`` is kept as ``X-Amz-Meta-<name>``, the name in lower case: under this
name clients of the REST API see it. Metadata that was set by the REST API has plain names; S3
clients see it too.

Headers carry bytes, metadata holds text. A client sends a text that is not ASCII as UTF-8 or as
encoded words (RFC 2047); it is kept as plain text, and sent as an encoded word, as S3 does. What
cannot be a header is only counted, in ``x-amz-missing-meta``.

Headers like ``Content-Encoding`` are kept with the object and sent with it; see
`lakebed.lake.entry_metadata`.
"""

import re
from base64 import b64encode
from collections.abc import Mapping
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Final

from lakebed.lake.entry_metadata import HEADERS, for_headers
from lakebed.lake.model import METADATA_BYTES_MAX, METADATA_NAMES_MAX
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Request

BYTES_MAX: Final = 2048
"""As with S3."""
_HEADER_PREFIX: Final = "x-amz-meta-"
_KEPT_PREFIX: Final = "X-Amz-Meta-"
_CHUNKED: Final = "aws-chunked"
_WORD: Final = "=?"
"""How an encoded word begins."""
_CHARSETS: Final = {"utf-8": "utf-8", "iso-8859-1": "latin-1", "us-ascii": "ascii", None: "ascii"}
"""Of encoded words that clients send; None: of what stands between two words."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def metadata_of(request: S3Request) -> dict[str, str]:
    """Return the metadata that comes with a request: the user's own, and headers that are kept.

    Raises:
        S3Error: `METADATA_TOO_LARGE`.
    """
    return _user_metadata(request) | for_headers(_kept_headers(request))


def _user_metadata(request: S3Request) -> dict[str, str]:
    sent = request.headers(_HEADER_PREFIX)
    found = {name: _without_encoded_words(_text(value)) for name, value in sent}
    _check_size(sum(len(name) + len(value.encode()) for name, value in found.items()))
    return {_KEPT_PREFIX + name: value for name, value in found.items()}


def _kept_headers(request: S3Request) -> dict[str, str]:
    found = {name: _text(value) for name in HEADERS if (value := request.header(name))}
    encoding = found.pop("Content-Encoding", "")
    # aws-chunked is how the body was sent, not how the object is encoded.
    codings = [coding.strip() for coding in encoding.split(",")]
    if left := ",".join(coding for coding in codings if coding not in {"", _CHUNKED}):
        found["Content-Encoding"] = left
    _check_size(sum(len(value.encode()) for value in found.values()))
    return found


def _check_size(size: int) -> None:
    if size > BYTES_MAX:
        raise S3Error(
            ErrorCode.METADATA_TOO_LARGE,
            f"the metadata has {size} bytes; at most {BYTES_MAX} are allowed",
        )


def metadata_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that show an object's metadata.

    What does not fit is only counted: objects may be older than the bound on metadata.
    """
    headers: dict[str, str] = {}
    missing, room = 0, METADATA_BYTES_MAX
    # Names that S3 clients set come last, and so win over plain ones.
    for name, value in sorted(metadata.items(), key=lambda item: item[0].startswith(_KEPT_PREFIX)):
        plain = name.removeprefix(_KEPT_PREFIX)
        room -= len(plain) + len(value.encode())
        if _NAME.fullmatch(plain) and room >= 0 and len(headers) < METADATA_NAMES_MAX:
            headers[_HEADER_PREFIX + plain.lower()] = _header(value)
        elif "::" not in name:  # names with :: are internal, not the user's
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def _text(value: str) -> str:
    """Return the text of a header: as UTF-8 if it is that, else as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _without_encoded_words(value: str) -> str:
    """Return the text that encoded words stand for; what cannot be decoded stays as it was sent."""
    if _WORD not in value or not value.isascii():
        return value
    try:
        return "".join(map(_decoded, decode_header(value)))
    except (HeaderParseError, UnicodeDecodeError, KeyError):
        return value


def _decoded(piece: tuple[bytes | str, str | None]) -> str:
    """Return the text of an encoded word, or of what stands between two."""
    text, charset = piece
    if isinstance(text, str):
        return text
    return text.decode(_CHARSETS[charset])


def _header(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    return f"=?UTF-8?B?{b64encode(value.encode()).decode()}?="
