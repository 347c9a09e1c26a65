"""The ``if`` of a hook, which decides whether the hook runs.

Expressions consist of ``success()`` (no earlier hook of the action failed), ``failure()`` (one
failed), ``true``, ``false``, parentheses, and the operators ``!``, ``not``, ``&&``, ``and``,
``||``, ``or``, ``==`` and ``!=``. An empty text means ``success()``.
"""

import re
from typing import Final

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
