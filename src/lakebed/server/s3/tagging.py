"""Tags of objects, in the header ``x-amz-tagging`` and in XML, with the limits of S3."""

from collections.abc import Iterable
from typing import Final
from unicodedata import category
from urllib.parse import urlencode

from lakebed.server.s3.environ import query_parameters
from lakebed.server.s3.errors import ErrorCode, S3Error
from lakebed.server.s3.request import S3Request
from lakebed.server.s3.xml_reader import XML_BYTES_MAX, read_tags

HEADER: Final = "x-amz-tagging"
_TAGS_MAX: Final = 10
_KEY_LENGTH_MAX: Final = 128
_VALUE_LENGTH_MAX: Final = 256
_SYSTEM_PREFIX: Final = "aws:"
_PUNCTUATION: Final = frozenset("+-=._:/@")
_CATEGORIES: Final = frozenset("LNZ")
"""Letters, numbers and spaces."""


def requested_tags(request: S3Request) -> dict[str, str]:
    """Return the tags in the header of a request.

    Raises:
        S3Error: `INVALID_ARGUMENT`: the header is malformed; or an invalid tag.
    """
    header = request.header(HEADER) or ""
    try:
        tags = [(name.decode(), value.decode()) for name, value in query_parameters(header)]
    except UnicodeDecodeError:
        raise S3Error(ErrorCode.INVALID_ARGUMENT, f"{HEADER} must be UTF-8") from None
    return _checked(tags)


def tags_in(body: bytes) -> dict[str, str]:
    """Return the tags in an XML document; raises `S3Error`."""
    return _checked(read_tags(body))


def sent_tags(request: S3Request) -> dict[str, str]:
    """Return the tags in the body of a request; raises `S3Error`."""
    return tags_in(request.body().read(XML_BYTES_MAX))


def as_header(body: str) -> str:
    """Return the tags in an XML document as a header; raises `S3Error`."""
    return urlencode(tags_in(body.encode()))


def _checked(tags: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in tags:
        if key in found:
            raise S3Error(ErrorCode.INVALID_TAG, f'the tag "{key[:50]}" is given twice')
        if not 1 <= len(key) <= _KEY_LENGTH_MAX or not _is_plain(key):
            raise _invalid("key", key, f"1 to {_KEY_LENGTH_MAX}")
        if len(value) > _VALUE_LENGTH_MAX or not _is_plain(value):
            raise _invalid("value", value, f"at most {_VALUE_LENGTH_MAX}")
        if key.startswith(_SYSTEM_PREFIX):
            raise S3Error(
                ErrorCode.INVALID_TAG, f'the key of a tag must not begin with aws:; "{key}" does'
            )
        found[key] = value
    if len(found) > _TAGS_MAX:
        raise S3Error(
            ErrorCode.TOO_MANY_TAGS,
            f"the request has {len(found)} tags; at most {_TAGS_MAX} are allowed",
        )
    return found


def _is_plain(text: str) -> bool:
    return all(each in _PUNCTUATION or category(each)[0] in _CATEGORIES for each in text)


def _invalid(what: str, text: str, length: str) -> S3Error:
    return S3Error(
        ErrorCode.INVALID_TAG,
        f"the {what} of a tag must have {length} letters, numbers, spaces or + - = . _ : / @,"
        f' not "{text[:50]}"',
    )
