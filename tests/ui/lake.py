"""A lake for people to look at: some history, some changes, tables of several kinds."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from lakebed.base.runtime import ThreadRuntime
from lakebed.clients.garbage.server import GarbageServer
from lakebed.clients.http.settings import ClientSettings
from lakebed.reclaim.collector.job import CollectorJob, CollectorOptions
from lakebed.reclaim.collector.on_arrow import ArrowExecutor
from lakebed.reclaim.collector.storage import open_storage
from lakebed.testing.servers.lakebed import end, launch, settings_in, wait_until_ready

REPOSITORY: Final = "lakes"
BRANCH: Final = "measurements"

_ACTION: Final = b"""\
name: levels
on:
  pre-commit:
hooks:
  - id: above-the-bed
    type: lua
    properties:
      script: |
        print("looking at " .. action.branch_id)
        if action.commit.message:find("below") then
          error("a level is below the bed")
        end
"""


@contextmanager
def new_server(folder: Path) -> Iterator[str]:
    """Start a server that waits for its first administrator; yield its address, and end it."""
    settings = settings_in(folder, {"processes": {"workers": 1, "shutdown_seconds": 5}})
    process = launch(folder, settings, "-m", "lakebed", "run", "--config")
    try:
        endpoint = f"http://127.0.0.1:{settings['listen']['port']}"
        wait_until_ready(process, folder, f"lakebed is ready at {endpoint}")
        yield endpoint
    finally:
        end(process)


def fill(api: httpx.Client, namespace: str) -> dict[str, str]:
    """Make a repository; return what the visits of its pages need to know."""
    made = api.post(
        "/repositories",
        json={"name": REPOSITORY, "storage_namespace": f"{namespace}/lakes", "sample_data": True},
    )
    _check(made)
    lake = _Lake(api)
    lake.merge("add-depths", "main", "Take the depths along")
    lake.put("main", "stations.csv", _stations(40))
    lake.put("main", "events.jsonl", _events(120))
    lake.put("main", "levels.arrow", _arrow())
    lake.put("main", "analysis.ipynb", _notebook())
    lake.commit("main", "Add stations, events and levels", team="hydrology", source="survey 2026")
    lake.branch(BRANCH)
    lake.put(BRANCH, "stations.csv", _stations(43, raised=7))
    lake.put(BRANCH, "raw/2026/11/readings.parquet", _readings())
    lake.commit(BRANCH, "Three new stations, and readings of November")
    lake.put("main", "notes.txt", b"Levels are in metres above the sea.\n")
    last = lake.commit("main", "Say what the levels mean")
    lake.put(BRANCH, "stations.csv", _stations(43, raised=9))
    lake.put(BRANCH, "draft.txt", b"not committed yet\n")
    lake.put("main", "conflict.txt", b"main\n")
    lake.commit("main", "A line on main")
    lake.branch("other-side", f"{last}")
    lake.put("other-side", "conflict.txt", b"other\n")
    lake.commit("other-side", "Another line on another branch")
    lake.branch("checked")
    lake.put("checked", "_lakefs_actions/levels.yaml", _ACTION)
    lake.commit("checked", "Look at levels before each commit")
    lake.put("checked", "levels.txt", b"-1\n")
    refused = api.post(
        f"/repositories/{REPOSITORY}/branches/checked/commits",
        json={"message": "A level below the bed"},
    )
    assert refused.status_code == 412, refused.text
    run = api.get(f"/repositories/{REPOSITORY}/actions/runs").json()["results"][0]
    pulls = [
        lake.propose(
            "Stations of November",
            BRANCH,
            "Three stations were built.\n\nPlease look at the levels.",
        ),
        lake.propose("The other side", "other-side", ""),
    ]
    first = api.get(f"/repositories/{REPOSITORY}/refs/{BRANCH}/commits").json()["results"][0]
    return {
        "repository": REPOSITORY,
        "branch": BRANCH,
        "commit": first["id"],
        "run": run["run_id"],
        "pull": pulls[0],
        "conflicting_pull": pulls[1],
    }


def collect(endpoint: str, pair: tuple[str, str]) -> None:
    """Make a run of garbage collection, and a dry one."""
    server = GarbageServer(ClientSettings(endpoint, *pair), REPOSITORY)
    try:
        storage = open_storage(server)
        for options in (CollectorOptions(), CollectorOptions(dry_run=True)):
            CollectorJob(ArrowExecutor(storage, ThreadRuntime()), server, storage).run(options)
    finally:
        server.close()


class _Lake:
    def __init__(self, api: httpx.Client) -> None:
        self._api = api
        self._base = f"/repositories/{REPOSITORY}"

    def put(self, branch: str, path: str, data: bytes) -> None:
        where = f"{self._base}/branches/{branch}/objects"
        _check(self._api.post(where, params={"path": path}, content=data))

    def commit(self, branch: str, message: str, **metadata: str) -> str:
        body = {"message": message, "metadata": metadata}
        made = self._api.post(f"{self._base}/branches/{branch}/commits", json=body)
        return str(_check(made)["id"])

    def branch(self, name: str, source: str = "main") -> None:
        made = self._api.post(f"{self._base}/branches", json={"name": name, "source": source})
        assert made.status_code == 201, made.text

    def merge(self, source: str, destination: str, message: str) -> None:
        where = f"{self._base}/refs/{source}/merge/{destination}"
        _check(self._api.post(where, json={"message": message}))

    def propose(self, title: str, source: str, description: str) -> str:
        body = {"title": title, "description": description, "source_branch": source}
        made = self._api.post(f"{self._base}/pulls", json={**body, "destination_branch": "main"})
        return str(_check(made)["id"])


def _check(answer: httpx.Response) -> Any:
    assert answer.status_code < 300, answer.text
    return answer.json()


def _stations(count: int, raised: int = 0) -> bytes:
    lines = ["id,name,latitude,longitude,level_m"]
    lines += [
        f"{at},Station {at},{46 + at / 10:.2f},{7 + at / 7:.2f},{370 + at * 3 + (at == raised)}"
        for at in range(1, count + 1)
    ]
    return ("\n".join(lines) + "\n").encode()


def _events(count: int) -> bytes:
    kinds = ["rain", "inflow", "drought"]
    rows = [
        {"day": f"2026-10-{at % 28 + 1:02}", "kind": kinds[at % 3], "amount": at * at % 37}
        for at in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _arrow() -> bytes:
    sink = io.BytesIO()
    table = pa.table(
        {"hour": list(range(60)), "level": [370 + (at * 7 % 13) / 10 for at in range(60)]}
    )
    feather.write_feather(table, sink)
    return sink.getvalue()


def _readings() -> bytes:
    count = 5_000
    table = pa.table(
        {
            "station": [at % 43 + 1 for at in range(count)],
            "at": pa.array([1_793_000_000 + at * 60 for at in range(count)], pa.timestamp("s")),
            "temperature": [8 + (at * 13 % 97) / 20 for at in range(count)],
            "oxygen": [None if at % 11 == 0 else 9 + (at * 7 % 31) / 10 for at in range(count)],
            "sensor": [f"s-{at % 5}" for at in range(count)],
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1000)
    return sink.getvalue()


def _notebook() -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Levels\n", "How they *changed*."]},
        {
            "cell_type": "code",
            "source": "levels.mean()",
            "outputs": [{"data": {"text/plain": "370.62"}}],
        },
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()
