"""Where two lines of history parted."""

from typing import Final

from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.frontier import Frontier

_FROM_LEFT: Final = 1
_FROM_RIGHT: Final = 2
_FROM_BOTH: Final = _FROM_LEFT | _FROM_RIGHT


def find_merge_base(
    commits: Commits, repository: Repository, left: CommitID, right: CommitID
) -> Commit | None:
    """Return the best common ancestor of two commits, or None if their histories are unrelated.

    A commit counts as its own ancestor. Best is one that is no ancestor of another common one.
    After criss-cross merges there are several: the one with the highest generation is taken, of
    equal ones the newest, then the one with the smallest id. So the answer is the same whichever
    side is called left.

    The walk is by generation, and ends at the first commit that both sides reach: any common
    descendant of that one would have had its turn before. Only commits are read whose generation
    is not below that of the answer, and their parents.

    Raises:
        CommitNotFound: One of the two is not there.
    """
    frontier = Frontier(commits, repository)
    frontier.add(left, _FROM_LEFT)
    frontier.add(right, _FROM_RIGHT)
    while frontier:
        commit, reached = frontier.pop()
        if reached == _FROM_BOTH:
            return commit
        for parent in commit.parents:
            frontier.add(parent, reached)
    return None
