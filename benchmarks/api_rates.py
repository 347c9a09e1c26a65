"""Rates of small requests, as ratios to G: that of a bare function on Granian that answers 204.

All of them take turns, with 16 and with 100 connections, so that whatever else the machine does
meanwhile slows down all of them. Beside each rate stands what the processes of the server spent on
a request, in microseconds of a processor: that says more than a rate on a machine that does other
things too.
"""

import base64
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

import httpx
import psutil
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from benchmarks.api_operations import BRANCH, REF, REPOSITORY
from benchmarks.http_load import send
from benchmarks.report import Row
from lakebed.testing.servers.lakebed import LakebedServer

FEW, MANY = 16, 100
TURNS: Final = 5
SMALL: Final = b"x" * 1024
SIGNED: Final = 25_000
"""Requests of S3 that are signed beforehand, each for a key of its own, as those of REST are: so
many that few keys come twice."""
MANY_SHARE: Final = 0.9
"""What a rate with many connections is at least, as a share of that with few."""


FLOOR: Final = "G: bare Granian, 204"
SQLITE_BARS: Final = {
    "healthcheck": 0.50,
    "get repository": 0.17,
    "stat, committed": 0.17,
    "stat, staged": 0.20,
    "GET 1 KiB": 0.13,
    "log of a short history": 0.15,
    "list 100": 0.045,
    "list 1000": 0.013,
    "S3 LIST 1000": 0.013,
    "S3 GET 1 KiB": 0.11,
    "upload 1 KiB": 0.030,
    "S3 PUT 1 KiB": 0.030,
    "create branch": 0.06,
    "upload 1 KiB, not synced": 0.05,
    "S3 PUT 1 KiB, not synced": 0.05,
}
POSTGRESQL_BARS: Final = {
    "stat, committed": 0.10,
    "stat, staged": 0.10,
    "GET 1 KiB": 0.08,
    "list 100": 0.04,
    "list 1000": 0.013,
    "S3 LIST 1000": 0.013,
    "upload 1 KiB": 0.025,
    "S3 PUT 1 KiB": 0.025,
}
"""At least so many for each that the bare function answers, by the database of the server."""


@dataclass(frozen=True, slots=True)
class Target:
    """Requests of one kind, and what is asked of their rate."""

    name: str
    bar: float | None
    """See `SQLITE_BARS`."""
    make: Callable[[int], bytes]
    port: int
    pid: int
    """The process whose family serves them."""
    database_pid: int | None = None
    """The process whose family keeps the records, if that is another one."""

    def measure(self, connections: int, seconds: float) -> "Measured":
        """Send requests for some seconds."""
        requests = map(self.make, itertools.count(random.getrandbits(40)))
        before = [spent(pid) for pid in (self.pid, self.database_pid)]
        load = send(self.port, requests, connections=connections, seconds=seconds)
        after = [spent(pid) for pid in (self.pid, self.database_pid)]
        count = max(1, load.answered + load.refused)
        server, database = (
            (end - begin) / count * 1e6 for begin, end in zip(before, after, strict=True)
        )
        return Measured(load.per_second, server, database, load.refused)


class Measured(NamedTuple):
    """What a server did for requests of one kind."""

    per_second: float
    microseconds: float
    """Of a processor, for one of them."""
    database_microseconds: float
    """Those that the database spent besides."""
    refused: int


def rows(targets: list[Target], *, seconds: float) -> list[Row]:
    """Measure all targets, of which the first is G; return their rows."""
    turns: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(TURNS):
        for target in targets:
            for connections in (FEW, MANY):
                measured = target.measure(connections, seconds / TURNS)
                turns.setdefault((target.name, connections), []).append(measured)
    found = {key: _together(each) for key, each in turns.items()}
    floor = found[targets[0].name, FEW].per_second
    return [
        row
        for each in targets
        for row in _pair(each, found[each.name, FEW], found[each.name, MANY], floor)
    ]


