from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.errors import CommitNotFound
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs import ancestry as module
from lakebed.engine.refs.ancestry import MergeBases
from lakebed.engine.refs.commits import Commits
from tests.engine.histories import RUNTIME, HistoryKit, Shape, ancestry, shapes


class WatchedCommits(Commits):
    """Commits that record reads; one of them may be missing."""

    def __init__(self, world: HistoryKit) -> None:
        super().__init__(world.store, RUNTIME)
        self.asked: list[CommitID] = []
        self.missing: CommitID | None = None

    def get(self, repository: Repository, commit_id: CommitID) -> Commit:
        self.asked.append(commit_id)
        if commit_id == self.missing:
            raise CommitNotFound(commit_id)
        return super().get(repository, commit_id)


def naive(commits: Sequence[Commit], left: Commit, right: Commit) -> Commit | None:
    """Of the common ancestors that no other descends from, the first by rank."""
    reached = ancestry(commits)
    common = reached[left.id] & reached[right.id]
    lesser = {ancestor for each in common for ancestor in reached[each] - {each}}
    best = [commit for commit in commits if commit.id in common - lesser]
    best.sort(key=lambda commit: (-commit.generation, -commit.created_us, commit.id))
    return best[0] if best else None


def find(world: HistoryKit, left: Commit, right: Commit) -> Commit | None:
    """Search with an empty cache."""
    return MergeBases(world.commits, RUNTIME).find(world.repository, left.id, right.id)


@given(shapes(max_size=200), st.data())
def test_the_merge_base_agrees_with_sets_of_ancestors(
    history: list[Shape], data: st.DataObject
) -> None:
    world = HistoryKit()
    commits = world.build(history)
    for _ in range(5):
        left = data.draw(st.sampled_from(commits))
        right = data.draw(st.sampled_from(commits))
        expected = naive(commits, left, right)
        assert find(world, left, right) == expected
        assert find(world, right, left) == expected


@given(shapes(), st.data())
def test_cached_searches_change_no_merge_base(history: list[Shape], data: st.DataObject) -> None:
    """Some searches are interrupted by a missing commit."""
    world = HistoryKit()
    commits = world.build(history)
    watched = WatchedCommits(world)
    bases = MergeBases(watched, RUNTIME)
    places = st.integers(0, len(commits) - 1)
    # Heads mostly move on: then the cache of an older head is used.
    heads = sorted(data.draw(st.lists(places, max_size=20)))
    heads += data.draw(st.lists(places, max_size=5))
    for place in heads:
        source, head = data.draw(st.sampled_from(commits)), commits[place]
        missing = data.draw(st.sampled_from(commits) | st.none() | st.none())
        watched.missing = missing.id if missing else None
        try:
            found = bases.find(world.repository, source.id, head.id)
        except CommitNotFound:
            assert missing is not None
            continue
        assert found == naive(commits, source, head)


def test_a_search_looks_only_at_what_came_since_the_last_one() -> None:
    world = HistoryKit()
    root = head = world.commit()
    watched = WatchedCommits(world)
    bases = MergeBases(watched, RUNTIME)
    for _ in range(50):
        head = world.commit(head, world.commit(root))
    assert bases.find(world.repository, world.commit(root).id, head.id) == root
    assert len(watched.asked) > 50
    for _ in range(3):
        for _ in range(2):
            head = world.commit(head, world.commit(root))
        source = world.commit(root)
        watched.asked.clear()
        assert bases.find(world.repository, source.id, head.id) == root
        assert len(watched.asked) < 15


def test_no_more_than_a_bound_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED_COMMITS", 20)
    world = HistoryKit()
    root = head = world.commit()
    watched = WatchedCommits(world)
    bases = MergeBases(watched, RUNTIME)
    source = world.commit(root)
    for length in range(1, 40):
        head = world.commit(head)
        watched.asked.clear()
        assert bases.find(world.repository, source.id, head.id) == root
        assert (len(watched.asked) < 10) == (length <= 20)  # with the root, 20 before


def test_after_a_criss_cross_the_newest_of_the_best_is_taken() -> None:
    world = HistoryKit()
    root = world.commit()
    older, newer = world.commit(root, created_us=5), world.commit(root, created_us=7)
    left, right = world.commit(older, newer), world.commit(newer, older)
    assert find(world, left, right) == newer


def test_unrelated_histories_have_no_merge_base() -> None:
    world = HistoryKit()
    left, right = world.commit(world.commit()), world.commit()
    assert find(world, left, right) is None
