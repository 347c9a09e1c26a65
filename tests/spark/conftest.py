"""What runs that others start have in common."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.spark.clients import Client, sign_in
from tests.spark.submitting import PROGRAM

_HERE: Final = Path(__file__).parent
KEPT: Final = {"test_the_command_line", "test_deleted_and_retained_objects"}
"""What `make test` plays with Spark, beside the frames: a run, and one that a command starts."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_run = item.path.parent == _HERE and item.path.stem != "test_frames"
        if is_run and getattr(item, "originalname", "") not in KEPT:
            item.add_marker(pytest.mark.extended)


@pytest.fixture
def client(
    sqlite_lakebed: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    """A client with a repository in which 15 of 21 objects are garbage."""
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
    """The file that spark-submit is given."""
    file = tmp_path / "collect.py"
    file.write_text(PROGRAM)
    return str(file)
