"""Logs: the history of a commit, complete or filtered by changed objects."""

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
"""Maximum size of cached pages; see `Commit.weight`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Filters of a log."""

    first_parent: bool = False
    """Follow only the first parent of each commit."""
    since_us: int | None = None
    """Leave out commits older than this, and commits reached only through them. Like Git, this
    assumes that dates rise along each line of history."""
    stop_at: CommitID | None = None
    """Show this commit but none of its ancestors."""
    after: CommitID | None = None
    """Show the commits after this one, which ended the previous page."""
    keys: tuple[bytes, ...] = ()
    """With keys or prefixes, show only single-parent commits with changes of these objects."""
    prefixes: tuple[bytes, ...] = ()
    """See `keys`."""


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page of a log."""

    commits: tuple[Commit, ...]
    has_more: bool
    """Whether more commits follow; False if not determined."""
    refused: Mapping[CommitID, str] = field(default_factory=dict)
    """The refused commits with their refusing hooks. At most the commit requested by its id: no ref
    leads to another."""


class History:
    """Walks the commits of repositories."""

    def __init__(self, commits: Commits, runtime: Runtime) -> None:
        self._commits = commits
        self._runtime = runtime
        # The history of a commit never changes.
        self._pages: LRU[_PageKey, LogPage] = LRU(runtime, cost_max=PAGES_KILOBYTES)

    def log(
        self, repository: Repository, committed: Committed, head: CommitID, query: LogQuery
    ) -> Iterator[Commit]:
        """Iterate over the commits that match a query, each once, in the order of `rank`.

        A commit *changed* an object if the entry's identity differs from its parent's. Commits
        without exactly one parent are left out: a merge only brings along the changes of other
        commits, and a log of objects lists these. Most commits are judged by ids alone: of the
        metaranges, then of the ranges around the object. Ranges are read only where these differ.

        To continue after `after`, a first-parent log starts there. Any other log walks from the
        head again, since a page does not record which lines of history were open at its end.
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
        """Return the first `amount` commits from `head` on that match a query.

        With `look_ahead`, determine if more follow, which can mean to search the whole remaining
        history for another match.
        """
        key = (repository.partition, head, query, amount, look_ahead)
        page = self._pages.get(key)
        if page is None:
            found = self.log(repository, committed, head, query)
            page = _first_page(found, amount, look_ahead=look_ahead)
            self._pages.put(key, page, cost=1 + sum(each.weight for each in page.commits))
        return page

    def _walk(self, repository: Repository, head: CommitID, query: LogQuery) -> Iterator["_Step"]:
        """Yield commits with their first parents; ignores `keys`, `prefixes` and `after`."""
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
"""Start (inclusive) and end (exclusive) of a key range."""


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
