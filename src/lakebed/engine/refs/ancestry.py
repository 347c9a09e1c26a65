"""Walking from commits to their ancestors: the order of every walk, and where two lines parted."""

import heapq
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.engine.errors import Invalid
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs.commits import Commits

REMEMBERED_COMMITS: Final = 50_000
"""Of how many ancestors `MergeBases` holds the ids; each takes some 200 bytes."""

_LOOK_BACK: Final = 100
"""How many commits back from a head `MergeBases` looks for one whose ancestors it holds."""

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


class _Ancestors:
    """A commit and its ancestors, looked for only as far down as somebody asks.

    What must hold: an ancestor that is not reached yet has a descendant that waits to be followed,
    and comes before it in the order. So one that comes before all who wait, and is not reached, is
    no ancestor. A commit may be added at any time; what waits then is followed in order as before.
    """

    def __init__(self, commits: Commits, repository: Repository) -> None:
        self._commits = commits
        self._repository = repository
        self._reached: set[CommitID] = set()
        self._to_follow: list[tuple[Rank, tuple[CommitID, ...]]] = []

    def __len__(self) -> int:
        return len(self._reached)

    def add(self, commit: Commit) -> None:
        """Count a commit among them, and all its ancestors."""
        if commit.id not in self._reached:
            self._reached.add(commit.id)
            heapq.heappush(self._to_follow, (rank(commit), commit.parents))

    def include(self, commit: Commit) -> bool:
        """Whether a commit is one of them.

        Raises:
            CommitNotFound: A parent is not there. Then this is of no use any more.
        """
        place = rank(commit)
        while commit.id not in self._reached and self._to_follow and self._to_follow[0][0] < place:
            _, parents = heapq.heappop(self._to_follow)
            for parent in parents:
                if parent not in self._reached:
                    self.add(self._commits.get(self._repository, parent))
        return commit.id in self._reached


class MergeBases:
    """Finds where two lines of commits parted.

    Many branches are merged into one, whose head moves on each time. So the ancestors of a head
    that were looked at are remembered, and the next search looks only at the commits that came
    since, however long ago the lines parted. Commits never change, and what is remembered is always
    true; one search at a time has it.
    """

    def __init__(self, commits: Commits, runtime: Runtime) -> None:
        self._commits = commits
        self._remembered: LRU[tuple[bytes, CommitID], _Ancestors] = LRU(
            runtime, cost_max=REMEMBERED_COMMITS
        )

    def get(self, repository: Repository, source_id: CommitID, head_id: CommitID) -> Commit:
        """Return the best common ancestor of two commits; see `find`.

        Raises:
            Invalid: They have none.
        """
        base = self.find(repository, source_id, head_id)
        if base is None:
            raise Invalid(f"commits {source_id} and {head_id} have no ancestor in common")
        return base

    def find(self, repository: Repository, source_id: CommitID, head_id: CommitID) -> Commit | None:
        """Return the best common ancestor of two commits, or None if their histories are unrelated.

        A commit counts as its own ancestor. The best is one that is not an ancestor of another
        common one. After criss-cross merges there are several: the one with the highest generation
        is taken, of equal ones the newest, then the one with the smallest id. So the answer is the
        same whichever of the two is called the head, the one whose ancestors are remembered.

        The ancestors of the source are asked for in order, and the first that the head has too is
        the answer: any common descendant of that one would have had its turn before. Only commits
        are read whose generation is not below that of the answer, and their parents.

        Raises:
            CommitNotFound: One of the two is not there.
        """
        source = self._commits.get(repository, source_id)
        head = self._commits.get(repository, head_id)
        ancestors = self._recall(repository, source, head)
        ancestors.add(head)
        base = self._find_first(repository, source, ancestors)
        # Not where an error broke the search off: some parents may not have been added then.
        self._remembered.put((repository.partition, head.id), ancestors, cost=len(ancestors))
        return base

    def _recall(self, repository: Repository, source: Commit, head: Commit) -> _Ancestors:
        """Return what is remembered of a head, or of what it was not long ago.

        It is looked for only among commits that the search would have to read in any case.
        """
        older = head
        for _ in range(_LOOK_BACK):
            held = self._remembered.pop((repository.partition, older.id))
            if held is not None:
                return held
            if not older.parents or older.generation <= source.generation:
                break
            older = self._commits.get(repository, older.parents[0])
        return _Ancestors(self._commits, repository)

    def _find_first(
        self, repository: Repository, source: Commit, ancestors: _Ancestors
    ) -> Commit | None:
        frontier = Frontier(self._commits, repository)
        frontier.add(source.id)
        while frontier:
            commit, _ = frontier.pop()
            if ancestors.include(commit):
                return commit
            for parent in commit.parents:
                frontier.add(parent)
        return None
