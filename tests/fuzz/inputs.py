"""Inputs that look right almost everywhere: made of the words of a format, then damaged."""

from collections.abc import Sequence
from typing import Any, AnyStr, Final

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

BYTES_MAX: Final = 1 << 16

wire_text: Final = st.text(st.characters(max_codepoint=255), max_size=40)
"""A header or a path as WSGI hands it over: each character is a byte."""

any_text: Final = st.text(max_size=40) | st.text(st.characters(categories=["Cs", "Cc", "Lu"]))
"""Any text that Python can hold, also what UTF-8 cannot."""

json_values: Final[SearchStrategy[object]] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def phrases(words: Sequence[AnyStr], *, most: int = 10) -> SearchStrategy[AnyStr]:
    """Texts made of the words of a format, in any order."""
    empty = words[0][:0]
    return st.lists(st.sampled_from(words), max_size=most).map(empty.join)


@st.composite
def stretched(draw: st.DrawFn, words: Sequence[AnyStr], longest: int = BYTES_MAX) -> AnyStr:
    """Texts of 64 KiB: a beginning, a part many times over, an end. They show what is quadratic."""
    some = phrases(words, most=3)
    head, unit, tail = draw(some), draw(some.filter(bool)), draw(some)
    return head + unit * ((longest - len(head) - len(tail)) // len(unit)) + tail


@st.composite
def damaged(draw: st.DrawFn, sound: SearchStrategy[AnyStr], words: Sequence[AnyStr]) -> AnyStr:
    """Sound texts in which some pieces were replaced, dropped, repeated or moved."""
    text = draw(sound)
    for _ in range(draw(st.integers(0, 3))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 8)))
        pieces = list(words)
        pieces += [text[:0], text[begin:end] * 2, text[end : end + 8]]
        piece = draw(st.sampled_from(pieces))
        text = text[:begin] + piece + text[end:]
    return text


def texts(
    words: Sequence[AnyStr],
    sound: SearchStrategy[AnyStr] | None = None,
    *,
    longest: int = BYTES_MAX,
) -> SearchStrategy[AnyStr]:
    """All of the above: sound texts, damaged ones, phrases, long ones."""
    if sound is None:
        return st.one_of(phrases(words), phrases(words, most=3), stretched(words, longest))
    return st.one_of(sound, damaged(sound, words), phrases(words), stretched(words, longest))


@st.composite
def mostly(draw: st.DrawFn, usual: SearchStrategy[Any], seldom: SearchStrategy[Any]) -> Any:
    """The usual, seven times out of eight."""
    return draw(usual if draw(st.integers(0, 7)) else seldom)


def in_pieces(content: bytes, size: int) -> list[bytes]:
    """The same bytes as a connection brings them."""
    return [content[at : at + size] for at in range(0, len(content), size)]


piece_sizes: Final = st.sampled_from([1, 2, 7, 1000, 1 << 18])
