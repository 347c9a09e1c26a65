import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine import records_pb2 as pb
from lakebed.engine.errors import InvalidName, InvalidRef, RefNotFound
from lakebed.engine.keys import BRANCHES, COMMITS, LIVE
from lakebed.engine.model import (
    BranchID,
    Commit,
    CommitID,
    TagID,
    check_branch_name,
    check_tag_name,
)
from lakebed.engine.refs.resolve import Resolver, View
from lakebed.kv.records import Records
from tests.engine.histories import HistoryKit, Shape, shapes


class Refs(HistoryKit):
    """main -> merge -> (second -> root), (side -> root); tag v1.0 -> second."""

    def __init__(self) -> None:
        super().__init__()
        self.root = self.commit()
        self.second = self.commit(self.root)
        self.side = self.commit(self.root)
        self.merge = self.commit(self.second, self.side)
        self.main = self.branches.create(self.repository, BranchID("main"), self.merge.id)
        self.tags.create(self.repository, TagID("v1.0"), self.second.id)
        self.resolver = Resolver(self.branches, self.tags, self.commits)

    def commit_id(self, expression: str) -> CommitID:
        return self.resolver.resolve(self.repository, expression).commit_id


@pytest.fixture
def refs() -> Refs:
    return Refs()


@pytest.mark.parametrize(
    ("expression", "view"),
    [("main", View.COMBINED), ("main@", View.COMMITTED), ("main$", View.STAGED)],
)
def test_a_branch_and_its_parts(refs: Refs, expression: str, view: View) -> None:
    resolved = refs.resolver.resolve(refs.repository, expression)
    assert resolved.branch == refs.main
    assert resolved.commit_id == refs.merge.id
    assert resolved.view is view


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("main~0", "merge"),
        ("main^0", "merge"),
        ("main~", "second"),
        ("main^", "second"),
        ("main~2", "root"),
        ("main~~", "root"),
        ("main^2", "side"),
        ("main^2~1", "root"),
        ("main~0^2~", "root"),
        ("v1.0", "second"),
        ("v1.0~1", "root"),
    ],
)
def test_ancestors(refs: Refs, expression: str, name: str) -> None:
    resolved = refs.resolver.resolve(refs.repository, expression)
    assert resolved.commit_id == getattr(refs, name).id
    assert resolved.branch is None
    assert resolved.view is View.COMMITTED


def test_commit_ids_and_their_beginnings(refs: Refs) -> None:
    assert refs.commit_id(refs.side.id) == refs.side.id
    assert refs.commit_id(refs.side.id[:12]) == refs.side.id
    assert refs.commit_id(refs.merge.id[:6] + "^2") == refs.side.id
    with pytest.raises(RefNotFound):
        refs.commit_id(refs.side.id[:5])
    with pytest.raises(RefNotFound):
        refs.commit_id("0" * 64)
    with pytest.raises(RefNotFound):
        refs.commit_id("0" * 12)


@pytest.mark.parametrize(("count", "others"), [(2, False), (3, False), (5, True)])
def test_an_ambiguous_beginning_lists_some(refs: Refs, count: int, others: bool) -> None:
    records = Records(refs.store, COMMITS, refs.repository.partition)
    ids = [f"{number:064x}" for number in range(count)]
    for each in ids:
        records.set(each.encode(), pb.Commit(version=1, generation=1))
    with pytest.raises(InvalidRef, match="ambiguous") as caught:
        refs.commit_id("00000000")
    for each in ids[:3]:
        assert each in str(caught.value)
    assert ("and others" in str(caught.value)) is others
    assert refs.commit_id("0" * 63 + "1") == ids[1]


