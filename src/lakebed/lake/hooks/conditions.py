r"""Which hooks run: branch patterns of actions, and the ``if`` of a hook.

Branch patterns have the syntax of Go's ``path.Match``: ``*`` matches any characters except ``/``,
``?`` one of them, ``[a-z]`` and ``[^a-z]`` one character of a set (including ``/``), and ``\\``
escapes the next character. The pattern must match the whole branch name.

Expressions of ``if`` consist of ``success()`` (no earlier hook of the action failed), ``failure()``
(one failed), ``true``, ``false``, parentheses, and the operators ``!``, ``not``, ``&&``, ``and``,
``||``, ``or``, ``==`` and ``!=``. An empty text means ``success()``.
"""

import re
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


_TEXT_LENGTH_MAX: Final = 200
_TOKEN: Final = re.compile(r"\s*(&&|\|\||==|!=|!|\(|\)|[A-Za-z_]+)")
_WORDS: Final = {"&&": "and", "||": "or", "!": "not"}


class InvalidCondition(ValueError):
    """An ``if`` that is not a valid expression; the message quotes it."""


def evaluate(text: str, *, has_failed: bool) -> bool:
    """Return whether a hook runs, given whether an earlier hook of its action failed.

    Raises `InvalidCondition` if the text is not an expression, which `parse_action` rules out.
    """
    if not text.strip():
        return not has_failed
    return _Reader(text, has_failed=has_failed).read()


class _Reader:
    """Evaluates an expression; operators by rising precedence: ``or``, ``and``, ``==``, ``!``."""

    def __init__(self, text: str, *, has_failed: bool) -> None:
        self._text = text
        self._has_failed = has_failed
        if len(text) > _TEXT_LENGTH_MAX:
            raise self._wrong(f"longer than {_TEXT_LENGTH_MAX} characters")
        self._tokens = list(self._split())

    def read(self) -> bool:
        value = self._any()
        if self._tokens:
            raise self._wrong(f"unexpected {self._tokens[0]!r}")
        return value

    def _split(self) -> list[str]:
        tokens: list[str] = []
        position = 0
        text = self._text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._wrong(f"unexpected {text[position:].strip()[0]!r}")
            tokens.append(_WORDS.get(found[1], found[1]))
            position = found.end()
        return tokens

    def _take(self, *wanted: str) -> str:
        """Take the next token if it is in `wanted`; otherwise return an empty string."""
        return self._tokens.pop(0) if self._tokens and self._tokens[0] in wanted else ""

    def _any(self) -> bool:
        value = self._all()
        while self._take("or"):
            value = self._all() or value
        return value

    def _all(self) -> bool:
        value = self._equal()
        while self._take("and"):
            value = self._equal() and value
        return value

    def _equal(self) -> bool:
        value = self._one()
        while operator := self._take("==", "!="):
            value = (value == self._one()) == (operator == "==")
        return value

    def _one(self) -> bool:
        if self._take("not"):
            return not self._one()
        if self._take("("):
            value = self._any()
            self._expect(")")
            return value
        if word := self._take("true", "false"):
            return word == "true"
        if word := self._take("success", "failure"):
            self._expect("(")
            self._expect(")")
            return self._has_failed == (word == "failure")
        found = repr(self._tokens[0]) if self._tokens else "nothing"
        raise self._wrong(f"expected success() or failure(), found {found}")

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise self._wrong(f"missing {token!r}")

    def _wrong(self, reason: str) -> InvalidCondition:
        return InvalidCondition(
            f"{self._text[:_TEXT_LENGTH_MAX]!r} is not a valid condition: {reason}"
        )
