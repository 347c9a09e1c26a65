"""Valid names of users, groups and policies.

A name is part of a key of the store, of a resource name and of a URL, so characters with a meaning
in these are forbidden. A name has 1 to 255 bytes of UTF-8, without control characters, without
``/`` (resource names, URLs), ``* ?`` (wildcards), ``$ { }`` (variables), quotes, backslash and
brackets (JSON lists), and without leading or trailing space; ``.`` and ``..`` are not names. Mail
addresses and names of people are valid.
"""

import unicodedata
from typing import Final

from lakebed.auth.errors import InvalidName

_BYTES_MAX: Final = 255
_FORBIDDEN: Final = frozenset('/*?${}"\\[]')


def is_name(name: str) -> bool:
    """Return whether a user, group or policy can have this name."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _BYTES_MAX
        and name.strip() == name
        and name not in {".", ".."}
        and _FORBIDDEN.isdisjoint(name)
        # Control characters, surrogates, unassigned code points.
        and not any(unicodedata.category(character).startswith("C") for character in name)
    )


def check_name(noun: str, name: str) -> str:
    """Return a name if valid for a user, group or policy."""
    if not is_name(name):
        raise InvalidName(
            f"invalid {noun} name {name!r}: use 1 to {_BYTES_MAX} bytes without control characters,"
            ' / * ? $ { } [ ] " \\, and leading or trailing space'
        )
    return name
