"""The same job, started by spark-submit."""

import sys
from pathlib import Path

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.spark.clients import Client, files
from tests.spark.submitting import finished, submit

pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]


def test_spark_submit(
    client: Client, sqlite_lakebed: LakebedServer, program: str, tmp_path: Path
) -> None:
    uri = f"lakefs://{client.repository}"
    command = submit(
        "--master", "local[1]", program, "gc", "run", uri, "--no-concurrent-writers", "--json"
    )
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    summary = finished(command, tmp_path, **python)
    assert (summary["deleted"], summary["committed"], summary["held"]) == (15, 5, 1)
    assert len(files(sqlite_lakebed, client.repository)) == 6
    assert [client.read(f"a/{number}") for number in range(5)] == ["15", "16", "17", "18", "19"]
