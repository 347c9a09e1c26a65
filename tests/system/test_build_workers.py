"""Commits and merges built in other processes, which may die at any moment."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.build_processes import (
    BuilderDied,
    BuilderHung,
    Builders,
    BuildersBusy,
    _Builder,
)
from lakebed.engine.commits.build import BuildRequest
from lakebed.engine.commits.requests import CommitRequest, CommitResult, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import MergeConflict, MissingFile, NoChanges
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import BranchID, Commit, Repository, RepositoryID
from lakebed.engine.settings import EngineSettings
from lakebed.engine.staging.cells import encode
from lakebed.formats import MetaRangeID
from lakebed.kv import Store, open_store
from lakebed.kv.store import puts
from lakebed.lake.commits import HeadChanges
from tests.kit import staging
from tests.server.disk_kit import commit, first_commit, serve
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
REQUEST = CommitRequest(committer="tester", message="all of it")
PATIENCE_SECONDS = 60.0
LARGE = EngineSettings().large_commit_keys
LARGE_MERGE = 1_000
MERGE = MergeRequest(committer="tester", message="both of them")

PARENT = """
import multiprocessing, sys, time
from pathlib import Path
from unittest.mock import Mock
from lakebed.block import LocalSettings, Namespace
from lakebed.base.errors import LakebedError
from lakebed.engine.commits.build import BuildRequest
from lakebed.engine.model import FilesRoot
from lakebed.engine.build_processes import Builders

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    home = FilesRoot(Namespace.parse("local://lake/repo"), "uid")
    workers = Builders(f"sqlite:///{folder}/kv.db", LocalSettings(folder / "blocks"))
    try:
        workers.build(BuildRequest(home, "0" * 64, ()))
    except LakebedError:
        pass
    print(multiprocessing.active_children()[0].pid, flush=True)
    time.sleep(600)
