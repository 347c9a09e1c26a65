"""Writer of XML answers: text is escaped unless it is `Markup`."""

import re
from datetime import UTC, datetime
from string import ascii_letters, digits
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.server.http.text_columns import Escaping, all_but, rows_of

XML_TYPE: Final = "application/xml"
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
"""The namespace of all answers except errors."""

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'

_NOT_PLAIN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 forbids, or that parsers change."""


class Markup(str):
    """Text that is XML already; other text is escaped inside an element."""

    __slots__ = ()


def element(name: str, *content: str | int) -> Markup:
    """Return an element that contains texts, numbers and elements."""
    inside = "".join(part if isinstance(part, Markup) else escaped(str(part)) for part in content)
    return Markup(f"<{name}>{inside}</{name}>")


def document(root: str, *content: str | int, namespace: str | None = NAMESPACE) -> bytes:
    """Return a complete document, in UTF-8."""
    inside = element(root, *content)
    if namespace is not None:
        inside = Markup(inside.replace(f"<{root}>", f'<{root} xmlns="{namespace}">', 1))
    return (_DECLARATION + inside).encode()


def boolean(value: bool) -> str:
    """Return a truth value as XML spells it."""
    return "true" if value else "false"


def timestamp(time: datetime) -> str:
    """Return a time in S3's format: in UTC, to the millisecond."""
    in_utc = time.astimezone(UTC).replace(tzinfo=None)
    return f"{in_utc.isoformat(timespec='milliseconds')}Z"


def owner(user_id: str) -> Markup:
    """Return the element of an owner."""
    return element("Owner", element("ID", user_id), element("DisplayName", user_id))


def url_encoded(text: str) -> str:
    """Return a key for ``encoding-type=url``."""
    return quote(text, safe="/-_.~*")


def escaped(text: str) -> str:
    """Return a text escaped for an element."""
    return _NOT_PLAIN.sub(_reference, escape(text))


def _reference(found: re.Match[str]) -> str:
    """Return a character as a numeric reference, as S3 does.

    XML 1.0 forbids even this for control characters. A strict parser then fails, which is better
    than to show a different key. Clients avoid the failure by ``encoding-type=url``.
    """
    character = found.group()
    if "\ud800" <= character <= "\udfff":  # half of a surrogate pair cannot be written
        return "\N{REPLACEMENT CHARACTER}"
    return f"&#{ord(character)};"


# Whole columns, with the functions above for each value

url_encoded_column: Final = Escaping(
    url_encoded, plain=b"/-_.~*" + (ascii_letters + digits).encode()
)
"""A column of keys, each as by `url_encoded`."""

escaped_column: Final = Escaping(
    escaped,
    # Excludes the first bytes of U+0080 to U+009F, U+FFFE and U+FFFF.
    plain=all_but(bytes(range(32)) + b"\x7f&<>\xc2\xef"),
)
"""A column of texts, each as by `escaped`."""


def timestamp_column(times: pa.Array) -> pa.Array:
    """Return a column of times, each as by `timestamp`."""
    if len(times) and times.view(pa.int64()).to_numpy().min() < 0:
        return pa.array([timestamp(time) for time in times.to_pylist()], pa.string())
    texts = times.cast(pa.timestamp("ms"), safe=False).cast(pa.string())
    place = len("2000-01-01")
    return rows_of(pc.binary_replace_slice(texts, place, place + 1, "T"), "Z")
