"""Content types that browsers may display; all other objects are downloaded."""

import re
from typing import Final

ATTACHMENT: Final = "attachment"

_SHOWN: Final = frozenset(
    {
        "application/json",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/plain",
        "video/mp4",
    }
)
"""Types without scripts: HTML, SVG, other XML and PDF must never be listed here."""

_PLAIN_TYPE: Final = re.compile(r"([a-z]+/[a-z]+[0-9]?)( *; *charset=[a-z0-9-]+)?", re.IGNORECASE)
"""A type that browsers parse unambiguously; after a comma they would take a second type."""


def safe_disposition(content_type: str, wanted: str | None) -> str | None:
    """Return the ``Content-Disposition`` header of an object's bytes, or None if none is needed.

    Parameters of the `wanted` disposition, stored or requested, are preserved.
    """
    kind, semicolon, parameters = (wanted or "").partition(";")
    if kind.strip().lower() == ATTACHMENT:
        return wanted
    plain = _PLAIN_TYPE.fullmatch(content_type)
    if plain is not None and plain.group(1).lower() in _SHOWN:
        return wanted
    return f"{ATTACHMENT}{semicolon}{parameters}"
