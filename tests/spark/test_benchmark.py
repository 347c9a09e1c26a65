"""The benchmark stays alive: it runs, tiny, and nobody judges how fast it was."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks import garbage, importing_spark
from lakebed.formats import EMPTY_METARANGE

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]


def test_the_benchmark_runs(spark: SparkSession, tmp_path: Path) -> None:
    rows = garbage.measure(spark, tmp_path, objects=2000, branches=4)
    operations = [row.operation for row in rows]
    for operation, expected in zip(
        operations,
        [
            "first look, 2,000",
            "first look, 2,000",
            "memory",
            "memory of the driver",
            "rows and objects",
            "rows and objects",
            "prepare, 1,000 staged",
            "prepare, 4 idle",
        ],
        strict=True,
    ):
        assert operation.startswith(expected)
    assert all(row.ratio is not None and row.ratio > 0 for row in rows)


def test_the_benchmark_of_imports_runs(spark: SparkSession, tmp_path: Path) -> None:
    made = importing_spark.import_on_spark(spark, tmp_path, 2000)
    assert made not in {"", EMPTY_METARANGE}
