"""Conversion between S3 headers and the metadata of an object.

A header ``x-amz-meta-<name>`` is stored as ``X-Amz-Meta-<name>``, the name in lower case, and shown
so by the REST API. Metadata set by the REST API has plain names; S3 clients see them too.

Headers carry bytes, metadata is text. Clients send text that is not ASCII as UTF-8 or as encoded
words (RFC 2047). Lakebed stores plain text, and sends encoded words in the spelling of lakeFS.
Values that cannot be sent as headers are only counted, in ``x-amz-missing-meta``.

Headers like ``Content-Encoding`` are stored with the object and sent with it; see
`lakebed.lake.entry_metadata`.
"""

import re
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
_CHARSETS: Final = {"utf-8": "utf-8", "iso-8859-1": "latin-1", "us-ascii": "ascii", None: "ascii"}
"""Character sets of encoded words; None: of the text between two words."""
_Q_ENCODED: Final = {
    **{byte: f"={byte:02X}" for byte in range(256) if byte not in range(0x21, 0x7F)},
    **{byte: f"={byte:02X}" for byte in b"=?_"},
    ord(" "): "_",
}
"""The spelling of bytes in an encoded word, if not literal."""
_WORD_TEXT_MAX: Final = 75 - len("=?utf-8?q??=")
"""RFC 2047 limits an encoded word to 75 characters."""
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def metadata_of(request: S3Request) -> dict[str, str]:
    """Return the metadata of a request: user metadata, and stored headers."""
    return _user_metadata(request) | for_headers(_kept_headers(request))


def _user_metadata(request: S3Request) -> dict[str, str]:
    sent = request.headers(_HEADER_PREFIX)
    found = {name: _without_encoded_words(_text(value)) for name, value in sent}
    _check_size(sum(len(name) + len(value.encode()) for name, value in found.items()))
    return {_KEPT_PREFIX + name: value for name, value in found.items()}


def _kept_headers(request: S3Request) -> dict[str, str]:
    found = {name: _text(value) for name in HEADERS if (value := request.header(name))}
    encoding = found.pop("Content-Encoding", "")
    # aws-chunked is the transfer encoding of the body, not the encoding of the object.
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
    """Return the headers with an object's metadata.

    Excess metadata is only counted: objects may be older than the limit.
    """
    headers: dict[str, str] = {}
    missing, available = 0, METADATA_BYTES_MAX
    # Names set by S3 clients come last, and so override plain names.
    for name, value in sorted(metadata.items(), key=lambda item: item[0].startswith(_KEPT_PREFIX)):
        plain = name.removeprefix(_KEPT_PREFIX)
        available -= len(plain) + len(value.encode())
        if _NAME.fullmatch(plain) and available >= 0 and len(headers) < METADATA_NAMES_MAX:
            headers[_HEADER_PREFIX + plain.lower()] = _header(value)
        elif "::" not in name:  # names with :: are internal, not the user's
            missing += 1
    if missing:
        headers["x-amz-missing-meta"] = str(missing)
    return headers


def _text(value: str) -> str:
    """Return the text of a header, decoded as UTF-8 or else as Latin-1."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value


def _without_encoded_words(value: str) -> str:
    """Return a text with its encoded words decoded, or unchanged if they are invalid."""
    if _WORD not in value or not value.isascii():
        return value
    try:
        return "".join(map(_decoded, decode_header(value)))
    except (HeaderParseError, UnicodeDecodeError, KeyError):
        return value


def _decoded(piece: tuple[bytes | str, str | None]) -> str:
    """Return the text of an encoded word, or of the text between two."""
    text, charset = piece
    if isinstance(text, str):
        return text
    return text.decode(_CHARSETS[charset])


def _header(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    words = [""]
    for character in value:
        encoded = "".join(_Q_ENCODED.get(byte, chr(byte)) for byte in character.encode())
        if len(words[-1]) + len(encoded) > _WORD_TEXT_MAX:
            words.append("")
        words[-1] += encoded
    return " ".join(f"=?utf-8?q?{word}?=" for word in words)
