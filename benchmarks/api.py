"""Rates of small requests by REST and S3, of distinct keys, with uploads beside the reads.

Each is also a ratio to G: the rate of a bare function on Granian that answers 204, on the same
machine in the same run. All take turns, with 16 and with 100 connections, so that load by others
slows down all of them. Beside each rate is the processor time that all processes of the server, and
those of the database, spent on a request: it depends less than a rate on the load of the machine.
The processor time of reads includes that of the uploads beside them.
"""

import argparse
import base64
import itertools
import json
import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple
from urllib.parse import quote

import psutil
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.http_load import BESIDE_PER_SECOND, send, send_each
from benchmarks.places import (
    POSTGRESQL,
    POSTGRESQL_S3,
    SQLITE,
    SQLITE_S3,
    UNSYNCED,
    Machine,
    Place,
    bare_server,
    machine_at,
)
from benchmarks.report import Row, report
from lakebed.testing.servers.lakebed import LakebedServer

FEW, MANY = 16, 100
MANY_SHARE = 0.9
"""What a rate with many connections is at least, as a share of that with few."""
SMALL = b"x" * 1024
PAGE = 1000
FLOOR = "G: bare Granian, 204"
API = "/api/v1/repositories"
REPOSITORY = "rates"
NUMBER = "0000NUMBER000000"
"""Stands for a number in a request; as long as one, so that the length of a body stays right."""
PLACES = (SQLITE, UNSYNCED, POSTGRESQL, SQLITE_S3, POSTGRESQL_S3)
BARS = {
    "stat, committed": 0.07,
    "stat, staged": 0.074,
    "GET 1 KiB": 0.07,
    "S3 GET 1 KiB": 0.07,
    "list 100": 0.038,
    "list 1000": 0.0063,
    "S3 LIST 1000": 0.0078,
    "upload 1 KiB": 0.027,
    "S3 PUT 1 KiB": 0.026,
    "create branch": 0.021,
}
"""Ratios to G of lakeFS 1.84 on local storage with its embedded database, November 2026.

lakeFS does not sync objects there. Lakebed on SQLite and local storage must not be slower."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to measure."""

    seconds: float = 10.0
    """For each kind of request and number of connections."""
    objects: int = 4000
    """Distinct keys that are read, and as many that are staged."""
    turns: int = 5

    @classmethod
    def tiny(cls) -> "Sizes":
        """Return sizes to see a benchmark run."""
        return cls(seconds=0.1, objects=40, turns=1)


class Measured(NamedTuple):
    """What a server did for requests of one kind."""

    per_second: float
    microseconds: float
    """Of a processor, for one request."""
    database_microseconds: float
    """Those that the database spent, if it is another process."""
    refused: int
    beside: float | None = None
    """Uploads a second beside them, or None if there shall be none."""


@dataclass(frozen=True, slots=True)
class Target:
    """Requests of one kind."""

    name: str
    port: int
    pid: int
    """The process whose family serves them."""
    series: Callable[[int], Iterator[bytes]]
    """Return the requests of one connection, given its number."""
    requests_each: int = 1
    """How many requests make one operation."""
    beside: Iterator[bytes] | None = None
    """Uploads to send meanwhile."""
    database_pid: int | None = None

    def measure(self, connections: int, seconds: float) -> Measured:
        """Send requests for some seconds."""
        pids = (self.pid, self.database_pid)
        before = [spent(pid) for pid in pids]
        series = [self.series(number) for number in range(connections)]
        load = send_each(self.port, series, seconds=seconds, beside=self.beside)
        after = [spent(pid) for pid in pids]
        count = max(1, load.answered + load.refused) / self.requests_each
        server, database = (
            (end - begin) / count * 1e6 for begin, end in zip(before, after, strict=True)
        )
        rate = load.per_second / self.requests_each
        beside = None if self.beside is None else load.beside / load.seconds
        return Measured(rate, server, database, load.refused, beside)


def spent(pid: int | None) -> float:
    """Return the processor seconds that a process and its family have used so far."""
    if pid is None:
        return 0.0
    seconds = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it ended just now
            times = process.cpu_times()
            # With those that ended and that it has waited for.
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


@dataclass(frozen=True, slots=True)
class Rate:
    """Result of a target: medians with few and with many connections."""

    name: str
    few: Measured
    many: Measured
    ratio: float | None
    """To G, or None for G itself, or if one of both answered nothing in its short time."""

    def rows(self, bar: float | None) -> Iterator[Row]:
        """Yield the two lines to print."""
        yield Row(self.name, note(self.few), self.few.per_second, self.ratio, bar)
        # A rate with refusals in it misses its bar.
        share = None if self.many.refused else ratio(self.many.per_second, self.few.per_second)
        least = None if self.name == FLOOR else MANY_SHARE
        name = f"  {MANY} connections, to {FEW}"
        yield Row(name, note(self.many), self.many.per_second, share, least)


