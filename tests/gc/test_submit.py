"""The same job, started by spark-submit."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.testing.lakebed_server import LakebedServer
from tests.gc.clients import Client, files, sign_in
from tests.gc.submitting import PROGRAM, finished, submit

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def client(
    sqlite_lakebed: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    sign_in(sqlite_lakebed, monkeypatch)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    client = Client(sqlite_lakebed, repository_name)
    for number in range(20):
        client.upload(f"a/{number % 5}", str(number))
    client.commit()
    client.upload("b", "staged")
    yield client
    client.close()


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "collect.py"
    file.write_text(PROGRAM)
    return str(file)


def test_spark_submit(
    client: Client, sqlite_lakebed: LakebedServer, program: str, tmp_path: Path
) -> None:
    uri = f"lakefs://{client.repository}"
    command = submit("--master", "local[1]", program, "gc", "run", uri, "--assume-quiet", "--json")
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    summary = finished(command, tmp_path, **python)
    assert (summary["deleted"], summary["committed"], summary["held"]) == (15, 5, 1)
    assert len(files(sqlite_lakebed, client.repository)) == 6
    assert [client.read(f"a/{number}") for number in range(5)] == ["15", "16", "17", "18", "19"]
