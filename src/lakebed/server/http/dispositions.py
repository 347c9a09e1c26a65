"""Which objects a browser may show when their link is opened, and which it only saves."""

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
"""Types that hold no script: HTML, SVG, other XML and PDF never belong here."""

_PLAIN_TYPE: Final = re.compile(r"([a-z]+/[a-z]+[0-9]?)( *; *charset=[a-z0-9-]+)?", re.IGNORECASE)
"""A type that browsers read in no other way; a comma would begin a second type, which they take."""


def safe_disposition(content_type: str, wanted: str | None) -> str | None:
    """Return the header ``Content-Disposition`` of an object's bytes; None: there is none.

    Args:
        content_type: The header ``Content-Type`` of the answer.
        wanted: What is stored with the object, or asked for; its parameters are kept.
    """
    kind, semicolon, parameters = (wanted or "").partition(";")
    if kind.strip().lower() == ATTACHMENT:
        return wanted
    plain = _PLAIN_TYPE.fullmatch(content_type)
    if plain is not None and plain.group(1).lower() in _SHOWN:
        return wanted
    return f"{ATTACHMENT}{semicolon}{parameters}"
