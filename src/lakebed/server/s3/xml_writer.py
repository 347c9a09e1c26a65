"""Writing the XML of answers: elements from texts, escaped by construction."""

import re
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote
from xml.sax.saxutils import escape

NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
"""What every answer but an error belongs to."""

_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'

_NOT_PLAIN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML 1.0 has no plain form for, or that a parser would change."""


class Markup(str):
    """Text that is XML already; any other text is escaped where it enters an element."""

    __slots__ = ()


def element(name: str, *content: str | int) -> Markup:
    """Return an element with texts, numbers and elements inside."""
    inside = "".join(part if isinstance(part, Markup) else escaped(str(part)) for part in content)
    return Markup(f"<{name}>{inside}</{name}>")


def document(root: str, *content: str | int, namespace: str | None = NAMESPACE) -> bytes:
    """Return a whole document, in UTF-8."""
    inside = element(root, *content)
    if namespace is not None:
        inside = Markup(inside.replace(f"<{root}>", f'<{root} xmlns="{namespace}">', 1))
    return (_DECLARATION + inside).encode()


def boolean(value: bool) -> str:
    """Return a truth value as XML spells it."""
    return "true" if value else "false"


def timestamp(time: datetime) -> str:
    """Return a time as answers spell it: in UTC, to the millisecond."""
    in_utc = time.astimezone(UTC).replace(tzinfo=None)
    return f"{in_utc.isoformat(timespec='milliseconds')}Z"


def owner(user_id: str) -> Markup:
    """Return the element that tells whose something is."""
    return element("Owner", element("ID", user_id), element("DisplayName", user_id))


def url_encoded(text: str) -> str:
    """Return a key as clients want it that ask for ``encoding-type=url``."""
    return quote(text, safe="/-_.~*")


def escaped(text: str) -> str:
    """Return a text as it stands inside an element."""
    return _NOT_PLAIN.sub(_reference, escape(text))


def _reference(found: re.Match[str]) -> str:
    """A character by its number, as S3 writes it.

    XML 1.0 forbids even that for control characters: a strict parser then fails loudly, which is
    better than another key than the one asked for. Clients avoid it by ``encoding-type=url``.
    """
    character = found.group()
    if "\ud800" <= character <= "\udfff":  # half a character has no number that stands for it
        return "\N{REPLACEMENT CHARACTER}"
    return f"&#{ord(character)};"
