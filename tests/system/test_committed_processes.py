"""Committed metadata: processes that share a cache on disk, and writers that are killed."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from benchmarks.committed_data import in_batches
from lakebed.formats import MetaRangeID
from tests.engine.committed.kit import entry, rows, with_disk
from tests.system.committed_children import read_often, small_ranges, write_on

pytestmark = pytest.mark.extended

MODEL = {b"%03d" % n: entry(b"%03d" % n, n % 12) for n in range(200)}


@pytest.mark.slow
def test_processes_share_a_folder_that_is_too_small(tmp_path: Path) -> None:
    metarange = with_disk(tmp_path).write([rows(MODEL)])
    sizes = [file.stat().st_size for file in (tmp_path / "blocks").rglob("*.parquet")]
    bound = sum(sizes) // 3
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=read_often, args=(tmp_path, bound, metarange, MODEL))
        for _ in range(3)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    assert [child.exitcode for child in children] == [0, 0, 0]
    cached = (tmp_path / "cache/lakebed-ranges").iterdir()
    # Each process may be a sixteenth over since its last look.
    assert sum(file.stat().st_size for file in cached) <= bound * 1.2


@pytest.mark.slow
def test_a_killed_write_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for kill_round in range(3):
        child = context.Process(target=write_on, args=(tmp_path,))
        before = len(list(tmp_path.rglob("ranges/*.parquet")))
        child.start()
        deadline = time.monotonic() + 60
        while len(list(tmp_path.rglob("ranges/*.parquet"))) < before + 3 + 7 * kill_round:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join(30)
        store = small_ranges(tmp_path)
        for file in tmp_path.rglob("metaranges/*.parquet"):
            metarange = MetaRangeID(file.stem)
            count = sum(table.num_rows for table in store.scan(metarange))
            assert count == store._files.metarange(metarange).count
            assert count % 20_000 == 0
    # And what was left does not keep anyone from writing the same again.
    store = small_ranges(tmp_path)
    metarange = store.write(in_batches(0, 20_000, 1, rows=5000))
    assert sum(table.num_rows for table in store.scan(metarange)) == 20_000
    assert store.counters.ranges_reused > 0