def ratio(rate: float, to: float) -> float | None:
    """Return how many times as fast, or None if the other rate is zero."""
    return rate / to if to else None


def note(found: Measured) -> str:
    """Return the processor time, the refusals if any, and uploads if there were too few."""
    database = f" + {found.database_microseconds:.0f}" if found.database_microseconds else ""
    refused = f", {found.refused} refused" if found.refused else ""
    is_late = found.beside is not None and found.beside < 0.95 * BESIDE_PER_SECOND
    late = f", {found.beside:.0f} uploads/s" if is_late else ""
    return f"{found.microseconds:,.0f}{database} us{refused}{late}"


def in_turns(targets: list[Target], sizes: Sizes) -> list[tuple[Measured, Measured]]:
    """Measure all targets in turns; return for each the medians with few and many connections."""
    turns: list[list[tuple[Measured, Measured]]] = [[] for _ in targets]
    seconds = sizes.seconds / sizes.turns
    for _ in range(sizes.turns):
        for target, found in zip(targets, turns, strict=True):
            found.append((target.measure(FEW, seconds), target.measure(MANY, seconds)))
    return [
        (_together(few for few, _ in each), _together(many for _, many in each)) for each in turns
    ]


def _together(turns: Iterable[Measured]) -> Measured:
    each = list(turns)
    beside = [found.beside for found in each if found.beside is not None]
    return Measured(
        median(found.per_second for found in each),
        median(found.microseconds for found in each),
        median(found.database_microseconds for found in each),
        sum(found.refused for found in each),
        median(beside) if beside else None,
    )