def _together(turns: list[Measured]) -> Measured:
    return Measured(
        median(each.per_second for each in turns),
        median(each.microseconds for each in turns),
        median(each.database_microseconds for each in turns),
        sum(each.refused for each in turns),
    )


def _pair(target: Target, few: Measured, many: Measured, floor: float) -> Iterator[Row]:
    is_floor = target.name == FLOOR
    ratio = None if is_floor else _ratio(few.per_second, floor)
    yield Row(target.name, _note(few), few.per_second, ratio, target.bar)
    # A refusal is no answer: a rate with refusals in it misses its bar.
    ratio = None if many.refused else _ratio(many.per_second, few.per_second)
    bar = None if is_floor else MANY_SHARE
    yield Row(f"  {MANY} connections, to {FEW}", _note(many), many.per_second, ratio, bar)


def _ratio(rate: float, to: float) -> float | None:
    """Return how many times as fast; None if the other answered nothing in its short time."""
    return rate / to if to else None


def _note(found: Measured) -> str:
    refused = f", {found.refused} refused" if found.refused else ""
    besides = found.database_microseconds
    database = f" + {besides:.0f} us" if besides else ""
    return f"{found.microseconds:.0f} us{database}{refused}"


def spent(pid: int | None) -> float:
    """Return the seconds of processors that a process and its family have used so far."""
    if pid is None:
        return 0.0
    seconds = 0.0
    for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it ended just now
            times = process.cpu_times()
            # With those that ended and that it has waited for.
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


# What is asked


def targets_of(
    server: LakebedServer,
    bare_port: int,
    bare_pid: int,
    *,
    objects: int,
    bars: Mapping[str, float],
) -> list[Target]:
    """Prepare a server; return what to measure, G first."""
    commit = prepare(server, objects)
    numbers = itertools.cycle(random.Random(0).sample(range(objects), objects))
    ask = Asker(server)

    def rest(name: str, method: str, path: str, body: bytes = b"") -> Target:
        return Target(
            name, bars.get(name), ask.rest(method, path, body), server.port, server.process.pid
        )

    def one_of(name: str, path: str) -> Target:
        made = [ask.rest("GET", path + path_of(number))(0) for number in range(objects)]
        make = lambda _: made[next(numbers)]  # noqa: E731
        return Target(name, bars.get(name), make, server.port, server.process.pid)

    def s3(name: str, method: str, path: str, body: bytes = b"") -> Target:
        return Target(
            name, bars.get(name), ask.s3(method, path, body), server.port, server.process.pid
        )

    at = f"{REPOSITORY}/refs/{commit}/objects"
    branch = json.dumps({"name": "b{n}", "source": "main"}).encode()
    listing_100 = f"{REF}/objects/ls?prefix=data/&amount=100"
    listing = "/bench?list-type=2&prefix=main%2Fdata%2F&max-keys=1000"
    return [
        Target(FLOOR, None, ask.rest("GET", "/"), bare_port, bare_pid),
        rest("healthcheck", "GET", "/api/v1/healthcheck"),
        rest("get repository", "GET", REPOSITORY),
        one_of("stat, committed", f"{at}/stat?path="),
        rest("stat, staged", "GET", f"{REF}/objects/stat?path=staged"),
        one_of("GET 1 KiB", f"{at}?path="),
        rest("log of a short history", "GET", f"{REF}/commits"),
        rest("list 100", "GET", f"{listing_100}&after=data/0/{{n}}"),
        rest("list 1000", "GET", f"{REF}/objects/ls?prefix=data/&amount=1000"),
        s3("S3 LIST 1000", "GET", listing),
        s3("S3 GET 1 KiB", "GET", f"/bench/main/{path_of(0)}"),
        *_writes(server, ask, bars, ""),
        rest("create branch", "POST", f"{REPOSITORY}/branches", branch),
    ]


