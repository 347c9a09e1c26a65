"""Each metric of the engine moves; rebuilds are tested with the commit protocol."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.commits.build import Builds
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import Cache, committed_for
from lakebed.engine.engine import Engine
from lakebed.engine.errors import MergeConflict, NoChanges
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.settings import CacheSettings, EngineSettings
from lakebed.kv import open_store
from lakebed.lake.commits import HeadChanges
from lakebed.reclaim.cleaner import Cleaner
from tests.engine.samples import sample
from tests.kit import staging
from tests.simulation.world import entry

RUNTIME = ThreadRuntime()
LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")
REQUEST = CommitRequest(committer="tester", message="some")
MERGE = MergeRequest(committer="tester", message="merged")


class MeasuredLake:
    """An engine on a storage on disk, with a second way to build large commits."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store("memory://")
        self.block = open_block(LocalSettings(folder / "blocks"))
        self.cache = CacheSettings(disk_folder=folder / "cache")
        self.engine = self.open()
        self.engine.repositories.create(LAKE, Namespace.parse("local://lake/x"), committer="")

    def open(self) -> Engine:
        """The engine as a new process would open it."""
        committed_in = committed_for(self.block, RUNTIME, Cache(RUNTIME))
        return Engine(
            self.store,
            self.block,
            settings=EngineSettings(large_commit_keys=3),
            cache=self.cache,
            build_large=Builds(self.store, committed_in, RUNTIME, EngineSettings()).apply,
        )

    def put(self, *keys: bytes, branch: BranchID = MAIN, name: str = "") -> None:
        for key in keys:
            staging.put(self.engine, LAKE, branch, entry(key, name or key.decode()))


@pytest.fixture
def lake(tmp_path: Path) -> MeasuredLake:
    return MeasuredLake(tmp_path)


def moved(act: Callable[[], object], name: str, **labels: str) -> float:
    """By how much a metric moves."""
    before = sample(f"lakebed_engine_{name}", **labels)
    act()
    return sample(f"lakebed_engine_{name}", **labels) - before


def test_commits_by_outcome_and_size(lake: MeasuredLake) -> None:
    lake.put(b"a", b"b")

    def commit() -> None:
        HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)

    def commit_nothing() -> None:
        with pytest.raises(NoChanges):
            commit()

    assert moved(commit, "commit_seconds_count", outcome="done") == 1
    lake.put(b"c", b"d")
    assert moved(commit, "commit_changes_sum") == 2
    assert moved(commit_nothing, "commit_seconds_count", outcome="no_changes") == 1
    assert moved(commit_nothing, "commit_changes_count") == 0


def test_builds_by_where_they_are_made(lake: MeasuredLake) -> None:
    lake.put(b"a", b"b")
    commit = lambda: HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)  # noqa: E731
    assert moved(commit, "build_seconds_count", where="here") == 1
    lake.put(b"c", b"d", b"e")
    assert moved(commit, "build_seconds_count", where="process") == 1


def test_merges_by_operation_and_outcome(lake: MeasuredLake) -> None:
    lake.engine.refs.create_branch(LAKE, DEV, MAIN)
    lake.put(b"a", branch=DEV)
    theirs = HeadChanges(lake.engine).commit(LAKE, DEV, REQUEST).commit

    def merge() -> None:
        HeadChanges(lake.engine).merge(LAKE, DEV, MAIN, MERGE)

    def revert() -> None:
        HeadChanges(lake.engine).revert(LAKE, MAIN, theirs.id, REQUEST)

    def merge_with_conflict() -> None:
        for branch in (MAIN, DEV):
            lake.put(b"a", branch=branch, name=f"of {branch}")
            HeadChanges(lake.engine).commit(LAKE, branch, REQUEST)
        with pytest.raises(MergeConflict):
            merge()

    assert moved(merge, "merge_seconds_count", operation="merge", outcome="done") == 1
    assert moved(revert, "merge_seconds_count", operation="revert", outcome="done") == 1
    labels = {"operation": "merge", "outcome": "merge_conflict"}
    assert moved(merge_with_conflict, "merge_seconds_count", **labels) == 1


def test_the_cleaner_counts_removals(lake: MeasuredLake) -> None:
    lake.put(b"a", b"b")
    HeadChanges(lake.engine).reset(LAKE, MAIN)
    cleaner = Cleaner(lake.store, RUNTIME, grace_seconds=0)
    assert moved(cleaner.run_once, "cleaned_total", what="keys") == 2
    cleaner.run_once()
    assert moved(cleaner.run_once, "cleaned_total", what="tokens") == 1


def test_hits_and_misses_of_the_caches(lake: MeasuredLake) -> None:
    lake.put(b"a")
    HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)

    def read(engine: Engine) -> Callable[[], object]:
        return lambda: staging.get(engine, LAKE, "main@", b"a")

    # A new process reads a metarange and a range from the storage, another from the disk.
    first, second, third = lake.open(), lake.open(), lake.open()
    assert moved(read(first), "cache_requests_total", cache="disk", result="miss") == 2
    assert moved(read(second), "cache_requests_total", cache="disk", result="hit") == 2
    assert moved(read(third), "cache_requests_total", cache="memory", result="miss") == 2
    assert moved(read(third), "cache_requests_total", cache="memory", result="hit") == 2
    assert moved(read(third), "cache_requests_total", cache="disk", result="hit") == 0
