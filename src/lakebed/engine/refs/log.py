"""Logs: the commits that led to one, all of them or those that changed some objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.engine.committed import Committed
from lakebed.engine.committed.columns import prefix_end, successor
from lakebed.engine.committed.walk import map_ahead
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.engine.refs.ancestry import Frontier, rank
from lakebed.engine.refs.commits import Commits

_HIDDEN: Final = 1

PAGES_KILOBYTES: Final = 20_000
"""Pages are kept in memory up to so much; see `Commit.weight`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Which commits of a history to show."""

    first_parent: bool = False
    """Follow only the first parent of each."""
    since_us: int | None = None
    """Leave out commits older than this, and what is reached only through them. Like Git, this
    takes for granted that dates rise along each line of history."""
    stop_at: CommitID | None = None
    """Show this commit and nothing of its own history."""
    after: CommitID | None = None
    """Show what comes after this commit, which is the last one of the page before."""
    keys: tuple[bytes, ...] = ()
    """If there are keys or prefixes, show only commits with one parent that changed one of those
    objects."""
    prefixes: tuple[bytes, ...] = ()
    """See `keys`."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """Some commits of a log."""

    commits: tuple[Commit, ...]
    has_more: bool
    """Whether others follow; false if that was not to be found out."""
    refused: Mapping[CommitID, str] = field(default_factory=dict)
    """The refused commits, each with the hook that refused it. That is at most the commit that was
    asked for by its id: no ref leads to another."""


class History:
    """Walks through the commits of repositories."""

    def __init__(self, commits: Commits, runtime: Runtime) -> None:
        self._commits = commits
        self._runtime = runtime
        # What led to a commit never changes.
        self._pages: LRU[_PageKey, LogPage] = LRU(runtime, cost_max=PAGES_KILOBYTES)

    def log(
        self, repository: Repository, committed: Committed, head: CommitID, query: LogQuery
    ) -> Iterator[Commit]:
        """Iterate over the commits that a query asks for, each once, in the order of `rank`.

        A commit *changed* an object if the entry's identity is not the same as in its parent. Of
        commits with several parents, or none, nobody can tell: a merge only brings along what
        others changed, and a log of objects is to name those. So it leaves them out. Most commits
        are judged by ids alone: of the metaranges, then of the ranges that can hold the object.
        Ranges are read only where these differ.

        To go on behind `after`, a first-parent log starts there. Any other log walks from the head
        again, since a page does not say which lines of history were open at its end.

        Raises:
            CommitNotFound: There is no such commit.
        """
        steps = self._walk(repository, _start(head, query), query)
        if query.after is not None:
            last_shown = rank(self._commits.get(repository, query.after))
            steps = (step for step in steps if rank(step[0]) > last_shown)
        windows = _windows(query)
        if not windows:
            return (commit for commit, _ in steps)

        def judge(step: tuple[Commit, Commit]) -> tuple[Commit, bool]:
            return step[0], _changed(committed, *step, windows)

        pairs = (
            (commit, parent)
            for commit, parent in steps
            if parent is not None and len(commit.parents) == 1
        )
        judged = map_ahead(self._runtime, judge, pairs)
        return (commit for commit, changed in judged if changed)

    def page(
        self,
        repository: Repository,
        committed: Committed,
        head: CommitID,
        query: LogQuery,
        *,
        amount: int,
        look_ahead: bool = True,
    ) -> LogPage:
        """Return the first commits that a query asks for.

        Args:
            repository: Whose commits.
            committed: Its entries.
            head: Where to begin.
            query: Which commits.
            amount: The largest number of commits.
            look_ahead: Whether to find out if others follow. That can mean to search the whole rest
                of the history for one more commit that changed an object.

        Raises:
            CommitNotFound: There is no such commit.
        """
        key = (repository.partition, head, query, amount, look_ahead)
        page = self._pages.get(key)
        if page is None:
            found = self.log(repository, committed, head, query)
            page = _first_page(found, amount, look_ahead=look_ahead)
            self._pages.put(key, page, cost=1 + sum(each.weight for each in page.commits))
        return page

    def _walk(self, repository: Repository, head: CommitID, query: LogQuery) -> Iterator["_Step"]:
        """Yield commits with their first parents; `keys`, `prefixes` and `after` are left out."""
        frontier = Frontier(self._commits, repository)
        frontier.add(head)
        while frontier:
            commit, hidden = frontier.pop()
            too_old = query.since_us is not None and commit.created_us < query.since_us
            if too_old and not hidden:
                continue
            hides = _HIDDEN if hidden or commit.id == query.stop_at else 0
            followed = commit.parents[:1] if query.first_parent else commit.parents
            parents = [frontier.add(parent, hides) for parent in followed]
            if not hidden:
                yield commit, parents[0] if parents else None
            if hides and frontier.all_have(_HIDDEN):
                return


_Step = tuple[Commit, Commit | None]
"""A commit and its first parent."""

_Window = tuple[bytes, bytes | None]
"""The keys from one up to, not including, another."""


_PageKey = tuple[bytes, CommitID, LogQuery, int, bool]


def _first_page(commits: Iterator[Commit], amount: int, *, look_ahead: bool) -> LogPage:
    found: list[Commit] = []
    for commit in commits:
        if len(found) == amount:
            return LogPage(tuple(found), has_more=True)
        found.append(commit)
        if len(found) == amount and not look_ahead:
            break
    return LogPage(tuple(found), has_more=False)


def _start(head: CommitID, query: LogQuery) -> CommitID:
    if query.first_parent and query.after is not None:
        return query.after
    return head


def _windows(query: LogQuery) -> list[_Window]:
    keys: list[_Window] = [(key, successor(key)) for key in query.keys]
    return keys + [(prefix, prefix_end(prefix)) for prefix in query.prefixes]


def _changed(committed: Committed, commit: Commit, parent: Commit, windows: list[_Window]) -> bool:
    before, now = parent.metarange_id, commit.metarange_id
    return now != before and any(
        committed.differ(before, now, start=start, end=end) for start, end in windows
    )
