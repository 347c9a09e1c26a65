"""Sixteen appenders to one Delta table through the S3 gateway, by deltalake in Python.

``make test-all PARTS=tables`` runs it, because deltalake is in an environment of its own.
"""

import itertools
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.docs.console import ROOT
from tests.kit.rounds import rounds
from tests.kit.unruly_proxy import Fault, lost, made_up, unruly_proxy
from tests.system.api_kit import RawClient, create_repository
from tests.system.conditional_races import raced_server

pytestmark = pytest.mark.tables

PYTHON = ROOT / ".envs/tables/bin/python"
PROGRAM = ROOT / "tests/system/delta_appenders.py"
LOG = "tables/appended/_delta_log"
WRITERS = 16
EACH = rounds(4, long=20)
NUMBERS = list(range(WRITERS * EACH))


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    with raced_server(tmp_path_factory.mktemp("server")) as started:
        with RawClient(started) as client:
            create_repository(client, "lake")
        yield started


@contextmanager
def commits_beside(server: LakebedServer) -> Iterator[None]:
    """Commit the branch, again and again."""
    stopped = threading.Event()

    def commit() -> None:
        with RawClient(server) as client:
            while not stopped.is_set():
                at = "/repositories/lake/branches/main/commits"
                client.post_json(at, {"message": "beside the appenders"})

    threads = [threading.Thread(target=commit) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def append(server: LakebedServer, endpoint: str) -> dict[str, Any]:
    """Let all append through an endpoint; return what they were told and what the table holds."""

    def options(at: str) -> str:
        return json.dumps(
            {
                "AWS_ENDPOINT_URL": at,
                "AWS_ACCESS_KEY_ID": server.access_key_id,
                "AWS_SECRET_ACCESS_KEY": server.secret_access_key,
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            }
        )

    arguments = [options(endpoint), options(server.endpoint), str(WRITERS), str(EACH)]
    with commits_beside(server):
        done = subprocess.run(
            [PYTHON, PROGRAM, *arguments], capture_output=True, check=False, text=True, timeout=600
        )
    assert done.stdout, done.stderr[-5000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def files_of_versions(server: LakebedServer, last: int) -> Counter[str]:
    """Return how many versions of the table add each of its files."""
    added: Counter[str] = Counter()
    with RawClient(server) as client:
        for version in range(last + 1):
            answer = client.call(
                "GET", "/repositories/lake/refs/main/objects", path=f"{LOG}/{version:020}.json"
            )
            assert answer.status == 200, answer
            actions = map(json.loads, answer.body.splitlines())
            added.update(action["add"]["path"] for action in actions if "add" in action)
    return added


def test_each_acknowledged_append_is_one_version_of_the_table(server: LakebedServer) -> None:
    found = append(server, server.endpoint)
    assert found["errors"] == {}
    assert found["acknowledged"] == sorted(found["rows"]) == NUMBERS
    added = files_of_versions(server, found["version"])
    assert set(added.values()) == {1}
    assert found["version"] == len(added) == len(NUMBERS), "after the first, which is empty"


@pytest.mark.parametrize(
    "fault", [lost, made_up(503, "ServiceUnavailable")], ids=["lost reply", "503"]
)
def test_rows_are_exact_though_delta_rs_repeats_its_writes(
    server: LakebedServer, fault: Fault
) -> None:
    """delta-rs sends no id with its requests, so a repeat of it is refused.

    It then commits the same file in the next version; the table has the rows once all the same.
    """
    numbers = itertools.count(1)

    def every_fifth(_method: str, headers: Message) -> Fault | None:
        return fault if "If-None-Match" in headers and next(numbers) % 5 == 0 else None

    with unruly_proxy(server.endpoint) as proxy:
        proxy.rule = every_fifth
        found = append(server, proxy.endpoint)
    rows = found["rows"]
    assert len(rows) == len(set(rows))
    unknown = {int(number) for number in found["errors"]}
    assert set(found["acknowledged"]) <= set(rows) <= set(found["acknowledged"]) | unknown
    assert len(found["acknowledged"]) > len(NUMBERS) / 2, found["errors"]
    added = files_of_versions(server, found["version"])
    assert len(added) == len(rows)
