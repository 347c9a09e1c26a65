"""Wildcards: ``*`` stands for any characters, also none, and ``?`` for exactly one.

A pattern becomes a regular expression in which every piece between two stars is found at the first
place that fits, for good (an atomic group): where the first place does not lead to a match, no
later one does. So nothing is tried twice, and the worst that a pattern can cost is the product of
its length and that of the text.
"""

import re
from collections.abc import Callable
from typing import Final

Matcher = Callable[[str], object]
"""Its result is true if a text matches."""

USER_VARIABLE: Final = "${user}"
"""Stands for the name of the user who asks."""

_PART: Final = re.compile(r"\$\{user\}|.", re.DOTALL)


def compile_pattern(pattern: str, *, user: str = USER_VARIABLE) -> Matcher:
    """Return what tells whether a text, as a whole, matches a pattern.

    The name of the user is taken literally: a star in it is a star.
    """
    if pattern == "*":
        return _anything
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


def _anything(_text: str) -> bool:
    return True
