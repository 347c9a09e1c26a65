"""Speed of listings by REST and S3, as ratios to floors in the same run.

The floor of pages is **G**: the rate of a bare WSGI function on the same HTTP server that answers
204, with two workers and as many connections. The floor of listing everything is to read the same
Parquet rows and dump them as JSON, row by row. All take turns.
"""

import argparse
import base64
import http.client
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from urllib.parse import quote

import msgspec
import pyarrow.parquet as pq
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.engine_data import LAKE, MAIN, REQUEST, BenchLake, tables
from benchmarks.http_load import requests_per_second
from benchmarks.places import bare_server
from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder
from lakebed.block import LocalSettings, Namespace, open_block
from lakebed.engine.engine import Engine
from lakebed.engine.model import BranchID
from lakebed.kv import open_store
from lakebed.lake.commits import HeadChanges
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server

CONNECTIONS = 16
TURNS = 5
PAGES = 20
STAGED = BranchID("staged")
API = f"/api/v1/repositories/{LAKE}"

_NEXT = re.compile(rb'"next_offset":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    seconds: float
    objects: int
    staged: int
    branches: int


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    if parser.parse_args(arguments).tiny:
        sizes = Sizes(seconds=0.05, objects=300, staged=200, branches=20)
    else:
        sizes = Sizes(seconds=2.0, objects=100_000, staged=20_000, branches=10_000)
    with (
        scratch_folder() as folder,
        lakebed_server(folder, settings={"logging": {"level": "warning"}}) as server,
        bare_server() as (bare_port, _),
    ):
        fill(server, sizes)
        return report([*pages(server, bare_port, sizes), *everything(server, sizes)])


def fill(server: LakebedServer, sizes: Sizes) -> None:
    """Make a repository with committed and staged objects, and with branches."""
    file = server.folder / "lakebed.db"
    block = open_block(LocalSettings(server.folder / "objects"))
    with open_store(f"sqlite:///{file}") as store, closing(block):
        engine = Engine(store, block)
        place = Namespace.parse(f"{server.namespace}/{LAKE}")
        repository = engine.repositories.create(LAKE, place, committer="benchmark")
        lake = BenchLake(store, engine, repository, file)
        engine.refs.create_branch(LAKE, STAGED, MAIN)
        lake.stage(tables(sizes.staged), STAGED)
        lake.stage(tables(sizes.objects))
        HeadChanges(engine).commit(LAKE, MAIN, REQUEST)
        for number in range(sizes.branches):
            engine.refs.create_branch(LAKE, BranchID(f"b{number:05}"), MAIN)


# Pages


def pages(server: LakebedServer, bare_port: int, sizes: Sizes) -> list[Row]:
    """Return how many pages a second there are of each kind."""
    api, s3 = _Rest(server), _S3(server)
    places = list(itertools.islice(api.places(f"{API}/refs/{MAIN}/objects/ls?amount=100"), PAGES))
    ls, diff = f"{API}/refs/{MAIN}/objects/ls", f"{API}/branches/{STAGED}/diff"
    loads = {
        "REST list 100": [api.get(f"{ls}?amount=100&after={quote(each)}") for each in places],
        "REST list 1000": [api.get(f"{ls}?amount=1000&after={quote(each)}") for each in places],
        "S3 LIST 1000": [s3.get(each) for each in places],
        "REST list 10 directories": [api.get(f"{ls}?delimiter=/")],
        "uncommitted changes, first 100": [api.get(f"{diff}?amount=100")],
        "uncommitted changes, first 1000": [api.get(f"{diff}?amount=1000")],
        f"first 100 of {sizes.branches:,} branches": [api.get(f"{API}/branches?amount=100")],
    }
    bars = {"REST list 100": 0.06, "REST list 1000": 0.013, "S3 LIST 1000": 0.013}
    floor = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n"

    def rate(port: int, requests: list[bytes]) -> float:
        return requests_per_second(
            port,
            itertools.cycle(requests),
            connections=CONNECTIONS,
            seconds=sizes.seconds,
            with_bodies=port != bare_port,
        )

    g, found = _in_turns(
        lambda: rate(bare_port, [floor]),
        {name: partial(rate, server.port, each) for name, each in loads.items()},
    )
    return [
        Row("bare function that answers 204 (G)", "granian", g, None, None),
        *(Row(name, "sqlite", each, each / g, bars.get(name)) for name, each in found.items()),
    ]


class _Rest:
    """Requests to the REST API."""

    def __init__(self, server: LakebedServer) -> None:
        pair = f"{server.access_key_id}:{server.secret_access_key}"
        self._port = server.port
        self._headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}

    def get(self, target: str) -> bytes:
        """Return a request as bytes."""
        return _as_bytes(target, {**self._headers, "Host": "bench"})

    def places(self, target: str) -> Iterator[str]:
        """Go through all pages of a list, one after the other; yield where each begins."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port)) as connection:
            after: str | None = ""
            while after is not None:
                yield after
                path = f"{target}&after={quote(after)}"
                connection.request("GET", path, headers=self._headers)
                answer = connection.getresponse()
                text = answer.read()
                assert answer.status == http.HTTPStatus.OK, text[:500]
                found = _NEXT.search(text)
                after = None if found is None else found.group(1).decode()


class _S3:
    """Requests to the S3 gateway."""

    def __init__(self, server: LakebedServer) -> None:
        credentials = Credentials(server.access_key_id, server.secret_access_key)
        self._auth = S3SigV4Auth(credentials, "s3", "us-east-1")
        self._host = f"127.0.0.1:{server.port}"

    def get(self, after: str) -> bytes:
        """Return a request for a page, as clients make it."""
        place = quote(f"{MAIN}/{after}", safe="")
        query = f"list-type=2&prefix={MAIN}%2F&encoding-type=url&start-after={place}"
        request = AWSRequest("GET", f"http://{self._host}/{LAKE}?{query}")
        self._auth.add_auth(request)
        return _as_bytes(f"/{LAKE}?{query}", {**dict(request.headers), "Host": self._host})


def _as_bytes(target: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


# Everything


def everything(server: LakebedServer, sizes: Sizes) -> list[Row]:
    """Return how many objects a second are listed by pages of 1,000, one page after the other."""
    api = _Rest(server)

    def listed(ref: str) -> float:
        begun = time.perf_counter()
        for _ in api.places(f"{API}/refs/{ref}/objects/ls?amount=1000"):
            pass
        return 1 / (time.perf_counter() - begun)

    def dumped() -> float:
        begun = time.perf_counter()
        rows = sum(map(_dump, server.folder.glob("objects/**/ranges/*")))
        assert rows == sizes.objects, rows
        return 1 / (time.perf_counter() - begun)

    floor, found = _in_turns(
        dumped, {"committed": lambda: listed(MAIN), "staged": lambda: listed(STAGED)}
    )
    return [
        Row("dump rows of Parquet as JSON (floor)", "msgspec", floor * sizes.objects, None, None),
        Row(
            f"list {sizes.objects:,} committed by 1,000",
            "sqlite",
            found["committed"] * sizes.objects,
            found["committed"] / floor,
            1.0,
        ),
        Row(
            f"list {sizes.staged:,} staged by 1,000",
            "sqlite",
            found["staged"] * sizes.staged,
            None,
            None,
        ),
    ]


def _dump(file: Path) -> int:
    encode = msgspec.json.Encoder().encode
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        encode(row)
    return len(rows)


# Turns


def _in_turns(
    floor: Callable[[], float], others: dict[str, Callable[[], float]]
) -> tuple[float, dict[str, float]]:
    """Return rates of a floor and of others, which take turns: the machine slows all of them."""
    floors = []
    found: dict[str, list[float]] = {name: [] for name in others}
    for _ in range(TURNS):
        floors.append(floor())
        for name, measure in others.items():
            found[name].append(measure())
    return median(floors), {name: median(rates) for name, rates in found.items()}


if __name__ == "__main__":
    sys.exit(main())
