"""Wildcards: ``*`` stands for any number of characters, and ``?`` for exactly one.

A pattern becomes a regular expression in which every piece between two stars is an atomic group: it
is found at the first place where it fits, and no other place is tried. If the first place does not
lead to a match, no later one does. So a pattern costs at most the product of its length and the
length of the text.
"""

import re
from collections.abc import Callable
from typing import Final

from lakebed.auth.policy.actions import namespace_arn

Matcher = Callable[[str], object]
"""Its result is true if the text matches."""

USER_VARIABLE: Final = "${user}"
"""Stands for the name of the user who asks."""

_NAMESPACE: Final = namespace_arn("")
_SCHEME: Final = re.compile(r"\A([A-Za-z0-9]+)")
_AZURE_HOST: Final = re.compile(r"\A(https://[^/$]*?)(?::443)?(?=/|\Z)", re.ASCII)
_PART: Final = re.compile(r"\$\{user\}|.", re.DOTALL)


def compile_pattern(pattern: str, *, user: str = USER_VARIABLE) -> Matcher:
    """Return a function that says whether a whole text matches a pattern.

    The name of the user is taken literally: a star in it is not a wildcard.
    """
    if pattern == "*":
        return is_anything
    pieces = [""]
    for part in _PART.findall(pattern):
        if part == "*":
            pieces.append("")
        elif part == "?":
            pieces[-1] += "."
        else:
            pieces[-1] += re.escape(user if part == USER_VARIABLE else part)
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL).fullmatch
    first, *between, last = pieces
    found = "".join(f"(?>.*?{piece})" for piece in between if piece)
    return re.compile(f"{first}{found}.*{last}", re.DOTALL).fullmatch


def compile_resource(pattern: str, *, user: str) -> Matcher:
    """Return a function that says whether a resource matches a pattern of resource names.

    A place in the storage has one spelling in the resources that are asked for. A pattern may spell
    it in another way: its scheme and the host of an Azure account in capital letters, with a port,
    with a slash at its end.
    """
    if not pattern.startswith(_NAMESPACE):
        return compile_pattern(pattern, user=user)
    place = _SCHEME.sub(_lower, pattern.removeprefix(_NAMESPACE))
    matches = compile_pattern(_NAMESPACE + _AZURE_HOST.sub(_lower, place), user=user)
    return lambda resource: matches(resource) or matches(f"{resource}/")


def _lower(found: re.Match[str]) -> str:
    return found[1].lower()


def is_anything(_text: str) -> bool:
    """Match every text."""
    return True