def unsynced_targets_of(server: LakebedServer, *, bars: Mapping[str, float]) -> list[Target]:
    """Prepare a server whose storage does not wait for the disk; return what to measure there."""
    prepare(server, objects=1)
    return _writes(server, Asker(server), bars, ", not synced")


def _writes(
    server: LakebedServer, ask: "Asker", bars: Mapping[str, float], note: str
) -> list[Target]:
    upload, put = f"upload 1 KiB{note}", f"S3 PUT 1 KiB{note}"
    port, pid = server.port, server.process.pid
    posts = ask.rest("POST", f"{BRANCH}/objects?path=new/{{n}}", SMALL)
    signed = (ask.s3("PUT", f"/bench/main/put/{number}", SMALL)(0) for number in range(SIGNED))
    puts = itertools.cycle(list(signed))
    return [
        Target(upload, bars.get(upload), posts, port, pid),
        Target(put, bars.get(put), lambda _number: next(puts), port, pid),
    ]


def prepare(server: LakebedServer, objects: int) -> str:
    """Make a repository with committed objects and one that is staged; return the commit."""
    with httpx.Client(
        base_url=server.endpoint,
        auth=(server.access_key_id, server.secret_access_key),
        timeout=60,
        trust_env=False,
    ) as client:
        body = {"name": "bench", "storage_namespace": f"{server.namespace}/bench"}
        client.post("/api/v1/repositories", json=body).raise_for_status()
        paths = [path_of(number) for number in range(objects)]
        for path in paths:
            upload = client.post(f"{BRANCH}/objects", params={"path": path}, content=SMALL)
            upload.raise_for_status()
        made = client.post(f"{BRANCH}/commits", json={"message": "all"}).raise_for_status()
        staged = client.post(f"{BRANCH}/objects", params={"path": "staged"}, content=SMALL)
        staged.raise_for_status()
        for name in ("dev", "empty"):
            branch = {"name": name, "source": "main"}
            client.post(f"{REPOSITORY}/branches", json=branch).raise_for_status()
        return str(made.json()["id"])


def path_of(number: int) -> str:
    """Return the path of an object."""
    return f"data/{number % 10}/{number:06}"


class Asker:
    """Makes requests, as bytes, of the administrator of a server."""

    def __init__(self, server: LakebedServer) -> None:
        self._url = server.endpoint
        self._host = server.endpoint.removeprefix("http://")
        key_pair = (server.access_key_id, server.secret_access_key)
        self._password = base64.b64encode(":".join(key_pair).encode()).decode()
        self._signer = S3SigV4Auth(Credentials(*key_pair), "s3", "us-east-1")

    def rest(self, method: str, target: str, body: bytes = b"") -> Callable[[int], bytes]:
        """Return what makes a request of a number, which stands for ``{n}`` in it."""
        kind = "application/json" if body.startswith(b"{") else "application/octet-stream"

        def make(number: int) -> bytes:
            mark = str(number)
            filled = body.replace(b"{n}", mark.encode())
            framing = f"Content-Length: {len(filled)}\r\nContent-Type: {kind}\r\n" if body else ""
            head = (
                f"{method} {target.replace('{n}', mark)} HTTP/1.1\r\nHost: {self._host}\r\n"
                f"Authorization: Basic {self._password}\r\n{framing}\r\n"
            )
            return head.encode() + filled

        made = make(0)
        return make if "{n}" in target or b"{n}" in body else lambda _: made

    def s3(self, method: str, target: str, body: bytes = b"") -> Callable[[int], bytes]:
        """Return what makes a signed request, the same one each time."""
        request = AWSRequest(method, self._url + target, data=body)
        self._signer.add_auth(request)
        headers = {**dict(request.headers.items()), "Host": self._host}
        if body:
            headers["Content-Length"] = str(len(body))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {headers[name]}" for name in headers)]
        made = "\r\n".join([*lines, "", ""]).encode() + body
        return lambda _: made
