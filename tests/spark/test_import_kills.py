"""Imports that spark-submit starts: two whose drivers are killed, and one that ends well."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.formats.boundaries import Breaks
from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.rounds import rounds
from tests.kit.served import PATIENCE_SECONDS
from tests.kit.spark import SETTINGS, write_python
from tests.spark.clients import Client, folder_of, root, sign_in
from tests.spark.killing import kill_all
from tests.spark.submitting import output, submit

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

# What docs/import.md says.
PROGRAM = "from lakebed.clients.ingest.__main__ import main\n\nmain()\n"

# The same, but it stops behind a step and says so, so that it can be killed there.
HOLDING = """\
import time
from pathlib import Path

from lakebed.clients.ingest import job
from lakebed.clients.ingest.__main__ import main
from lakebed.clients.ingest.server import ImportReporter

cut_parts, report = job.cut_parts, ImportReporter.report


def hold():
    Path({reached!r}).touch()
    time.sleep(900)


def hold_behind_a_range(*arguments):
    transform = cut_parts(*arguments)

    def read(batches):
        for batch in transform(batches):
            hold()
            yield batch

    return read


def hold_when_handed(self, said):
    answer = report(self, said)
    if said.metarange_id:
        hold()
    return answer


if {step!r} == "writing ranges":
    job.cut_parts = hold_behind_a_range
else:
    ImportReporter.report = hold_when_handed
main()
"""


def names_of_ranges(count: int) -> list[str]:
    """Names of objects; with a few others between them, they make so many ranges, and one more."""
    candidates = [f"{number:07d}" for number in range(100_000 * count)]
    keys = pa.array([f"lake/{name}".encode() for name in candidates], pa.binary())
    return [candidates[place] for place in np.flatnonzero(Breaks().ending(keys))[:count]]


ENDING = names_of_ranges(3)
NAMES = sorted([*ENDING, *(f"{name}-behind" for name in ENDING)])
PATHS = [f"lake/{name}" for name in NAMES]
RANGES = len(ENDING) + 1

# Each driver takes as long as dozens of other tests.
KILLED_TWICE = rounds(False, long=True)


@pytest.fixture
def client(
    sqlite_lakebed: LakebedServer,
    repository_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Client]:
    sign_in(sqlite_lakebed, monkeypatch)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", str(write_python(tmp_path)))
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    client = Client(sqlite_lakebed, repository_name)
    yield client
    client.close()


class Importing:
    """Imports of one folder to one path of a branch."""

    def __init__(self, client: Client, server: LakebedServer, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._files = folder_of(server, client.repository) / "_lakebed"
        outside = root(server) / "outside" / client.repository
        outside.mkdir(parents=True)
        for name in NAMES:
            (outside / name).write_text(name)
        source = f"local://outside/{client.repository}"
        self.paths = ["--from", source, "--to", f"lakefs://{client.repository}/main/lake"]

    def submitted(self, program: str) -> list[str]:
        file = self._folder / "ingest.py"
        file.write_text(program)
        settings = [word for each in SETTINGS.items() for word in ("--conf", "=".join(each))]
        return submit("--master", "local[1]", *settings, str(file), *self.paths)

    def kill_at(self, step: str) -> None:
        """Start an import, and kill its driver and all that it started behind a step."""
        reached, log = self._folder / step, self._folder / f"{step}.log"
        command = self.submitted(HOLDING.format(reached=str(reached), step=step))
        with log.open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ)
        try:
            until = time.monotonic() + 6 * PATIENCE_SECONDS
            while not reached.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.05)
        finally:
            kill_all(process)

    def ranges(self) -> set[str]:
        """The names of the ranges that are stored."""
        return {path.name for path in self._files.glob("ranges/*")}

    def commits(self) -> list[dict[str, Any]]:
        """The newest first."""
        path = f"repositories/{self._client.repository}/refs/main/commits"
        found: list[dict[str, Any]] = self._client.send("GET", path).json()["results"]
        return found

    def objects(self) -> list[str]:
        path = f"repositories/{self._client.repository}/refs/main/objects/ls"
        found = self._client.send("GET", path).json()["results"]
        return [each["path"] for each in found]


def test_drivers_that_are_killed_and_the_next_one(
    client: Client, sqlite_lakebed: LakebedServer, tmp_path: Path
) -> None:
    importing = Importing(client, sqlite_lakebed, tmp_path)
    importing.kill_at("writing ranges")
    some = importing.ranges()
    assert 0 < len(some) < RANGES
    assert len(importing.commits()) == 1

    if KILLED_TWICE:
        # What was handed in is the server's: that the driver is gone changes nothing any more.
        importing.kill_at("handed in")
        while len(importing.commits()) == 1:
            time.sleep(0.1)  # a test has a time-out
        assert importing.objects() == PATHS
        assert len(importing.ranges()) == RANGES

    said = output(importing.submitted(PROGRAM), tmp_path).decode()
    commits, ranges = importing.commits(), importing.ranges()
    in_commit = f"from {importing.paths[1]} in commit {commits[0]['id']}"
    assert f"Imported {len(NAMES)} object(s) {in_commit}" in said
    assert len(ranges) == RANGES
    assert some <= ranges  # what was there is part of it
    assert importing.objects() == PATHS
    assert client.read(PATHS[-1]) == NAMES[-1]

    assert run(cli.app, ["import", *importing.paths]) == 0  # by the server itself
    commits = importing.commits()
    assert len({commit["meta_range_id"] for commit in commits[:-1]}) == 1
    assert len(commits) == (3 if KILLED_TWICE else 2)  # the last import changes nothing
    assert importing.ranges() == ranges
