"""The frames mean what the rules say: both on the same random inputs."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from lakebed.reclaim.collector import frames
from lakebed.reclaim.collector.frames import JUDGED, PATHS, STORED
from lakebed.reclaim.collector.rules import ScannedObject
from tests.kit.gc_inputs import LOOK, RandomLook

pytestmark = pytest.mark.timeout(300)


def listing(spark: SparkSession, objects: list[ScannedObject]) -> DataFrame:
    rows = [(one.path, one.size, one.born_us, one.made_us) for one in objects]
    return spark.createDataFrame(rows, STORED)


def paths(spark: SparkSession, chosen: list[str]) -> DataFrame:
    return spark.createDataFrame([(path,) for path in chosen], PATHS)


def test_judging_and_what_comes_of_it(spark: SparkSession) -> None:
    look = RandomLook(7)
    saved = spark.createDataFrame(look.saved, JUDGED)
    judged = frames.judge(
        frames.observed_objects(saved, listing(spark, look.listed), look.state.closed_before_us),
        committed=paths(spark, look.committed).unionByName(frames.saved_commit_referenced(saved)),
        uncommitted=paths(spark, look.uncommitted),
        saved=saved,
        times=LOOK,
    )
    assertDataFrameEqual(judged, spark.createDataFrame(look.rows, JUDGED))
    due = judged.where(frames.is_due(LOOK)).select("path").collect()
    assert {found.path for found in due} == look.due
    freed = frames.with_freed(judged, paths(spark, look.old))
    assert freed.count() == judged.count()
    assert {found.path for found in freed.where("is_freed").collect()} == look.freed
    kept = judged.where(frames.is_remembered(LOOK.closed_before_us)).select("path").collect()
    assert {found.path for found in kept} == look.remembered


def test_empty_tables(spark: SparkSession) -> None:
    nothing = spark.createDataFrame([], JUDGED)
    judged = frames.judge(
        spark.createDataFrame([], STORED),
        committed=spark.createDataFrame([], PATHS),
        uncommitted=spark.createDataFrame([], PATHS),
        saved=nothing,
        times=LOOK,
    )
    assertSchemaEqual(judged.schema, JUDGED, ignoreNullable=True)
    assert judged.collect() == []


def test_known_rows_are_left_out(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    found = spark.createDataFrame([("a", 1), ("b", 2), ("b", 3), ("c", 4)], "id string, n long")
    known = spark.createDataFrame([("a",), ("a",), ("x",)], "id string")
    expected = spark.createDataFrame([("b", 2), ("b", 3), ("c", 4)], "id string, n long")
    unknown = frames.unknown(found, known, "id")
    assertDataFrameEqual(unknown, expected)
    # Nothing that grows with commits goes through the driver.
    capsys.readouterr()
    unknown.explain()
    assert "SortMergeJoin" in capsys.readouterr().out
