from hypothesis import given
from hypothesis import strategies as st

from lakebed.engine.model import Commit
from lakebed.engine.refs.ancestry import find_merge_base
from tests.engine.histories import HistoryKit, Shape, ancestry, shapes


def naive(commits: list[Commit], left: Commit, right: Commit) -> Commit | None:
    """Of the common ancestors that no other common one descends from, the first by the rule."""
    reached = ancestry(commits)
    common = reached[left.id] & reached[right.id]
    lesser = {ancestor for each in common for ancestor in reached[each] - {each}}
    best = [commit for commit in commits if commit.id in common - lesser]
    best.sort(key=lambda commit: (-commit.generation, -commit.created_us, commit.id))
    return best[0] if best else None


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
        assert find_merge_base(world.commits, world.repository, left.id, right.id) == expected
        assert find_merge_base(world.commits, world.repository, right.id, left.id) == expected


def test_after_a_criss_cross_the_newest_of_the_best_is_taken() -> None:
    world = HistoryKit()
    root = world.commit()
    older, newer = world.commit(root, created_us=5), world.commit(root, created_us=7)
    left, right = world.commit(older, newer), world.commit(newer, older)
    assert find_merge_base(world.commits, world.repository, left.id, right.id) == newer


def test_unrelated_histories_have_no_merge_base() -> None:
    world = HistoryKit()
    left, right = world.commit(world.commit()), world.commit()
    assert find_merge_base(world.commits, world.repository, left.id, right.id) is None
