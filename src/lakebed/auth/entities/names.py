"""Which names users, groups, policies and access keys may have.

A name is part of a key of the store, of a resource name and of a URL, so it must not hold
characters with a meaning there. It has 1 to 255 bytes of UTF-8, without control characters, without
``/`` (resource names, URLs), ``* ?`` (wildcards), ``$ { }`` (variables), quotes, backslash and
brackets (JSON lists), and without space at either end; it is not ``.`` or ``..``. Mail addresses
and names of people are fine.
"""

import unicodedata
from typing import Final

from lakebed.auth.errors import InvalidName

_BYTES_MAX: Final = 255
_FORBIDDEN: Final = frozenset('/*?${}"\\[]')


def is_name(name: str) -> bool:
    """Whether a user, group or policy can have this name."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _BYTES_MAX
        and name.strip() == name
        and name not in {".", ".."}
        and _FORBIDDEN.isdisjoint(name)
        # Control characters, surrogates, unassigned code points.
        and not any(unicodedata.category(character).startswith("C") for character in name)
    )


def check_name(noun: str, name: str) -> str:
    """Return a name if a user, group or policy can have it.

    Raises:
        InvalidName: It cannot be such a name.
    """
    if not is_name(name):
        raise InvalidName(
            f"{name!r} cannot be the name of a {noun}: use 1 to {_BYTES_MAX} bytes without control"
            ' characters and / * ? $ { } [ ] " \\, and without space at either end'
        )
    return name
