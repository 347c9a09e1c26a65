"""The same job on a Spark cluster of a master and two workers; it starts many JVMs, so seldom."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import psutil
import pytest
from packaging.requirements import Requirement
from pyspark.sql import SparkSession

import lakebed
from lakebed.clients import cli
from lakebed.clients.cli.running import run
from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.served import eventually, free_port
from tests.spark.clients import Client, files
from tests.spark.submitting import SMALL, SPARK_HOME, finished, submit

pytestmark = [pytest.mark.extended, pytest.mark.timeout(900)]


FIGURES = ("mode", "looked_at", "ranges_read", "committed", "held", "young", "waiting", "due")


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in FIGURES}


@dataclass
class Cluster:
    url: str
    works: list[Path]
    """Where each worker keeps what it runs."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers, each a process of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    works = [folder / "one", folder / "two"]
    master = ["master.Master", "--port", str(port), "--webui-port", str(page)]
    workers = [
        ["worker.Worker", "--cores", "1", "--memory", "600m", "--webui-port", str(free_port()),
         "--work-dir", str(work), url]
        for work in works
    ]  # fmt: skip
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))
        for name, *arguments in [master, *workers]:
            command = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
                stdout=log,
                stderr=log,
            )
            stack.callback(end, process)

        def has_workers() -> bool:
            try:
                with urlopen(f"http://127.0.0.1:{page}/json/", timeout=10) as answer:
                    return bool(json.load(answer)["aliveworkers"] == len(works))
            except (URLError, ValueError):  # not JSON while it starts
                return False

        eventually(has_workers, seconds=120)
        yield Cluster(url, works)


def end(process: "subprocess.Popen[bytes]") -> None:
    family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    process.wait(timeout=60)
    for child in family:
        if child.is_running():
            child.kill()


def needed(name: str, extras: frozenset[str], found: dict[str, frozenset[str]]) -> None:
    """Find the distributions that one needs, with itself."""
    if extras <= found.get(name, frozenset()) and name in found:
        return
    found[name] = found.get(name, frozenset()) | extras
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        if any(
            requirement.marker is None or requirement.marker.evaluate({"extra": extra})
            for extra in (extras or {""})
        ):
            try:
                distribution(requirement.name)
            except PackageNotFoundError:
                continue  # for another system
            needed(requirement.name, frozenset(requirement.extras), found)


def pack(archive: Path) -> None:
    """Pack Lakebed and all it needs, but Spark, as ``pip install --target`` lays it out."""
    found: dict[str, frozenset[str]] = {}
    needed("lakebed", frozenset({"", "s3", "spark"}), found)
    with tarfile.open(archive, "w") as tar:
        for name in sorted(found.keys() - {"pyspark"}):
            for file in distribution(name).files or ():
                source = Path(str(distribution(name).locate_file(file)))
                if ".." not in file.parts and file.suffix != ".pth" and source.is_file():
                    tar.add(source, str(file))
        # Which may be installed as a mere link to its source.
        tar.add(Path(lakebed.__file__).parent, "lakebed")


def test_a_cluster_does_what_one_machine_does(
    client: Client,
    cluster: Cluster,
    sqlite_lakebed: LakebedServer,
    spark: SparkSession,
    program: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["gc", "run", f"lakefs://{client.repository}", "--no-concurrent-writers", "--json"]
    assert run(cli.app, [*arguments, "--dry-run"]) == 0
    here = json.loads(capsys.readouterr().out)
    before = files(sqlite_lakebed, client.repository)

    submitted = {"PYSPARK_SUBMIT_ARGS": " ".join([*SMALL, "pyspark-shell"])}
    command = [sys.executable, "-m", "lakebed", *arguments, "--master", cluster.url, "--dry-run"]
    there = finished(command, tmp_path, **submitted)
    assert figures(there) == figures(here)
    assert files(sqlite_lakebed, client.repository) == before

    archive = tmp_path / "environment.tar"
    pack(archive)
    packed = submit(
        "--master", cluster.url, "--archives", f"{archive}#environment",
        "--conf", "spark.executorEnv.PYTHONPATH=environment",
        # Which has nothing installed: what executors import comes from the archive.
        "--conf", f"spark.pyspark.python={os.path.realpath(sys.executable)}",
        "--conf", f"spark.pyspark.driver.python={sys.executable}",
        program, *arguments,
    )  # fmt: skip
    swept = finished(packed, tmp_path)
    assert figures(swept) == figures(here)
    assert (swept["deleted"], swept["failed"]) == (15, 0)
    left = files(sqlite_lakebed, client.repository)
    assert len(left) == 6
    assert set(left) < set(before)
    for work in cluster.works:
        assert list(work.glob("*/*/environment/lakebed/__init__.py")), "nobody unpacked it"
        shutil.rmtree(work)
