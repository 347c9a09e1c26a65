"""Migration of a repository's history: all commits keep their ids, no object is copied.

Commits are migrated parents first. For each, only the ranges missing in its first parent are read.
Its entries are those of the parent with some key intervals replaced: the intervals of added and of
removed ranges. Ranges of a metarange do not overlap, so common ranges lie outside of these
intervals. So each range is read once, and the cost of a commit is the cost of its changes.

A commit with a record is complete, so a run after a crash resumes with the other commits. Two
concurrent runs duplicate work but do no harm: metaranges are named by their content, and the
commit records differ only in time.

The target is read-only until the last round. Branches and tags are written last, so no ref ever
points to a missing commit.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from lakebed.base.lru import LRU
from lakebed.base.runtime import Runtime
from lakebed.clients.migrate.errors import DamagedHistory, DamagedTable
from lakebed.clients.migrate.lakefs_source import LakeFSSource, SourceCommit
from lakebed.clients.migrate.values import SourceRange, read_entries, read_ranges
from lakebed.engine.committed import Committed, Interval
from lakebed.engine.committed.columns import successor
from lakebed.engine.committed.walk import map_ahead
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitNotFound
from lakebed.engine.model import Commit, CommitID, Repository
from lakebed.formats import MetaRangeID

_METARANGES_KEPT: Final = 100_000
"""Size of the metarange cache, in ranges."""


@dataclass
class MigrationProgress:
    """Progress of a migration."""

    commits: int = 0
    known_commits: int = 0
    """Commits migrated before."""
    unproved: list[str] = field(default_factory=list)
    """Commits whose ids do not match their fields."""
    missing_parents: list[tuple[str, str]] = field(default_factory=list)
    """Commits migrated without a parent, which lakeFS no longer has, each with that parent."""
    ranges: int = 0
    entries: int = 0


class HistoryMigration:
    """Migration of one repository's commits."""

    def __init__(
        self, engine: Engine, repository: Repository, source: LakeFSSource, runtime: Runtime
    ) -> None:
        self._engine = engine
        self._repository = repository
        self._source = source
        self._runtime = runtime
        self._committed: Committed = engine.committed(repository)
        self._metaranges: LRU[str, list[SourceRange]] = LRU(runtime, cost_max=_METARANGES_KEPT)
        self._lock = runtime.lock()
        self.progress = MigrationProgress()

    def run(self) -> Iterator[MigrationProgress]:
        """Migrate all commits, generation by generation; yield the progress after each.

        Raises:
            DamagedHistory: The history has a cycle.
            DamagedTable: A file of lakeFS is damaged.
            UnreadableAddresses: The storage cannot read some objects of a commit, which is skipped.
        """
        commits = {commit.id: commit for commit in self._source.refs.commits()}
        self.progress.missing_parents = [
            (commit.id, parent)
            for commit in commits.values()
            for parent in commit.parents
            if parent not in commits
        ]
        for generation in generations(commits):
            self._runtime.map_parallel(
                lambda commit: self._take(commit, commits), generation, limit=_AT_ONCE
            )
            yield self.progress

    def _take(self, commit: SourceCommit, commits: Mapping[str, SourceCommit]) -> None:
        if self._find(commit.id) is not None:
            with self._lock:
                self.progress.known_commits += 1
            return
        parents = [self._find(parent) for parent in commit.parents]
        known = [parent for parent in parents if parent is not None]
        first = commits.get(commit.parents[0]) if commit.parents else None
        base = None if first is None else known[0].metarange_id
        metarange_id = self._entries(commit, first, base)
        is_right = self._engine.commits.adopt(
            self._repository,
            CommitID(commit.id),
            committer=commit.committer,
            message=commit.message,
            metarange_id=metarange_id,
            parents=known,
            metadata=commit.metadata,
            created_us=commit.created_us,
            source_metarange_id=commit.metarange_id,
            swapped=commit.swapped,
        )
        with self._lock:
            self.progress.commits += 1
            if not is_right:
                self.progress.unproved.append(commit.id)

    def _find(self, commit_id: str) -> Commit | None:
        try:
            return self._engine.commits.get(self._repository, CommitID(commit_id))
        except CommitNotFound:
            return None

    # Entries

    def _entries(
        self, commit: SourceCommit, first: SourceCommit | None, base: MetaRangeID | None
    ) -> MetaRangeID:
        """Store the entries of a commit, given those of its first parent."""
        after = self._ranges(commit.metarange_id)
        before = [] if first is None else self._ranges(first.metarange_id)
        came, went = _missing(after, before), _missing(before, after)
        if base is not None and not came and not went:
            return base
        ingest = self._committed.ingest()
        for part in map_ahead(self._runtime, self._read, came):
            ingest.add(part)
        replacement = ingest.finish()
        if base is None:
            return replacement
        return self._committed.replace(base, replacement, intervals_of([*came, *went]))

    def _ranges(self, metarange_id: str) -> list[SourceRange]:
        if not metarange_id:
            return []
        found = self._metaranges.get(metarange_id)
        if found is None:
            found = read_ranges(
                self._source.files.metarange(metarange_id), f"metarange {metarange_id}"
            )
            self._metaranges.put(metarange_id, found, cost=1 + len(found))
        return found

    def _read(self, source: SourceRange) -> pa.Table:
        """Return the entries of a range, checked against its metarange."""
        name = f"range {source.id}"
        data = self._source.files.range(source.id)
        table = pa.concat_tables(read_entries(data, name, self._source.refs.namespace))
        keys = table.column("key")
        if table.num_rows != source.count or not table.num_rows:
            reason = f"it has {table.num_rows} rows instead of {source.count}"
            raise DamagedTable(name, reason)
        if keys[0].as_py() != source.min_key or keys[-1].as_py() != source.max_key:
            raise DamagedTable(name, "its keys do not match its metarange")
        with self._lock:
            self.progress.ranges += 1
            self.progress.entries += table.num_rows
        return self._source.addresses.of_entries(table, name)


_AT_ONCE: Final = 4
"""Parallel migrations of commits in a generation."""


def generations(commits: Mapping[str, SourceCommit]) -> Iterator[Sequence[SourceCommit]]:
    """Yield the commits in groups, each after the groups of all known parents."""
    children: dict[str, list[str]] = defaultdict(list)
    missing: dict[str, int] = {}
    for commit in commits.values():
        parents = commits.keys() & set(commit.parents)
        missing[commit.id] = len(parents)
        for parent in parents:
            children[parent].append(commit.id)
    ready = [commit_id for commit_id, count in missing.items() if not count]
    done = 0
    while ready:
        ready.sort()
        yield [commits[commit_id] for commit_id in ready]
        done += len(ready)
        following = []
        for commit_id in ready:
            for child in children[commit_id]:
                missing[child] -= 1
                if not missing[child]:
                    following.append(child)
        ready = following
    if done < len(commits):
        left = min(commit_id for commit_id, count in missing.items() if count)
        raise DamagedHistory(f"commit {left} is its own ancestor")


def intervals_of(ranges: Iterable[SourceRange]) -> list[Interval]:
    """Return the key intervals covered by ranges, merged and sorted."""
    merged: list[tuple[bytes, bytes]] = []
    for start, last in sorted((each.min_key, each.max_key) for each in ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((start, last))
    return [Interval(start, successor(last)) for start, last in merged]


def _missing(ranges: Sequence[SourceRange], stored: Sequence[SourceRange]) -> list[SourceRange]:
    known = {each.id for each in stored}
    return [each for each in ranges if each.id not in known]
