"""Versions of objects, served from the commits of a ref.

An object has a version in each commit that changed it since the commit's first parent; see
design/0022-versions-from-commits.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from lakebed.base.runtime import Runtime, to_datetime
from lakebed.base.tracing import traced
from lakebed.engine.committed import ChangeType, CommonPrefix, EntryQuery
from lakebed.engine.committed.versions import EntryVersion
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitNotFound, EntryNotFound, InvalidRef, RefNotFound
from lakebed.engine.model import Commit, CommitID, Repository, RepositoryID, is_commit_id
from lakebed.engine.reading import Reading
from lakebed.engine.refs.log import LogQuery
from lakebed.lake.errors import InvalidVersion, VersionNotFound
from lakebed.lake.model import etag_of

UNCOMMITTED: Final = "null"
"""Version id of an uncommitted change. In a request, it means the ref as it is."""

COMMITS_MAX: Final = 1000
"""Commits that a listing covers. A page takes seconds if each changed the same large range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """A change of an object."""

    id: str
    """The commit, or `UNCOMMITTED`."""
    path: bytes
    is_latest: bool
    is_removal: bool
    """Whether the object was removed; size and checksum are those of the removed object."""
    changed: datetime
    """The date of the commit."""
    size: int
    checksum: str


@dataclass(frozen=True, slots=True)
class VersionPage:
    """A page of versions and common prefixes, by path, newest first."""

    items: list[ObjectVersion | CommonPrefix]
    has_more: bool


class Versions:
    """Lists the versions of objects in all repositories."""

    def __init__(self, engine: Engine, runtime: Runtime, *, commits_max: int = COMMITS_MAX) -> None:
        self._engine = engine
        self._runtime = runtime
        self._commits_max = commits_max

    @traced("catalog.list_versions")
    def list_versions(
        self, repository_id: RepositoryID, ref: str, query: EntryQuery, *, after_id: str = ""
    ) -> VersionPage:
        """Return a page of the versions of a ref.

        With `after_id`, continue with the versions of the path `query.after` older than this one.
        The history is that of first parents, without expired commits. Of a longer history, the
        newest commits count, and the oldest of these has a version of each of its objects.

        Raises:
            RepositoryNotFound, RefNotFound, InvalidRef: The ref does not exist.
            Invalid: The ref means only the staged changes of a branch.
            InvalidVersion: `after_id` is no version.
        """
        engine = self._engine
        for found in engine.reader.in_time(engine.readings.of_ref, repository_id, ref):
            page = self._page(found, ref, query, after_id)
        return page

    def _page(self, found: Reading, ref: str, query: EntryQuery, after_id: str) -> VersionPage:
        repository = found.repository
        staged = self._engine.reader.staged_changes(found, ref, query)
        commits = self._history(repository, found.commit_id)
        page = self._engine.committed(repository).list_versions(
            [commit.metarange_id for commit in commits],
            query,
            staged=staged,
            resume_at=self._first_older(repository, commits, after_id) if after_id else None,
        )
        items = [
            each if isinstance(each, CommonPrefix) else self._version(commits, each)
            for each in page.items
        ]
        return VersionPage(items, page.has_more)

    def _history(self, repository: Repository, head: CommitID) -> list[Commit]:
        """Return the newest commits from `head` on, which may have expired itself."""
        engine = self._engine
        walked = engine.history.page(
            repository,
            engine.committed(repository),
            head,
            LogQuery(first_parent=True),
            amount=self._commits_max,
            look_ahead=False,
        ).commits
        expired = engine.marks.expired_of(repository, [commit.id for commit in walked[1:]])
        return [commit for commit in walked if commit.id not in expired]

    def _first_older(self, repository: Repository, commits: list[Commit], version_id: str) -> int:
        """Return the number of the first commit older than a version.

        Compares generations, as the version's commit may have left the history.
        """
        commit_id = _commit_of(version_id)
        if commit_id is None:
            return 0
        try:
            generation = self._engine.commits.get(repository, commit_id).generation
        except CommitNotFound as error:
            raise InvalidVersion(version_id) from error
        newer = (commit.generation >= generation for commit in commits)
        return sum(newer)

    def _version(self, commits: list[Commit], found: EntryVersion) -> ObjectVersion:
        entry = found.change.entry
        is_removal = found.change.change is ChangeType.REMOVED
        if found.state >= 0:
            commit = commits[found.state]
            version_id, changed = str(commit.id), to_datetime(commit.created_us)
        else:
            now = datetime.fromtimestamp(self._runtime.now(), UTC)
            # Clients sort by dates: an uncommitted change is never older than the head.
            staged = now if is_removal else entry.mtime
            version_id, changed = UNCOMMITTED, max(staged, to_datetime(commits[0].created_us))
        return ObjectVersion(
            id=version_id,
            path=entry.key,
            is_latest=found.is_latest,
            is_removal=is_removal,
            changed=changed,
            size=entry.size,
            checksum=etag_of(entry),
        )


@contextmanager
def reading_version(ref: str, version_id: str) -> Iterator[str]:
    """Yield the ref at which to read a version: its commit, or `ref` if it is uncommitted.

    Raises:
        InvalidVersion: The id is not well formed.
        VersionNotFound: The commit does not exist, or does not have the object that is read.
    """
    commit_id = _commit_of(version_id)
    try:
        yield commit_id or ref
    except (EntryNotFound, RefNotFound, InvalidRef) as error:
        if commit_id is None:
            raise
        raise VersionNotFound(version_id) from error


def _commit_of(version_id: str) -> CommitID | None:
    """Return the commit of a version, or None if it is uncommitted."""
    if version_id == UNCOMMITTED:
        return None
    if not is_commit_id(version_id):
        raise InvalidVersion(version_id)
    return CommitID(version_id)
