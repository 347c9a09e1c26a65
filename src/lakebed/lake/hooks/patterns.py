r"""Branch patterns.

Syntax of Go's ``path.Match``: ``*`` matches any characters except ``/``, ``?`` one of them,
``[a-z]`` and ``[^a-z]`` one character of a set (including ``/``), and ``\`` escapes the next
character. The pattern must match the whole branch name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PATTERN_LENGTH_MAX: Final = 1000


class InvalidPattern(ValueError):
    """A branch pattern that is unterminated, or has an empty or incomplete set."""


@dataclass(frozen=True, slots=True)
class _Star:
    """A run of characters except ``/``."""


@dataclass(frozen=True, slots=True)
class _AnyOne:
    """One character except ``/``."""

    def matches(self, character: str) -> bool:
        return character != "/"


@dataclass(frozen=True, slots=True)
class _OneOf:
    """One character inside or outside of a set."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def matches(self, character: str) -> bool:
        return any(low <= character <= high for low, high in self.ranges) != self.negated


_One = _AnyOne | _OneOf


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern; raise `InvalidPattern` if the pattern is invalid.

    Takes time proportional to the product of their lengths at most: after a star, the first match
    of the next piece is as good as any later one, so no backtracking is needed.
    """
    first, *rest = _pieces(pattern)
    if not _fits(first, name, 0):
        return False
    position = len(first)
    if not rest:
        return position == len(name)
    *middle, last = rest
    for piece in middle:
        while not _fits(piece, name, position):
            if position >= len(name) or name[position] == "/":
                return False
            position += 1
        position += len(piece)
    end = len(name) - len(last)
    return end >= position and "/" not in name[position:end] and _fits(last, name, end)


def check_pattern(pattern: str) -> None:
    """Raise `InvalidPattern` if a pattern is invalid."""
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise InvalidPattern(f"the pattern has more than {PATTERN_LENGTH_MAX} characters")
    _pieces(pattern)


def _fits(piece: list[_One], name: str, position: int) -> bool:
    return position + len(piece) <= len(name) and all(
        one.matches(name[position + offset]) for offset, one in enumerate(piece)
    )


def _pieces(pattern: str) -> list[list[_One]]:
    """Return the pieces of a pattern between its stars."""
    pieces: list[list[_One]] = [[]]
    for token in _tokens(pattern):
        if isinstance(token, _Star):
            pieces.append([])
        else:
            pieces[-1].append(token)
    return pieces


def _tokens(pattern: str) -> Iterator[_Star | _One]:
    position = 0
    while position < len(pattern):
        match pattern[position]:
            case "*":
                yield _Star()
                position += 1
            case "?":
                yield _AnyOne()
                position += 1
            case "[":
                one_of, position = _read_set(pattern, position + 1)
                yield one_of
            case _:
                character, position = _read_character(pattern, position)
                yield _OneOf(((character, character),))


def _read_set(pattern: str, position: int) -> tuple[_OneOf, int]:
    negated = pattern[position : position + 1] == "^"
    position += negated
    ranges: list[tuple[str, str]] = []
    while pattern[position : position + 1] != "]" or not ranges:
        low, position = _read_set_character(pattern, position)
        high = low
        if pattern[position : position + 1] == "-":
            high, position = _read_set_character(pattern, position + 1)
        ranges.append((low, high))
    return _OneOf(tuple(ranges), negated), position + 1


def _read_set_character(pattern: str, position: int) -> tuple[str, int]:
    if pattern[position : position + 1] in {"", "-", "]"}:
        raise InvalidPattern(
            f"{pattern!r} is not a valid pattern: a set in [ ] is empty or unterminated"
        )
    return _read_character(pattern, position)


def _read_character(pattern: str, position: int) -> tuple[str, int]:
    position += pattern[position] == "\\"
    if position == len(pattern):
        raise InvalidPattern(f"{pattern!r} is not a valid pattern: it ends in a \\")
    return pattern[position], position + 1
