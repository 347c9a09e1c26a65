"""Runs that are killed, with their Spark, as soon as they got so far; the next one ends right."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.kit.rounds import rounds
from tests.kit.served import PATIENCE_SECONDS
from tests.kit.spark import SETTINGS
from tests.spark.clients import (
    HASTY,
    MIN_AGE_SECONDS,
    SKEW_SECONDS,
    Client,
    files,
    folder_of,
    sign_in,
)
from tests.spark.killing import kill_all

pytestmark = pytest.mark.timeout(900)

GARBAGE = 150
KEPT = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    with lakebed_server(tmp_path_factory.mktemp("hasty"), settings=HASTY) as started:
        yield started


@pytest.fixture
def client(
    server: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    sign_in(server, monkeypatch)
    client = Client(server, repository_name)
    for number in range(GARBAGE + 1):
        client.upload("a", str(number))
    client.commit()
    client.upload("b", "in the same commit")
    client.commit()
    client.upload("c", "staged")
    yield client
    client.close()


class Storage:
    """What a run leaves in the storage while it goes on."""

    def __init__(self, server: LakebedServer, repository: str) -> None:
        self._gc = folder_of(server, repository) / "_lakebed/gc"
        self._server = server
        self._repository = repository
        self._before = self._written("**/*")

    def objects(self) -> int:
        return len(files(self._server, self._repository))

    def has(self, pattern: str) -> bool:
        """Whether there is a file that was not there, or not this one, before the run."""
        return bool(self._written(pattern) - self._before)

    def _written(self, pattern: str) -> set[tuple[Path, int]]:
        return {(path, path.stat().st_ino) for path in self._gc.glob(pattern)}


# From beginning to end. A moment later the run is dead, perhaps one step further.
STAGES: dict[str, Callable[[Storage], bool]] = {
    "preparing": lambda storage: storage.has("*/runs/*/run.json"),
    "prepared": lambda storage: storage.has("*/runs/*/manifest.json"),
    "ranges written": lambda storage: storage.has("*/runs/*/ranges-*.parquet"),
    "judged": lambda storage: storage.has("*/runs/*/due-*.parquet"),
    "sweeping": lambda storage: storage.objects() < GARBAGE + KEPT,
    "swept": lambda storage: storage.has("*/runs/*/swept-*.parquet"),
    "state replaced": lambda storage: storage.has("*/state.json"),
    "summary written": lambda storage: storage.has("*/runs/*/summary.json"),
}
CHOSEN = rounds(["sweeping"], long=list(STAGES))
MODES = rounds(["two looks"], long=["two looks", "quiet"])

SUBMIT = (
    " ".join(f"--conf {shlex.quote(f'{name}={value}')}" for name, value in SETTINGS.items())
    + " pyspark-shell"
)


def kill_when(reached: Callable[[], bool], arguments: list[str], folder: Path) -> None:
    """Start a run, and kill all its processes when it got so far."""
    with (folder / "run.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakebed", "gc", "run", *arguments],
            env={**os.environ, "PYSPARK_SUBMIT_ARGS": SUBMIT},
            stdout=log,
            stderr=log,
        )
    try:
        until = time.monotonic() + 6 * PATIENCE_SECONDS
        while not reached():
            assert process.poll() is None, (folder / "run.log").read_text()
            assert time.monotonic() < until, (folder / "run.log").read_text()
            time.sleep(0.001)
    finally:
        kill_all(process)


def look(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Let a run find the garbage, and wait until the next one may delete it."""
    time.sleep(MIN_AGE_SECONDS + SKEW_SECONDS)
    capsys.readouterr()
    assert run(cli.app, ["gc", "run", uri, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["waiting"], summary["deleted"]) == (GARBAGE, 0)
    time.sleep(max(0, summary["next_us"] / 1e6 - time.time()))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stage", CHOSEN)
def test_a_run_that_is_killed_and_the_next_one(
    stage: str,
    mode: str,
    client: Client,
    server: LakebedServer,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"lakefs://{client.repository}"
    before = files(server, client.repository)
    assert len(before) == GARBAGE + KEPT
    if mode == "quiet":
        arguments = [uri, "--no-concurrent-writers"]
    else:
        arguments = [uri]
        look(uri, capsys)
    storage = Storage(server, client.repository)
    kill_when(lambda: STAGES[stage](storage), arguments, tmp_path)

    def see() -> None:
        assert client.read("a") == str(GARBAGE)
        assert client.read("b") == "in the same commit"
        assert client.read("c") == "staged"

    see()
    assert run(cli.app, ["gc", "run", *arguments]) == 0
    left = files(server, client.repository)
    assert len(left) == KEPT
    assert set(left) < set(before)
    see()
    # And the state is one to go by.
    assert run(cli.app, ["gc", "run", uri]) == 0
    assert files(server, client.repository) == left
