import pytest

from lakebed.engine.errors import Invalid, PreconditionFailed, Protected
from lakebed.engine.model import BranchID
from lakebed.engine.refs.protection import BranchProtection
from lakebed.kv import ABSENT
from tests.engine.histories import RUNTIME, HistoryKit


@pytest.fixture
def world() -> HistoryKit:
    return HistoryKit()


@pytest.fixture
def protection(world: HistoryKit) -> BranchProtection:
    return BranchProtection(world.store, RUNTIME)


@pytest.mark.parametrize(
    ("pattern", "branch", "protected"),
    [
        ("main", "main", True),
        ("main", "Main", False),
        ("main", "main2", False),
        ("main", "not-main", False),
        ("*", "anything_at-all", True),
        ("release-*", "release-", True),
        ("release-*", "release-2024", True),
        ("release-*", "pre-release-1", False),
        ("v?", "v1", True),
        ("v?", "v12", False),
        ("v[0-9]", "v7", True),
        ("v[!0-9]", "v7", False),
    ],
)
def test_patterns(
    world: HistoryKit, protection: BranchProtection, pattern: str, branch: str, protected: bool
) -> None:
    protection.set(world.repository, ["nothing-like-it", pattern])
    if protected:
        with pytest.raises(Protected, match=f"branch {branch} is protected \\(rule"):
            protection.check(world.repository, BranchID(branch))
    else:
        protection.check(world.repository, BranchID(branch))


def test_without_rules_nothing_is_protected(
    world: HistoryKit, protection: BranchProtection
) -> None:
    rules = protection.get(world.repository)
    assert rules.patterns == ()
    assert rules.predicate is ABSENT
    protection.check(world.repository, BranchID("main"))


def test_rules_belong_to_one_repository(world: HistoryKit, protection: BranchProtection) -> None:
    protection.set(world.repository, ["main"])
    protection.check(world.make_repository("other"), BranchID("main"))


def test_a_rule_counts_from_the_moment_it_is_set(
    world: HistoryKit, protection: BranchProtection
) -> None:
    other_process = BranchProtection(world.store, RUNTIME)
    other_process.check(world.repository, BranchID("main"))
    protection.set(world.repository, ["main"])
    with pytest.raises(Protected):
        other_process.check(world.repository, BranchID("main"))
    protection.set(world.repository, [])
    other_process.check(world.repository, BranchID("main"))


def test_rules_are_replaced_only_if_they_are_those_that_were_read(
    world: HistoryKit, protection: BranchProtection
) -> None:
    first = protection.set(world.repository, ["a", "b", "a"], predicate=ABSENT)
    assert first.patterns == ("a", "b")
    assert protection.get(world.repository) == first
    with pytest.raises(PreconditionFailed):
        protection.set(world.repository, ["c"], predicate=ABSENT)
    second = protection.set(world.repository, ["c"], predicate=first.predicate)
    with pytest.raises(PreconditionFailed):
        protection.set(world.repository, ["d"], predicate=first.predicate)
    assert protection.get(world.repository) == second


@pytest.mark.parametrize("pattern", ["", "two words", "a/b", "main\n", "x" * 256, "{a,b}"])
def test_a_pattern_that_matches_nothing_is_refused(
    world: HistoryKit, protection: BranchProtection, pattern: str
) -> None:
    with pytest.raises(Invalid, match="cannot match any branch"):
        protection.set(world.repository, ["main", pattern])
    assert protection.get(world.repository).patterns == ()
