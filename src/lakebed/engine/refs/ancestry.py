"""Walks from commits to their ancestors: the order of every walk, and merge bases."""

import heapq
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.engine.errors import Invalid
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs.commits import Commits

REMEMBERED_COMMITS: Final = 50_000
"""Maximum number of ancestor ids cached by `MergeBases`; each takes some 200 bytes."""

_LOOK_BACK: Final = 100
"""How many commits back from a head `MergeBases` searches for cached ancestors."""

Rank = tuple[int, int, CommitID]
"""Sort key of a commit; the first commit of a walk has the smallest."""


def rank(commit: Commit) -> Rank:
    """Return the sort key: latest generation first, then newest date, then smallest id.

    The order is total, so any two walks agree about any two commits.
    """
    return (-commit.generation, -commit.created_us, commit.id)


class Frontier:
    """Priority queue of commits to visit, each once, children before parents.

    Ancestors have smaller generations. So when a commit is popped, all its descendants in the walk
    have been popped: it has all their flags, and is never added again. Only pending commits are in
    memory, however long the history.
    """

    def __init__(self, commits: Commits, repository: Repository) -> None:
        self._commits = commits
        self._repository = repository
        self._heap: list[Rank] = []
        self._waiting: dict[CommitID, tuple[Commit, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, commit_id: CommitID, flags: int = 0) -> Commit:
        """Add a commit, or flags to a pending commit; return it, or raise `CommitNotFound`."""
        waiting = self._waiting.get(commit_id)
        if waiting is None:
            commit, before = self._commits.get(self._repository, commit_id), 0
            heapq.heappush(self._heap, rank(commit))
        else:
            commit, before = waiting
        self._waiting[commit_id] = commit, before | flags
        return commit

    def pop(self) -> tuple[Commit, int]:
        *_, commit_id = heapq.heappop(self._heap)
        return self._waiting.pop(commit_id)

    def all_have(self, flags: int) -> bool:
        """Whether every pending commit has all of these flags."""
        return all(having & flags == flags for _, having in self._waiting.values())


class _Ancestors:
    """A commit and its ancestors, searched only as far down as needed.

    Invariant: an ancestor not yet reached has a pending descendant earlier in the order. So an
    unreached commit before all pending ones is no ancestor. A commit may be added at any time;
    pending commits are still followed in order.
    """

    def __init__(self, commits: Commits, repository: Repository) -> None:
        self._commits = commits
        self._repository = repository
        self._reached: set[CommitID] = set()
        self._to_follow: list[tuple[Rank, tuple[CommitID, ...]]] = []

    def __len__(self) -> int:
        return len(self._reached)

    def add(self, commit: Commit) -> None:
        if commit.id not in self._reached:
            self._reached.add(commit.id)
            heapq.heappush(self._to_follow, (rank(commit), commit.parents))

    def include(self, commit: Commit) -> bool:
        """Whether a commit is an ancestor; the object is unusable after a `CommitNotFound`."""
        place = rank(commit)
        while commit.id not in self._reached and self._to_follow and self._to_follow[0][0] < place:
            _, parents = heapq.heappop(self._to_follow)
            for parent in parents:
                if parent not in self._reached:
                    self.add(self._commits.get(self._repository, parent))
        return commit.id in self._reached


class MergeBases:
    """Finds merge bases: the best common ancestors of two commits.

    Many branches are merged into one, whose head moves each time. So the visited ancestors of a
    head are cached, and the next search visits only newer commits, however old the merge base is.
    Commits never change, so the cache is always valid; each entry is used by one search at a time.
    """

    def __init__(self, commits: Commits, runtime: Runtime) -> None:
        self._commits = commits
        self._remembered: LRU[tuple[bytes, CommitID], _Ancestors] = LRU(
            runtime, cost_max=REMEMBERED_COMMITS
        )

    def get(self, repository: Repository, source_id: CommitID, head_id: CommitID) -> Commit:
        """Return the best common ancestor of two commits, or raise `Invalid`; see `find`."""
        base = self.find(repository, source_id, head_id)
        if base is None:
            raise Invalid(f"commits {source_id} and {head_id} have no common ancestor")
        return base

    def find(self, repository: Repository, source_id: CommitID, head_id: CommitID) -> Commit | None:
        """Return the best common ancestor of two commits, or None if their histories are unrelated.

        A commit counts as its own ancestor. The best common ancestor is not an ancestor of another.
        After criss-cross merges there are several: the highest generation wins, then the newest,
        then the smallest id. So the answer is the same whichever commit is passed as the head,
        whose ancestors are cached.

        The ancestors of the source are visited in order, and the first shared with the head is the
        answer: its common descendants would have been visited before. Only commits whose generation
        is not below the answer's are read, and their parents.

        Raises:
            CommitNotFound: A commit does not exist.
        """
        source = self._commits.get(repository, source_id)
        head = self._commits.get(repository, head_id)
        ancestors = self._recall(repository, source, head)
        ancestors.add(head)
        base = self._find_first(repository, source, ancestors)
        # Not after an error, which may have left out some parents.
        self._remembered.put((repository.partition, head.id), ancestors, cost=len(ancestors))
        return base

    def _recall(self, repository: Repository, source: Commit, head: Commit) -> _Ancestors:
        """Return the cached ancestors of a head, or of a recent predecessor.

        Only commits are tried that the search would read anyway.
        """
        older = head
        for _ in range(_LOOK_BACK):
            remembered = self._remembered.pop((repository.partition, older.id))
            if remembered is not None:
                return remembered
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
