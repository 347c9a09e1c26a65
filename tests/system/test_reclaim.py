"""A real server that collects its garbage itself, and the command line without Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from httpx import HTTPStatusError

from lakebed.server.http.metrics import FOLDER_VARIABLE, registered_processes
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.kit.rounds import rounds
from tests.kit.served import PATIENCE_SECONDS
from tests.spark.clients import HASTY, Client, files, folder_of, sign_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WITHOUT_SPARK = (
    "import sys; sys.modules['pyspark'] = None; from lakebed.clients.cli import main; main()"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    settings = HASTY | {"reclaim": {"enabled": True, "interval_seconds": 1}}
    with lakebed_server(tmp_path_factory.mktemp("reclaiming"), settings=settings) as started:
        yield started


@pytest.fixture
def client(
    server: LakebedServer, repository_name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Client]:
    """A client with a repository in which 4 of 6 objects are garbage."""
    sign_in(server, monkeypatch)
    client = Client(server, repository_name)
    for number in range(5):
        client.upload("a", str(number))
    client.commit()
    client.upload("b", "staged")
    yield client
    client.close()


def gc(*arguments: str) -> str:
    """Run a command on a machine without Spark; return what it prints."""
    command = [sys.executable, "-c", WITHOUT_SPARK, "gc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_garbage_goes_by_itself(client: Client, server: LakebedServer) -> None:
    wait_for(lambda: len(files(server, client.repository)) == 2, server)
    assert (client.read("a"), client.read("b")) == ("4", "staged")
    runs = json.loads(gc("runs", f"lakefs://{client.repository}", "--json"))
    summaries = [run["summary"] for run in runs if run.get("summary")]
    assert sum(summary["deleted"] for summary in summaries) == 4
    assert {summary["executor"] for summary in summaries} == {"server"}
    metrics = client.send("GET", f"{server.endpoint}/metrics").text
    assert 'lakebed_background_runs_total{outcome="success",task="reclaim"}' in metrics


def test_a_run_without_spark(client: Client, server: LakebedServer) -> None:
    """The server makes runs at the same time; they take turns."""
    uri = f"lakefs://{client.repository}"
    summary = json.loads(gc("run", uri, "--no-concurrent-writers", "--json"))
    assert (summary["executor"], summary["success"]) == ("arrow", True)
    assert len(files(server, client.repository)) == 2
    assert (client.read("a"), client.read("b")) == ("4", "staged")
    refused = subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, "gc", "run", uri, "--master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "pip install 'lakebed[spark]'" in refused.stderr


def test_a_command_says_why_something_is_kept(client: Client, server: LakebedServer) -> None:
    uri = f"lakefs://{client.repository}"
    found = gc("explain", f"{uri}/main/b")
    address = found.partition(" ")[0]
    assert f"{address} is retained:\n- It is staged on branch main as 'b': retained.\n" == found
    assert gc("explain", address) == found
    missing = f"{address}-other"
    assert f"{missing} does not exist:\n- The storage does not contain the object." in gc(
        "explain", missing
    )
    assert "It is the head of branch main." in gc("explain", f"{uri}/main")
    told = json.loads(gc("explain", f"{uri}/main/a", "--json"))
    assert (told["verdict"], "references it as 'a'" in told["reasons"][0]) == ("kept", True)
    place = f"{server.endpoint}/api/v1/repositories/{client.repository}/gc/explain"
    for wrong in ("", "?address=x", "?ref=main&address=local://x/y", "?path=a"):
        with pytest.raises(HTTPStatusError, match="400 Bad Request"):
            client.send("GET", place + wrong)


STAGES = rounds(["due"], long=["run", "manifest", "ranges", "due", "swept", "summary"])
"""What the name of the file begins with whose appearance ends the process."""


def background_of(server: LakebedServer) -> int:
    """The process that makes the runs; 0, while there is none."""
    for child in psutil.Process(server.process.pid).children():
        folder = child.environ().get(FOLDER_VARIABLE, "")
        for role, pid in registered_processes(Path(folder)) if folder else ():
            if role == "background" and psutil.pid_exists(pid):
                return pid
    return 0


@pytest.mark.extended
@pytest.mark.parametrize("stage", STAGES)
def test_a_run_whose_process_is_killed(stage: str, client: Client, server: LakebedServer) -> None:
    """Another process comes, takes the lease over, and ends what the dead one began."""
    runs = folder_of(server, client.repository) / "_lakebed/gc"
    wait_for(lambda: any(runs.glob(f"*/runs/*/{stage}*")), server)
    killed = background_of(server)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: len(files(server, client.repository)) == 2, server)
    assert (client.read("a"), client.read("b")) == ("4", "staged")
    # The dead one may have been done with it all.
    wait_for(lambda: background_of(server) not in {0, killed}, server)


def wait_for(is_so: Callable[[], bool], server: LakebedServer) -> None:
    until = time.monotonic() + 4 * PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < until, server.log()
        time.sleep(0.05)