def test_a_branch_wins_over_a_tag_and_both_over_the_beginning_of_an_id(refs: Refs) -> None:
    name = refs.side.id[:8]
    refs.branches.create(refs.repository, BranchID(name), refs.root.id)
    assert refs.commit_id(name) == refs.root.id
    refs.branches.delete(refs.repository, BranchID(name))
    refs.tags.create(refs.repository, TagID(name), refs.second.id)
    assert refs.commit_id(name) == refs.second.id
    # As left by a version that allowed a branch and a tag of one name.
    message = pb.Branch(commit_id=refs.root.id, staging_token="token", state=LIVE)
    Records(refs.store, BRANCHES, refs.repository.partition).set(name.encode(), message)
    assert refs.commit_id(name) == refs.root.id
    assert refs.commit_id(name + "~0") == refs.root.id


def test_an_id_means_its_commit_and_nothing_else_may_be_called_so(refs: Refs) -> None:
    # As left by a version without this rule.
    refs.tags.create(refs.repository, TagID(refs.side.id), refs.second.id)
    assert refs.commit_id(refs.side.id) == refs.side.id
    refs.tags.delete(refs.repository, refs.tags.get(refs.repository, TagID(refs.side.id)))
    refs.branches.create(refs.repository, BranchID(refs.side.id), refs.root.id)
    assert refs.commit_id(refs.side.id) == refs.side.id
    for check in (check_branch_name, check_tag_name):
        with pytest.raises(InvalidName, match="not a commit id"):
            check(refs.side.id)


@pytest.mark.parametrize("expression", ["other", "other~1", "other@", "other$", "v2.0"])
def test_names_of_nothing(refs: Refs, expression: str) -> None:
    with pytest.raises(RefNotFound, match=re.escape(expression.rstrip("~1@$"))):
        refs.commit_id(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "~1",
        "@",
        "main@~1",
        "main$@",
        "main@@",
        "main~x",
        "main^-1",
        "main~1x",
        "main~9999999999",
        "main~\N{ARABIC-INDIC DIGIT ONE}",
        "main branch",
        "main\n",
        "main\ud800",
        "a..b",
        "main~1@",
        "main^2$",
        "v1.0@",
        "v1.0$",
    ],
)
def test_expressions_that_are_not_well_formed(refs: Refs, expression: str) -> None:
    with pytest.raises(InvalidRef):
        refs.commit_id(expression)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("main^3", r"\(commit \w{64} has 2 parents, not 3\)"),
        ("main~1^2", r"\(commit \w{64} has 1 parent, not 2\)"),
        ("main~3", r"\(the history has fewer commits: \w{64} is the first\)"),
    ],
)
def test_a_parent_that_a_commit_does_not_have(refs: Refs, expression: str, reason: str) -> None:
    with pytest.raises(RefNotFound, match=f": {re.escape(expression)} {reason}$"):
        refs.commit_id(expression)


def test_expressions_that_need_a_commit(refs: Refs) -> None:
    assert refs.resolver.commit(refs.repository, "main") == refs.merge
    assert refs.resolver.commit(refs.repository, "main@") == refs.merge
    assert refs.resolver.commit(refs.repository, "main^2") == refs.side
    with pytest.raises(InvalidRef, match=r"main\$ means the staged changes"):
        refs.resolver.commit(refs.repository, "main$")


STEPS = st.lists(st.tuples(st.sampled_from("~^"), st.none() | st.integers(0, 3)), max_size=5)


@given(shapes(), STEPS)
def test_chains_follow_the_parents(
    history: list[Shape], steps: list[tuple[str, int | None]]
) -> None:
    world = HistoryKit()
    commits = world.build(history)
    by_id = {commit.id: commit for commit in commits}
    resolver = Resolver(world.branches, world.tags, world.commits)
    expression: str = commits[-1].id
    expected: Commit | None = commits[-1]
    for kind, number in steps:
        expression += kind + ("" if number is None else str(number))
        count = 1 if number is None else number
        places = [0] * count if kind == "~" else [count - 1] * min(count, 1)
        for place in places:
            parents = expected.parents if expected else ()
            expected = by_id[parents[place]] if place < len(parents) else None
    if expected is None:
        with pytest.raises(RefNotFound):
            resolver.commit(world.repository, expression)
    else:
        assert resolver.commit(world.repository, expression) == expected
