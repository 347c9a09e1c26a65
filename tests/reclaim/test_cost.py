"""What an optimized run in one process costs: by the change, not by the repository."""

from collections import Counter
from pathlib import Path

import pytest

from lakebed.block import MemorySettings
from lakebed.engine.model import BranchID
from lakebed.reclaim.collector.report import RunSummary
from tests.kit.lake import MAIN, REPOSITORY, open_lake
from tests.reclaim.test_kills import run
from tests.spark.lakes import GCLake


def nightly_run(folder: Path, *, commits: int) -> tuple[RunSummary, Counter[str]]:
    """A run over so many old commits, each with two objects, and over a little that is new."""
    with open_lake("memory", folder) as opened:
        lake = GCLake(opened, MemorySettings(), None)
        for number in range(commits):
            for path in (f"{number}/a", f"{number}/b"):
                opened.upload(path.encode(), path)
            lake.commit()
        for number in range(commits // 3):
            opened.engine.refs.create_branch(REPOSITORY, BranchID(f"idle-{number}"), MAIN)
        lake.later(24 * 9)
        clean, _ = run(lake)
        assert (clean.mode, clean.listed) == ("clean", 2 * commits)
        lake.later()
        for path in ("new", "staged"):
            opened.upload(path.encode(), path)
            if path == "new":
                lake.commit()
        summary, calls = run(lake)
        return summary, Counter(calls)


def test_a_run_reads_and_lists_what_is_new(tmp_path: Path) -> None:
    small, calls = nightly_run(tmp_path, commits=3)
    large, more_calls = nightly_run(tmp_path, commits=60)
    for summary in (small, large):
        assert (summary.mode, summary.listed, summary.ranges_read) == ("optimized", 2, 1)
    assert calls == more_calls
    # Of old commits and ranges, an id each; of old objects, nothing.
    assert large.rows_read - small.rows_read <= 5 * (60 - 3)


def test_the_count_tells_a_clean_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "lakebed.reclaim.collector.rules.may_optimize", lambda *_args, **_more: False
    )
    small, calls = nightly_run(tmp_path, commits=3)
    large, more_calls = nightly_run(tmp_path, commits=12)
    assert large.listed > small.listed
    assert more_calls["read"] > calls["read"]
