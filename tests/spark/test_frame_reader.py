"""How frames are read, as far as their plans tell."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.block import LocalSettings, Namespace
from lakebed.reclaim.collector.frame_reader import FrameReader
from lakebed.reclaim.collector.storage import Storage

pytestmark = pytest.mark.timeout(300)


def test_folders_that_are_listed_again_stay_in_their_tasks(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = Namespace.parse("local://lake/data")
    sources = FrameReader(spark, Storage(LocalSettings(tmp_path), namespace, "a0"))
    sources.listed({"a0", "b0"}, 0, sources.counter()).explain()
    plan = capsys.readouterr().out
    # Dealt out in turn, a folder that came meanwhile would move all that follow.
    assert "RoundRobin" not in plan
    assert plan.count("hashpartitioning(folder") == 2
