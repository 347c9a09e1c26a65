"""Paths of objects: what a server issues is recognized, and nothing else is."""

from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakebed.formats.object_paths import (
    ISSUED_FROM,
    MADE_FROM,
    TIME_DIGITS,
    TIME_US_MAX,
    ObjectPath,
    branches_folder,
    new_object_uid,
    new_partition,
    partition_made_us,
)

GOOD = "repos/ab/branches/dev/fff9bf1e0bd6d4ff-00112233aabb/000640e1f4292b0000112233445566778899"
HEX = frozenset("0123456789abcdef")

times = st.integers(0, TIME_US_MAX)
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}", fullmatch=True)
paths = st.builds(
    lambda uid, branch, made_us, issued_us, chance: ObjectPath(
        uid, branch, new_partition(made_us, chance[:6]), new_object_uid(issued_us, chance[6:])
    ),
    st.binary(min_size=10, max_size=10).map(bytes.hex),
    names,
    times,
    times,
    st.binary(min_size=16, max_size=16),
)


@given(paths)
def test_a_path_can_be_taken_apart(path: ObjectPath) -> None:
    assert ObjectPath.parse(str(path)) == path
    assert partition_made_us(path.partition) == path.made_us
    assert str(path).startswith(branches_folder(path.repository_uid))


@given(times, times)
@example(0, TIME_US_MAX)
def test_times_come_out_as_they_went_in(made_us: int, issued_us: int) -> None:
    partition, uid = new_partition(made_us, bytes(6)), new_object_uid(issued_us, bytes(10))
    path = ObjectPath.parse(f"{branches_folder('ab')}dev/{partition}/{uid}")
    assert path is not None
    assert (path.made_us, path.issued_us) == (made_us, issued_us)
    text = str(path)
    assert int(text[ISSUED_FROM : ISSUED_FROM + TIME_DIGITS], 16) == issued_us
    assert text[MADE_FROM : MADE_FROM + TIME_DIGITS] == partition[:TIME_DIGITS]


@pytest.mark.parametrize("wrong_us", [-1, TIME_US_MAX + 1])
def test_a_time_that_does_not_fit_is_refused(wrong_us: int) -> None:
    with pytest.raises(ValueError, match="the clock is wrong"):
        new_partition(wrong_us, bytes(6))
    with pytest.raises(ValueError, match="the clock is wrong"):
        new_object_uid(wrong_us, bytes(10))


def fixed(path: ObjectPath) -> set[int]:
    """The places in a path that are the same in all paths."""
    text = str(path)
    slashes = [place for place, character in enumerate(text) if character == "/"]
    words = {*range(6), *range(slashes[1], slashes[2] + 1)}
    made, uid = slashes[3] + 1, slashes[4] + 1
    times = {*range(made, made + 3), made + TIME_DIGITS, *range(uid, uid + 3)}
    return words | {*slashes} | times


def digits(path: ObjectPath) -> set[int]:
    """The places in a path where a hexadecimal digit stands."""
    text = str(path)
    branch = len(branches_folder(path.repository_uid))
    name = range(branch, branch + len(path.branch))
    return {*range(len(text))} - fixed(path) - {*name}


@given(paths, st.data())
def test_one_other_character_is_another_object_or_not_ours(
    path: ObjectPath, data: st.DataObject
) -> None:
    text = str(path)
    place = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.sampled_from("0af9gFA/-. \n~") | st.characters())
    assume(character != text[place])
    changed = f"{text[:place]}{character}{text[place + 1 :]}"
    found = ObjectPath.parse(changed)
    if place in fixed(path) or (place in digits(path) and character not in HEX):
        assert found is None
    if found is not None:
        assert found != path
        assert str(found) == changed


@given(paths, st.data())
def test_one_character_more_or_less_is_not_ours(path: ObjectPath, data: st.DataObject) -> None:
    text = str(path)
    variable = {"repository_uid": 6, "branch": len(branches_folder(path.repository_uid))}
    ends = {name: start + len(getattr(path, name)) for name, start in variable.items()}
    place = data.draw(st.integers(0, len(text)))
    assume(not any(variable[name] <= place <= ends[name] for name in variable))
    more = data.draw(st.sampled_from("0a/-\n ") | st.characters())
    assert ObjectPath.parse(f"{text[:place]}{more}{text[place:]}") is None
    if place < len(text):
        assert ObjectPath.parse(f"{text[:place]}{text[place + 1 :]}") is None


@pytest.mark.parametrize(
    "path",
    [
        GOOD + "\n",
        GOOD + "0",
        GOOD.upper(),
        GOOD.replace("/dev/", "/a/b/"),
        GOOD.replace("/dev/", "//"),
        GOOD.replace("/fff9", "/0009"),
        GOOD.replace("/0006", "/0016"),
        GOOD.replace("repos/ab", "repos/ag"),
        GOOD.replace("repos/ab", "repos/"),
        GOOD.replace("branches", "branch"),
        f"/{GOOD}",
        f"x/{GOOD}",
        f"_lakebed/{GOOD}",
    ],
)
def test_foreign_paths_are_not_issued(path: str) -> None:
    assert ObjectPath.parse(GOOD) is not None
    assert ObjectPath.parse(path) is None


def test_an_issue_time_is_the_server_s() -> None:
    parts = ObjectPath.parse(GOOD)
    assert parts is not None
    assert datetime.fromtimestamp(parts.issued_us / 1e6, UTC).year == 2025