def rates_at(place: Place, sizes: Sizes) -> list[Rate]:
    """Return the rates of all targets of a server at a place, G first."""
    with machine_at(place) as machine, bare_server() as (port, pid):
        server = machine.start("server")
        floor = Target(
            FLOOR, port, pid, lambda _: itertools.repeat(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        )
        ours = targets_of(server, machine, sizes)
        if not place.is_synced:
            ours = [target for target in ours if target.beside is None]
        targets = [floor, *ours]
        found = in_turns(targets, sizes)
    g = found[0][0].per_second
    return [
        Rate(target.name, few, many, None if target is floor else ratio(few.per_second, g))
        for target, (few, many) in zip(targets, found, strict=True)
    ]


# Requests


def targets_of(server: LakebedServer, machine: Machine, sizes: Sizes) -> list[Target]:
    """Fill a repository of a server; return what to measure there."""
    make = Requests(server)
    count = sizes.objects
    fill(server, make, count)
    beside = make.numbered("POST", f"{make.branch}/objects?path=beside/{NUMBER}", SMALL)

    def target(
        name: str,
        *,
        each: int,
        series: Callable[[int], Iterator[bytes]],
        with_uploads: bool = False,
    ) -> Target:
        return Target(
            name,
            server.port,
            server.process.pid,
            series,
            each,
            beside if with_uploads else None,
            machine.database_pid,
        )

    def reads(name: str, requests: list[bytes]) -> Target:
        shuffled = itertools.cycle(random.Random(0).sample(requests, len(requests)))
        return target(name, each=1, series=lambda _: shuffled, with_uploads=True)

    def writes(name: str, requests: Iterator[bytes]) -> Target:
        return target(name, each=1, series=lambda _: requests)

    at = f"{make.ref}/objects"
    after = [path_of(number) for number in range(max(1, count - PAGE))]
    puts = [make.s3("PUT", f"/{REPOSITORY}/main/put/{n}", SMALL) for n in range(5 * count)]
    return [
        reads(
            "stat, committed",
            [make.rest("GET", f"{at}/stat?path={path_of(n)}") for n in range(count)],
        ),
        reads(
            "stat, staged", [make.rest("GET", f"{at}/stat?path=staged/{n}") for n in range(count)]
        ),
        reads("GET 1 KiB", [make.rest("GET", f"{at}?path={path_of(n)}") for n in range(count)]),
        reads(
            "S3 GET 1 KiB",
            [make.s3("GET", f"/{REPOSITORY}/main/{path_of(n)}") for n in range(count)],
        ),
        reads(
            "list 100",
            [make.rest("GET", f"{at}/ls?prefix=data/&amount=100&after={path}") for path in after],
        ),
        reads(
            "list 1000",
            [
                make.rest("GET", f"{at}/ls?prefix=data/&amount={PAGE}&after={path}")
                for path in after
            ],
        ),
        reads("S3 LIST 1000", [make.s3("GET", f"/{REPOSITORY}?{s3_page(path)}") for path in after]),
        writes(
            "upload 1 KiB", make.numbered("POST", f"{make.branch}/objects?path=new/{NUMBER}", SMALL)
        ),
        writes("S3 PUT 1 KiB", itertools.cycle(puts)),
        writes(
            "create branch",
            make.numbered(
                "POST", f"{make.repository}/branches", {"name": NUMBER, "source": "main"}
            ),
        ),
        target("upload and commit", each=2, series=make.commits),
        target("branch, upload and commit", each=3, series=make.branches),
    ]


def s3_page(after: str) -> str:
    """Return the query of a page of 1,000 objects behind a path."""
    place = quote(f"main/{after}", safe="")
    return f"list-type=2&prefix=main%2Fdata%2F&max-keys={PAGE}&start-after={place}"


def fill(server: LakebedServer, make: "Requests", count: int) -> None:
    """Make a repository with as many committed objects as staged ones."""
    namespace = f"{server.namespace}/{REPOSITORY}"
    made = {"name": REPOSITORY, "storage_namespace": namespace}
    upload = f"{make.branch}/objects?path="
    steps = (
        [make.rest("POST", API, made)],
        [make.rest("POST", upload + path_of(number), SMALL) for number in range(count)],
        [make.rest("POST", f"{make.branch}/commits", {"message": "all"})],
        [make.rest("POST", f"{upload}staged/{number}", SMALL) for number in range(count)],
    )
    for step in steps:
        load = send(server.port, iter(step), connections=FEW, seconds=math.inf)
        if load.answered < len(step):
            raise RuntimeError(f"{load.refused} requests were refused")


def path_of(number: int) -> str:
    """Return the path of a committed object."""
    return f"data/{number:06}"


class Requests:
    """Requests, as bytes, of the administrator of a server."""

    repository = f"{API}/{REPOSITORY}"
    branch = f"{repository}/branches/main"
    ref = f"{repository}/refs/main"

    def __init__(self, server: LakebedServer) -> None:
        self._url = server.endpoint
        self._host = server.endpoint.removeprefix("http://")
        key_pair = (server.access_key_id, server.secret_access_key)
        self._password = base64.b64encode(":".join(key_pair).encode()).decode()
        self._signer = S3SigV4Auth(Credentials(*key_pair), "s3", "us-east-1")

    def rest(self, method: str, target: str, body: object = b"") -> bytes:
        """Return a request; a body that is not bytes is sent as JSON."""
        if isinstance(body, bytes):
            return self.head(method, target, len(body), "application/octet-stream") + body
        data = json.dumps(body).encode()
        return self.head(method, target, len(data), "application/json") + data

    def head(self, method: str, target: str, length: int, kind: str) -> bytes:
        """Return the head of a request with a body of some length; 0 for none."""
        framing = f"Content-Length: {length}\r\nContent-Type: {kind}\r\n" if length else ""
        return (
            f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\n"
            f"Authorization: Basic {self._password}\r\n{framing}\r\n"
        ).encode()

    def numbered(self, method: str, target: str, body: object) -> Iterator[bytes]:
        """Yield requests without end, each with another number instead of `NUMBER`."""
        made = self.rest(method, target, body)
        for number in itertools.count(random.getrandbits(40)):
            yield made.replace(NUMBER.encode(), b"%016d" % number)

    def commits(self, _: int) -> Iterator[bytes]:
        """Yield uploads and commits without end, on a branch that the first request creates."""
        name = f"w{random.getrandbits(60)}"
        yield self.rest("POST", f"{self.repository}/branches", {"name": name, "source": "main"})
        branch = f"{self.repository}/branches/{name}"
        uploads = self.numbered("POST", f"{branch}/objects?path=one/{NUMBER}", SMALL)
        commit = self.rest("POST", f"{branch}/commits", {"message": "m"})
        for upload in uploads:
            yield upload
            yield commit

    def branches(self, _: int) -> Iterator[bytes]:
        """Yield requests that make a branch, upload an object and commit it, without end."""
        for number in itertools.count(random.getrandbits(60)):
            yield from self.branch_with_commit(self.repository, f"c{number}")

    def branch_with_commit(self, repository: str, name: str) -> Iterator[bytes]:
        """Yield the three requests of a branch with a commit of one object."""
        yield self.rest("POST", f"{repository}/branches", {"name": name, "source": "main"})
        branch = f"{repository}/branches/{name}"
        yield self.rest("POST", f"{branch}/objects?path=one/{name}", SMALL)
        yield self.rest("POST", f"{branch}/commits", {"message": "m"})

    def s3(self, method: str, target: str, body: bytes = b"") -> bytes:
        """Return a signed request."""
        request = AWSRequest(method, self._url + target, data=body)
        self._signer.add_auth(request)
        headers = {**dict(request.headers.items()), "Host": self._host}
        if body:
            headers["Content-Length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        return "\r\n".join([*lines, "", ""]).encode() + body


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the tables; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    sizes = Sizes.tiny() if parser.parse_args(arguments).tiny else Sizes()
    code = 0
    for place in PLACES:
        print(f"\n{place.title}")
        bars = BARS if place is SQLITE else {}
        code |= report(
            [row for rate in rates_at(place, sizes) for row in rate.rows(bars.get(rate.name))]
        )
    return code


if __name__ == "__main__":
    sys.exit(main())