"""


class BuildLake:
    """A repository whose large commits are built by one worker."""

    def __init__(self, folder: Path, store: Store, workers: Builders) -> None:
        block = open_block(LocalSettings(folder / "blocks"))
        self.store = store
        self.engine = Engine(
            store,
            block,
            settings=EngineSettings(large_merge_rows=LARGE_MERGE),
            build_large=workers.build,
            merge_large=workers.merge,
            on_large_forecast=workers.prepare,
        )
        self.alone = Engine(store, block)
        namespace = Namespace.parse("local://lake/repo")
        self.repository: Repository = self.engine.repositories.create(
            LAKE, namespace, committer="tester"
        )

    def stage(self, count: int, branch: BranchID = MAIN, *, first: int = 0, text: str = "") -> None:
        token = self.engine.branches.get(self.repository, branch).staging_token.encode()
        keys = [b"%06d" % number for number in range(first, first + count)]
        values = ((STAGED_PREFIX + key, encode(entry(key, text or key.decode()))) for key in keys)
        self.store.write(puts(token, values))

    def put(self, number: int, *, text: str = "") -> None:
        key = b"%06d" % number
        staging.put(self.engine, LAKE, MAIN, entry(key, text or key.decode()))

    def commit(self) -> CommitResult:
        return HeadChanges(self.engine).commit(LAKE, MAIN, REQUEST)

    def nothing(self) -> BuildRequest:
        """Ask for a build of no changes."""
        head = self.engine.branches.get(self.repository, MAIN).commit_id
        base = self.engine.commits.get(self.repository, head).metarange_id
        return BuildRequest(self.repository.files_root, base, ())

    def part(self, count: int, *, same: int = 0) -> None:
        """Let two branches change so many entries each, of which some are the same."""
        self.stage(2 * count)
        HeadChanges(self.alone).commit(LAKE, MAIN, REQUEST)
        for branch, first in (("ours", 0), ("theirs", count - same), ("again", count - same)):
            made = self.alone.refs.create_branch(LAKE, branch, "main").id
            self.stage(count, made, first=first, text=branch.replace("again", "theirs"))
            HeadChanges(self.alone).commit(LAKE, made, REQUEST)

    def merge(self) -> Commit:
        return HeadChanges(self.engine).merge(LAKE, "ours", BranchID("theirs"), MERGE)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Builders]:
    with Builders(f"sqlite:///{tmp_path}/kv.db", LocalSettings(tmp_path / "blocks")) as some:
        yield some


@pytest.fixture
def lake(tmp_path: Path, workers: Builders) -> Iterator[BuildLake]:
    with open_store(f"sqlite:///{tmp_path}/kv.db") as store:
        yield BuildLake(tmp_path, store, workers)


def test_a_worker_builds_what_this_process_would(lake: BuildLake) -> None:
    dev = lake.engine.refs.create_branch(LAKE, "dev", "main").id
    lake.stage(2 * LARGE)
    lake.stage(2 * LARGE, dev)
    theirs = lake.commit().commit
    assert len(multiprocessing.active_children()) == 1
    ours = HeadChanges(lake.alone).commit(LAKE, dev, REQUEST).commit
    assert theirs.metarange_id == ours.metarange_id
    with pytest.raises(NoChanges):
        lake.commit()


def test_a_worker_does_without_pandas(lake: BuildLake) -> None:
    lake.stage(LARGE)
    lake.commit()
    (worker,) = multiprocessing.active_children()
    libraries = Path(f"/proc/{worker.pid}/maps").read_text()
    assert "/pyarrow/" in libraries
    assert "/pandas/" not in libraries


def test_a_small_commit_starts_no_process(lake: BuildLake) -> None:
    lake.stage(LARGE - 1)
    lake.commit()
    assert multiprocessing.active_children() == []


def test_many_writes_start_a_worker_before_the_commit(lake: BuildLake) -> None:
    for number in range(LARGE - 1):
        lake.put(number)
    lake.commit()
    for number in range(LARGE - 1):
        lake.put(number, text="other")
    assert multiprocessing.active_children() == []  # they were counted from the commit on
    lake.put(0, text="another")
    (worker,) = multiprocessing.active_children()
    for number in range(LARGE):
        staging.delete(lake.engine, LAKE, MAIN, b"%06d" % number)
    lake.commit()
    assert multiprocessing.active_children() == [worker]


def test_a_worker_is_prepared_once_and_builds_next(tmp_path: Path, lake: BuildLake) -> None:
    url, block = f"sqlite:///{tmp_path}/kv.db", LocalSettings(tmp_path / "blocks")
    with Builders(url, block, processes=2) as two:
        two.prepare()
        two.prepare()
        (worker,) = multiprocessing.active_children()
        two.build(lake.nothing())
        assert multiprocessing.active_children() == [worker]
        with _one_at_work(two):
            two.prepare()
            assert len(multiprocessing.active_children()) == 2
            with _one_at_work(two):
                two.prepare()  # all are at work
        assert len(multiprocessing.active_children()) == 2


@pytest.mark.parametrize("error", [BlockingIOError("too many"), RuntimeError("not here")])
def test_a_writer_does_not_fail_where_no_process_can_be_started(
    lake: BuildLake, workers: Builders, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(_Builder, "_start", Mock(side_effect=error))
        workers.prepare()
    lake.stage(LARGE)
    lake.commit()


def test_small_tokens_together_are_a_large_commit(lake: BuildLake) -> None:
    lake.stage(LARGE // 2)
    branch = lake.engine.branches.get(lake.repository, MAIN)
    lake.engine.publisher.seal(lake.repository, branch)
    lake.stage(LARGE // 2, first=LARGE // 2)
    lake.commit()
    assert len(multiprocessing.active_children()) == 1


def test_a_build_whose_worker_is_killed_is_done_by_another(lake: BuildLake) -> None:
    lake.stage(20_000)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lake.commit)
        killed = _kill_workers_until(lambda: True)
        result = future.result(PATIENCE_SECONDS)
    assert len(killed) == 1
    assert [worker.pid for worker in multiprocessing.active_children()] != killed
    assert staging.get(lake.alone, LAKE, result.commit.id, b"019999").size == 1


def test_a_commit_whose_workers_all_die_says_so_and_loses_nothing(lake: BuildLake) -> None:
    lake.stage(20_000)
    with ThreadPoolExecutor(1) as pool:
        future: Future[CommitResult] = pool.submit(lake.commit)
        killed = _kill_workers_until(future.done)
        with pytest.raises(BuilderDied, match="exit code -9"):
            future.result()
    assert len(killed) == 2
    assert staging.get(lake.alone, LAKE, "main", b"019999").size == 1
    result = lake.commit()  # in a new worker
    assert staging.get(lake.alone, LAKE, result.commit.id, b"019999").size == 1


def test_a_worker_that_hangs_is_ended(lake: BuildLake, workers: Builders) -> None:
    lake.stage(LARGE)
    lake.commit()
    (hung,) = multiprocessing.active_children()
    assert hung.pid is not None
    os.kill(hung.pid, signal.SIGSTOP)
    lake.stage(2 * LARGE)
    workers._limit_seconds = 0.5
    with pytest.raises(BuilderHung, match=r"was killed after 0\.5 seconds"):
        lake.commit()
    assert not _is_running(hung.pid)
    workers._limit_seconds = PATIENCE_SECONDS
    result = lake.commit()  # in a new worker
    assert staging.get(lake.alone, LAKE, result.commit.id, b"001999").size == 1


def test_a_build_does_not_wait_for_its_turn_for_ever(lake: BuildLake, workers: Builders) -> None:
    lake.stage(LARGE)
    workers._limit_seconds = 0.1
    taken = workers._idle.get()
    with pytest.raises(BuildersBusy, match=r"no build process was free within 0\.1 seconds"):
        lake.commit()
    workers._idle.put(taken)
    workers._limit_seconds = PATIENCE_SECONDS
    lake.commit()


def test_a_worker_merges_what_this_process_would(lake: BuildLake) -> None:
    lake.part(LARGE_MERGE)
    theirs = lake.merge()
    assert len(multiprocessing.active_children()) == 1
    ours = HeadChanges(lake.alone).merge(LAKE, "ours", BranchID("again"), MERGE)
    assert theirs.metarange_id == ours.metarange_id
    assert staging.get(lake.alone, LAKE, "theirs", b"%06d" % 0) == staging.get(
        lake.alone, LAKE, "ours", b"%06d" % 0
    )


def test_a_small_merge_starts_no_process(lake: BuildLake) -> None:
    lake.part(LARGE_MERGE // 10)  # twice as many entries on each of three sides
    lake.merge()
    assert multiprocessing.active_children() == []


def test_conflicts_that_a_worker_finds_are_all_told(lake: BuildLake) -> None:
    lake.part(LARGE_MERGE, same=3)
    with pytest.raises(MergeConflict) as caught:
        lake.merge()
    assert len(multiprocessing.active_children()) == 1
    keys = [b"%06d" % (LARGE_MERGE - number) for number in (3, 2, 1)]
    assert caught.value.conflicts["key"].to_pylist() == keys


def test_a_merge_whose_worker_is_killed_is_done_by_another(lake: BuildLake) -> None:
    lake.part(LARGE_MERGE)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(lake.merge)
        killed = _kill_workers_until(lambda: True)
        merged = future.result(PATIENCE_SECONDS)
    assert [worker.pid for worker in multiprocessing.active_children()] != killed
    assert staging.get(lake.alone, LAKE, merged.id, b"000000") == staging.get(
        lake.alone, LAKE, "ours", b"000000"
    )


def test_a_merge_whose_workers_all_die_changes_nothing(lake: BuildLake) -> None:
    lake.part(LARGE_MERGE)
    before = lake.engine.branches.get(lake.repository, BranchID("theirs"))
    with ThreadPoolExecutor(1) as pool:
        future: Future[Commit] = pool.submit(lake.merge)
        killed = _kill_workers_until(future.done)
        with pytest.raises(BuilderDied, match="exit code -9"):
            future.result()
    assert len(killed) == 2
    after = lake.engine.branches.get(lake.repository, BranchID("theirs"))
    assert after.commit_id == before.commit_id
    lake.merge()  # in a new worker


def test_as_many_processes_as_are_asked_for(tmp_path: Path, lake: BuildLake) -> None:
    request = lake.nothing()
    base = request.base
    url, block = f"sqlite:///{tmp_path}/kv.db", LocalSettings(tmp_path / "blocks")
    with Builders(url, block, processes=2) as two:
        assert [two.build(request).metarange_id for _ in range(3)] == [base] * 3
        assert len(multiprocessing.active_children()) == 1
        with _one_at_work(two):
            assert two.build(request).metarange_id == base
        assert len(multiprocessing.active_children()) == 2
    assert multiprocessing.active_children() == []


def test_a_commit_as_large_as_is_set_goes_to_a_builder(tmp_path: Path) -> None:
    first_commit(tmp_path)
    with serve(tmp_path, engine__large_commit_keys=3) as server:
        for names, builders in (("bc", 0), ("def", 1)):
            for name in names:
                server.put(name)
            commit(server)
            children = multiprocessing.active_children()
            assert len(children) == builders
    for child in children:
        child.kill()
        child.join()


def test_errors_of_a_worker_are_raised_as_they_are(lake: BuildLake, workers: Builders) -> None:
    missing = MetaRangeID("0" * 64)
    with pytest.raises(MissingFile, match=missing):
        workers.build(BuildRequest(lake.repository.files_root, missing, ()))


def test_a_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command = [sys.executable, str(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        os.kill(worker, 0)
        parent.kill()
    _wait_until(lambda: not _is_running(worker))


@contextmanager
def _one_at_work(workers: Builders) -> Iterator[None]:
    """Let one of the workers be busy."""
    busy = workers._idle.get()
    yield
    workers._idle.put(busy)


def _kill_workers_until(enough: Callable[[], bool]) -> list[int | None]:
    """Kill every worker that shows up, at least one; return their ids."""
    killed: list[int | None] = []

    def kill() -> bool:
        for worker in multiprocessing.active_children():
            if worker.pid not in killed and worker.pid is not None:
                os.kill(worker.pid, signal.SIGKILL)
                killed.append(worker.pid)
        return bool(killed) and enough()

    _wait_until(kill)
    return killed


def _is_running(pid: int) -> bool:
    """Whether a process runs; one that ended but that nobody has waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)
