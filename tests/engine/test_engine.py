"""Operations of the engine that other tests reach only through a server."""

import pytest

from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import ChangeType, CommonPrefix, EntryQuery
from lakebed.engine.engine import Engine
from lakebed.engine.errors import Invalid, NoChanges, ParentNumberMissing
from lakebed.engine.model import BranchID, CommitID, RepositoryID
from lakebed.lake.commits import HeadChanges
from lakebed.lake.diff import Difference, Differences
from tests.kit import staging
from tests.kit.engines import cherry_pick, new_engine
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")
REQUEST = CommitRequest(committer="tester", message="some")


@pytest.fixture
def engine() -> Engine:
    """An engine with a repository and two branches."""
    engine = new_engine()
    engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
    engine.refs.create_branch(LAKE, DEV, MAIN)
    return engine


def commit(engine: Engine, branch: BranchID, **contents: str) -> CommitID:
    for key, name in contents.items():
        staging.put(engine, LAKE, branch, entry(key.encode(), name))
    return HeadChanges(engine).commit(LAKE, branch, REQUEST).commit.id


def differences(engine: Engine, *, since_merge_base: bool) -> list[tuple[bytes, ChangeType, bool]]:
    page = Differences(engine).list_between(
        LAKE, MAIN, DEV, EntryQuery(), since_merge_base=since_merge_base
    )
    return [
        (item.path, item.change, item.conflict)
        for item in page.items
        if isinstance(item, Difference)
    ]


def test_different_changes_on_both_sides_conflict(engine: Engine) -> None:
    commit(engine, MAIN, both="ours", same="s", only_main="m")
    commit(engine, DEV, both="theirs", same="s", only_dev="d")
    assert differences(engine, since_merge_base=True) == [
        (b"both", ChangeType.ADDED, True),
        (b"only_dev", ChangeType.ADDED, False),
    ]
    assert differences(engine, since_merge_base=False) == [
        (b"both", ChangeType.CHANGED, False),
        (b"only_dev", ChangeType.ADDED, False),
        (b"only_main", ChangeType.REMOVED, False),
    ]


def test_equal_changes_on_both_sides_are_no_change_since_the_merge_base(engine: Engine) -> None:
    commit(engine, MAIN, **{"a/same": "s", "b/same": "s", "gone": "g"})
    for branch in (MAIN, DEV):
        HeadChanges(engine).hard_reset(LAKE, branch, MAIN)
    for branch in (MAIN, DEV):
        staging.delete(engine, LAKE, branch, b"gone")
        commit(engine, branch, **{"a/same": "t", "c/same": "s"})
    assert differences(engine, since_merge_base=True) == []
    commit(engine, DEV, **{"c/other": "o"})
    folded = Differences(engine).list_between(
        LAKE, MAIN, DEV, EntryQuery(delimiter=b"/"), since_merge_base=True
    )
    assert [item.key for item in folded.items if isinstance(item, CommonPrefix)] == [b"c/"]
    page = Differences(engine).list_between(
        LAKE, MAIN, DEV, EntryQuery(amount=1), since_merge_base=True
    )
    assert (len(page.items), page.has_more) == (1, False)


def test_a_revert_of_a_merge_needs_one_of_its_parents(engine: Engine) -> None:
    commit(engine, MAIN, a="a")
    commit(engine, DEV, b="b")
    merged = HeadChanges(engine).merge(LAKE, DEV, MAIN, MergeRequest(committer="", message=""))
    with pytest.raises(Invalid, match="is the first of its history"):
        HeadChanges(engine).revert(LAKE, MAIN, f"{merged.id}~2", REQUEST)
    with pytest.raises(ParentNumberMissing, match="is a merge of 2 parents"):
        HeadChanges(engine).revert(LAKE, MAIN, merged.id, REQUEST)
    with pytest.raises(Invalid, match="has no parent number 3: it has 2"):
        HeadChanges(engine).revert(LAKE, MAIN, merged.id, REQUEST, parent_number=3)
    HeadChanges(engine).revert(LAKE, MAIN, merged.id, REQUEST, parent_number=1)
    with pytest.raises(KeyError, match="object not found: 'b'"):
        staging.get(engine, LAKE, MAIN, b"b")


def test_a_cherry_pick_of_what_is_there_already_is_refused(engine: Engine) -> None:
    picked = commit(engine, DEV, a="a")
    cherry_pick(engine, LAKE, MAIN, picked, REQUEST)
    assert staging.get(engine, LAKE, MAIN, b"a").address == "a"
    with pytest.raises(NoChanges, match=r"already up to date: .* has all of these changes"):
        cherry_pick(engine, LAKE, MAIN, picked, REQUEST)


def test_a_branch_whose_tree_was_emptied_is_merged_into_a_fresh_one(engine: Engine) -> None:
    """The initial commit has no tree at all, unlike an empty tree."""
    request = MergeRequest(committer="", message="")
    with pytest.raises(NoChanges):
        HeadChanges(engine).merge(LAKE, DEV, MAIN, request)
    commit(engine, DEV, a="a")
    staging.delete(engine, LAKE, DEV, b"a")
    emptied = commit(engine, DEV)
    merged = HeadChanges(engine).merge(LAKE, DEV, MAIN, request)
    assert merged.parents[1] == emptied
    with pytest.raises(NoChanges):
        HeadChanges(engine).merge(LAKE, DEV, MAIN, request)
