from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.lake.hooks.conditions import InvalidPattern, check_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("abc", "abc", True),
        ("*", "abc", True),
        ("*c", "abc", True),
        ("a*", "a", True),
        ("a*", "abc", True),
        ("a*", "ab/c", False),
        ("a*/b", "abc/b", True),
        ("a*/b", "a/c/b", False),
        ("a*b*c*d*e*/f", "axbxcxdxe/f", True),
        ("a*b*c*d*e*/f", "axbxcxdxexxx/f", True),
        ("a*b*c*d*e*/f", "axbxcxdxe/xxx/f", False),
        ("a*b?c*x", "abxbbxdbxebxczzx", True),
        ("a*b?c*x", "abxbbxdbxebxczzy", False),
        ("ab[c]", "abc", True),
        ("ab[b-d]", "abc", True),
        ("ab[e-g]", "abc", False),
        ("ab[^c]", "abc", False),
        ("ab[^e-g]", "abc", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "ab", False),
        ("a?b", "a\u263ab", True),
        ("a[^a]b", "a\u263ab", True),
        ("a???b", "a\u263ab", False),
        ("[a-\u03b6]*", "\u03b1", True),
        ("*[a-\u03b6]", "A", False),
        ("a?b", "a/b", False),
        ("a*b", "a/b", False),
        ("[\\]a]", "]", True),
        ("[\\-]", "-", True),
        ("[x\\-]", "x", True),
        ("[x\\-]", "-", True),
        ("[x\\-]", "z", False),
        ("[\\-x]", "a", False),
        ("a[^a]b", "a/b", True),  # a set takes / too
        ("*[^x]*", "b/c", False),  # the first place after a star counts, as in Go
        ("[z-a]", "m", False),
        ("*x", "xxx", True),
        ("*b*", "a/b", False),
        ("*b*", "ab", True),
        ("", "", True),
        ("", "a", False),
        ("**", "", True),
    ],
)
def test_as_in_go(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.parametrize(
    "pattern",
    ["[]a]", "[-]", "[x-]", "[-x]", "\\", "[a-b-c]", "[", "[^", "[^bc", "a[", "a[\\", "[]", "[^]"],
)
def test_invalid_patterns(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        check_pattern(pattern)


def expected(pattern: str, name: str) -> bool:
    """Try everything, for patterns without sets and escapes."""

    @cache
    def rest(at: int, place: int) -> bool:
        if at == len(pattern):
            return place == len(name)
        inside = place < len(name)
        if pattern[at] == "*":
            return rest(at + 1, place) or (inside and name[place] != "/" and rest(at, place + 1))
        fits = inside and (name[place] != "/" if pattern[at] == "?" else name[place] == pattern[at])
        return fits and rest(at + 1, place + 1)

    return rest(0, 0)


@given(st.text("a/*?", max_size=8), st.text("a/", max_size=6))
def test_every_way_was_tried(pattern: str, name: str) -> None:
    assert matches(pattern, name) is expected(pattern, name)


def test_many_stars_take_no_time() -> None:
    assert not matches("*a" * 400 + "b", "a" * 900)  # trying every way would never end
