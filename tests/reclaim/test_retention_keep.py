"""Which commits stay: lakeFS's cases, and what Lakebed keeps beside them."""

from collections.abc import Mapping

import pytest

from lakebed.engine.errors import Invalid
from lakebed.engine.model import BranchID, CommitID
from lakebed.reclaim.retention import (
    BranchRule,
    RetentionRules,
    Scan,
    StoredCommit,
    commit_retention,
    kept_commits,
)

DAY_US = 86_400 * 1_000_000
NOW_US = 1_000 * DAY_US
Age = float | tuple[float, str]
"""How many days ago a commit was stored, and its first parent."""


def scan_of(
    ages: Mapping[str, Age],
    heads: Mapping[str, str],
    *,
    named: str = "",
    made_for: Mapping[str, str] | None = None,
) -> Scan:
    commits = {}
    for name, age in ages.items():
        days, parent = age if isinstance(age, tuple) else (age, None)
        commits[CommitID(name)] = StoredCommit(
            None if parent is None else CommitID(parent),
            NOW_US - int(days * DAY_US),
            BranchID((made_for or {}).get(name, "elsewhere")),
        )
    return Scan(
        began_us=NOW_US,
        heads=[(BranchID(branch), CommitID(head)) for branch, head in heads.items()],
        named=frozenset(CommitID(each) for each in named),
        commits=commits,
    )


def stays(days: Mapping[str, int], scan: Scan, default_days: int = 5) -> str:
    rules = RetentionRules(default_days, [BranchRule(name, each) for name, each in days.items()])
    kept = kept_commits(rules, scan)
    # What people are told is what is done.
    told = (commit_retention(each, rules, scan, None, expiring_us=0) for each in scan.commits)
    assert {fate.commit_id for fate in told if fate.stays} == kept
    return "".join(sorted(kept))


# Commits are single letters; a branch has the name of its head in capitals.
CASES: dict[str, tuple[dict[str, Age], dict[str, int], str]] = {
    "two branches": (
        {"a": 15, "b": (10, "a"), "c": (10, "a"), "d": (5, "c"), "e": (5, "b"), "f": (1, "e")},
        {"F": 7, "D": 3},
        "bdef",
    ),
    "old heads": (
        {"a": 15, "b": 20, "c": (20, "a"), "d": (20, "a")},
        {"B": 7, "C": 7, "D": 7},
        "bcd",
    ),
    "all within their periods": (
        {"a": 5, "b": (4, "a"), "c": (3, "b"), "d": (2, "b"), "e": (1, "b")},
        {"D": 15, "E": 7, "C": 2},
        "abcde",
    ),
    "only first parents are followed": (
        {"a": 7, "b": (6, "a"), "c": 7, "d": (6, "c")},
        {"B": 3, "D": 10},
        "bcd",
    ),
    "up to the first that is older": (
        {"a": 15, "b": (10, "a"), "c": (10, "a"), "d": (5, "c"), "e": (7, "b"), "f": (1, "e")},
        {"F": 7, "D": 3},
        "def",
    ),
    "no branch leads there, and young": (
        {
            "a": 15,
            "b": (10, "a"),
            "c": (10, "a"),
            "d": (5, "c"),
            "e": (5, "b"),
            "f": (1.5, "e"),
            "g": (8, "c"),
            "h": (7, "g"),
            "i": (4, "h"),
        },
        {"F": 7, "D": 3},
        "bdefhi",
    ),
    "no branch leads there, and old": (
        {
            "a": 15,
            "b": (10, "a"),
            "c": (10, "a"),
            "d": (5, "c"),
            "e": (5, "b"),
            "f": (1.5, "e"),
            "g": (8, "c"),
            "h": (7, "g"),
            "i": (6, "h"),
        },
        {"F": 7, "D": 3},
        "bdef",
    ),
    "the longer of two periods counts": (
        {"r": 20, "x": (14, "r"), "s": (10, "x"), "t": (9, "s")},
        {"T": 9, "S": 12},
        "stx",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_history_stays_as_in_lakefs(case: str) -> None:
    ages, days, kept = CASES[case]
    assert stays(days, scan_of(ages, {name: name.lower() for name in days})) == kept


def test_without_rules_everything_stays() -> None:
    scan = scan_of({"a": 900, "b": (800, "a")}, {"main": "b"})
    assert kept_commits(None, scan) == {"a", "b"}


def test_tagged_commits_stay_and_their_ancestors_expire() -> None:
    """By a tag, by a ref that is being made, by a branch that is about to be moved there."""
    scan = scan_of(
        {"a": 90, "b": (80, "a"), "c": (70, "b"), "d": (60, "c")}, {"main": "d"}, named="b"
    )
    assert stays({}, scan) == "bd"


def test_commits_stored_within_a_day_stay() -> None:
    """Also if clocks differ so much that what follows it looks older."""
    scan = scan_of({"a": 90, "b": (0.9, "a"), "c": (2, "b"), "d": 80}, {"main": "d"})
    assert stays({}, scan, default_days=1) == "bd"


def test_commits_a_suspended_committer_may_publish_stay() -> None:
    """It does so only on the branch that it was made for, and only over its parent."""
    ages: dict[str, Age] = {"a": 90, "b": (80, "a"), "c": (70, "b"), "d": (70, "b"), "e": (70, "a")}
    made_for = {"c": "main", "d": "dev", "e": "main"}
    scan = scan_of(ages, {"main": "b"}, made_for=made_for)
    assert stays({}, scan) == "bc"
    unknown = scan_of(ages, {"main": "b"}, made_for={"c": "main", "d": "", "e": ""})
    assert stays({}, unknown) == "bcd"


def test_a_rule_for_a_name_comes_before_patterns_and_the_longest_pattern_before_others() -> None:
    rules = RetentionRules(
        5, [BranchRule("exp-*", 2), BranchRule("exp-1*", 9), BranchRule("exp-10", 1)]
    )
    names = ["main", "exp-2", "exp-11", "exp-10"]
    assert [rules.days_of(BranchID(name)) for name in names] == [5, 2, 9, 1]


@pytest.mark.parametrize("days", [0, -1, 36_501])
def test_a_period_that_is_none_is_refused(days: int) -> None:
    with pytest.raises(Invalid, match=f"{days} days"):
        RetentionRules(days)
    with pytest.raises(Invalid, match=f"'main' is {days} days"):
        RetentionRules(1, [BranchRule("main", days)])


def test_a_pattern_that_matches_nothing_and_one_given_twice_are_refused() -> None:
    with pytest.raises(Invalid, match="cannot match any branch"):
        RetentionRules(1, [BranchRule("a/b", 1)])
    with pytest.raises(Invalid, match="duplicate rules for 'a'"):
        RetentionRules(1, [BranchRule("a", 1), BranchRule("a", 2)])
