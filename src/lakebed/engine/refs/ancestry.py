"""Walking from commits to their ancestors: the order of every walk, and where two lines parted."""

import heapq
from typing import Final

from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs.commits import Commits

_FROM_LEFT: Final = 1
_FROM_RIGHT: Final = 2
_FROM_BOTH: Final = _FROM_LEFT | _FROM_RIGHT

Rank = tuple[int, int, CommitID]
"""The place of a commit in the order; the first commit has the smallest rank."""


def rank(commit: Commit) -> Rank:
    """Order commits by generation, the latest first; then by date, the newest first; then by id.

    The order is total and the same for every walk: any two walks agree about any two commits.
    """
    return (-commit.generation, -commit.created_us, commit.id)


class Frontier:
    """Commits to visit, each once, children before parents.

    An ancestor has a smaller generation. So when a commit's turn comes, all its descendants in the
    walk have had theirs: it has every mark that they put on it, and is never added again. Only the
    commits that wait are held, however long the history is.
    """

    def __init__(self, commits: Commits, repository: Repository) -> None:
        self._commits = commits
        self._repository = repository
        self._heap: list[Rank] = []
        self._waiting: dict[CommitID, tuple[Commit, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, commit_id: CommitID, marks: int = 0) -> Commit:
        """Let a commit wait for its turn, and add marks to those it has; return it.

        Raises:
            CommitNotFound: There is none with this id.
        """
        held = self._waiting.get(commit_id)
        if held is None:
            commit, before = self._commits.get(self._repository, commit_id), 0
            heapq.heappush(self._heap, rank(commit))
        else:
            commit, before = held
        self._waiting[commit_id] = commit, before | marks
        return commit

    def pop(self) -> tuple[Commit, int]:
        """Return the next commit and its marks."""
        *_, commit_id = heapq.heappop(self._heap)
        return self._waiting.pop(commit_id)

    def all_have(self, marks: int) -> bool:
        """Whether every commit that waits has all of these marks."""
        return all(having & marks == marks for _, having in self._waiting.values())


def find_merge_base(
    commits: Commits, repository: Repository, left: CommitID, right: CommitID
) -> Commit | None:
    """Return the best common ancestor of two commits, or None if their histories are unrelated.

    A commit counts as its own ancestor. The best is one that is not an ancestor of another common
    one. After criss-cross merges there are several: the one with the highest generation is taken,
    of equal ones the newest, then the one with the smallest id. So the answer is the same whichever
    side is called left.

    The walk goes by generation, and ends at the first commit that both sides reach: any common
    descendant of that one would have had its turn before. It reads only commits whose generation is
    not below that of the answer, and their parents.

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
