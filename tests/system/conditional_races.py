"""Races of conditional writes over a real server, with commits and merges beside them.

For each key all racers put different bytes at the same moment, half of them by S3 and half by the
REST API, with ``If-None-Match: *``. Exactly one of them must win; every other one must be told 412;
and readers, the branch and every commit must show the bytes of the winner and no others.

`python -m tests.system.conditional_races sqlite 2000` runs the large form; the databases are those
of `DATABASES`.
"""

import http.client
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import md5
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch
from urllib.parse import quote

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.testing.conformance.kv_concurrency import in_threads
from lakebed.testing.servers.databases import (
    dynamodb_server,
    dynamodb_url,
    etcd_server,
    etcd_url,
    postgresql_server,
)
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.object_stores import seaweedfs
from tests.kit.object_stores import BUCKET, s3_settings
from tests.system.api_kit import TIMEOUT_SECONDS, Answer, RawClient, create_repository

DATABASES: Final = ("sqlite", "postgresql", "dynamodb", "etcd", "s3")
RACERS: Final = 8
COMMITTERS: Final = 2
WORKERS: Final = 3
PAUSE_SECONDS: Final = 0.02
"""Between the commits of one committer."""
GROUPS: Final = 4
"""So many keys are raced for at the same time, each by its own racers."""
_LAKE: Final = "lake"
_BRANCH: Final = f"/repositories/{_LAKE}/branches/main"
_OBJECTS: Final = f"{_BRANCH}/objects"

Put = Callable[[str, bytes, dict[str, str]], int]
"""Write bytes to a path with some headers; return the status."""


@dataclass
class S3Client:
    """Signed requests of the administrator to the S3 gateway, on one connection; no retries."""

    server: LakebedServer
    _connection: http.client.HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self._connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.port, timeout=TIMEOUT_SECONDS
        )
        pair = Credentials(self.server.access_key_id, self.server.secret_access_key)
        self._signer = S3SigV4Auth(pair, "s3", "us-east-1")

    def call(
        self, method: str, key: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        target = f"/{_LAKE}/{quote(key)}"
        request = AWSRequest(method, f"{self.server.endpoint}{target}", headers or {}, body)
        self._signer.add_auth(request)
        self._connection.request(method, target, body, dict(request.headers.items()))
        answer = self._connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())

    def close(self) -> None:
        self._connection.close()


@dataclass
class Verdict:
    """Result of a race: the counts, and the first of each kind of violation."""

    keys: int = 0
    seconds: float = 0.0
    commits: int = 0
    others: Counter[str] = field(default_factory=Counter)
    """Answers to commits and merges."""
    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def note(self, kind: str, example: object) -> None:
        self.violations[kind] += 1
        self.examples.setdefault(kind, str(example))


@dataclass
class _Race:
    server: LakebedServer
    verdict: Verdict
    stopped: threading.Event = field(default_factory=threading.Event)
    told: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    """For each path, the status and the bytes of each racer."""
    seen: dict[str, set[bytes | None]] = field(default_factory=dict)
    """For each path, the bytes that were read by racers that had their answer."""

    def racer(self, barrier: threading.Barrier, number: int, paths: list[str]) -> None:
        with ExitStack() as closing:
            client = closing.enter_context(RawClient(self.server))
            s3 = S3Client(self.server)
            closing.callback(s3.close)
            put = by_s3(s3) if number % 2 else by_api(client)
            try:
                for path in paths:
                    body = f"racer {number} of {path}".encode()
                    barrier.wait(TIMEOUT_SECONDS)
                    status = put(path, body, {"If-None-Match": "*"})
                    self.told[path].append((status, body))
                    answer = s3.call("GET", f"main/{path}")
                    found = answer.body if answer.status == 200 else None
                    self.seen[path].add(found)
            except BaseException:
                barrier.abort()
                raise

    def committer(self) -> None:
        with RawClient(self.server) as client:
            while not self.stopped.wait(PAUSE_SECONDS):
                answer = client.post_json(f"{_BRANCH}/commits", {"message": "beside the race"})
                self.verdict.others[f"commit {answer.status}"] += 1

    def merger(self) -> None:
        """Merge a branch with a new object into the branch of the race, again and again."""
        at = f"/repositories/{_LAKE}/branches"
        with RawClient(self.server) as client:
            made = client.post_json(at, {"name": "side", "source": "main"})
            assert made.status == 201, made
            number = 0
            while not self.stopped.wait(PAUSE_SECONDS):
                number += 1
                put = client.call("POST", f"{at}/side/objects", body=b"x", path=f"side/{number}")
                assert put.status == 201, put
                client.post_json(f"{at}/side/commits", {"message": "to be merged"})
                merged = client.post_json(f"/repositories/{_LAKE}/refs/side/merge/main", {})
                self.verdict.others[f"merge {merged.status}"] += 1

    def judge(self) -> None:
        winners = {path: self._winner(path) for path in self.told}
        with RawClient(self.server) as client:
            client.post_json(f"{_BRANCH}/commits", {"message": "the rest"})
            for path, body in winners.items():
                answer = client.call("GET", f"/repositories/{_LAKE}/refs/main/objects", path=path)
                found = answer.body if answer.status == 200 else None
                if body is not None and found != body:
                    self.verdict.note("other bytes at the end", f"{path}: {found!r}")
                for seen in self.seen[path] - {body}:
                    self.verdict.note("a refused writer's bytes were read", f"{path}: {seen!r}")
            self._judge_commits(client, winners)

    def _winner(self, path: str) -> bytes | None:
        told = self.told[path]
        for status, _ in told:
            if status >= 500:
                self.verdict.note("5xx", f"{path}: {status}")
            elif status not in {200, 201, 412}:
                self.verdict.note("other status", f"{path}: {status}")
        winners = [body for status, body in told if status in {200, 201}]
        if len(winners) != 1:
            self.verdict.note(f"{'no' if not winners else 'several'} winners", path)
            return None
        return winners[0]

    def _judge_commits(self, client: RawClient, winners: dict[str, bytes | None]) -> None:
        """Each commit has the bytes of winners alone, and no key was committed twice."""
        committed: Counter[str] = Counter()
        log = [each["id"] for each in _pages(client, "refs/main/commits", first_parent=True)]
        self.verdict.commits = len(log)
        for commit, parent in pairwise(log):
            between = f"refs/{parent}/diff/{commit}"
            for each in _pages(client, between, type="two_dot"):
                path = each["path"]
                if path not in winners:
                    continue
                committed[path] += 1
                at = f"/repositories/{_LAKE}/refs/{commit}/objects/stat"
                checksum = client.call("GET", at, path=path).json["checksum"]
                body = winners[path]
                if body is not None and checksum != md5(body).hexdigest():
                    self.verdict.note("a refused writer's bytes were committed", f"{path} {commit}")
        for path, body in winners.items():
            if committed[path] != (body is not None):
                self.verdict.note(f"committed {committed[path]} times", path)


def race(server: LakebedServer, keys: int) -> Verdict:
    """Let racers put all keys, one after another in each group, beside committers and a merger."""
    verdict = Verdict(keys)
    paths = [f"race/{number:05}" for number in range(keys)]
    the_race = _Race(server, verdict, told={p: [] for p in paths}, seen={p: set() for p in paths})
    with RawClient(server) as client:
        create_repository(client, _LAKE)
    racers: list[Callable[[], None]] = []
    for group in range(GROUPS):
        barrier = threading.Barrier(RACERS)
        mine = paths[group::GROUPS]
        racers += [partial(the_race.racer, barrier, number, mine) for number in range(RACERS)]
    began = time.monotonic()
    others = [the_race.committer] * COMMITTERS + [the_race.merger]
    with _beside(others, the_race.stopped):
        in_threads(racers)
    verdict.seconds = time.monotonic() - began
    the_race.judge()
    return verdict


def count(server: LakebedServer, increments: int) -> Verdict:
    """Let racers add one to a number by ``If-Match``; it must end at the acknowledged increments.

    The repository is that of `race`.
    """
    verdict = Verdict(1)
    the_race = _Race(server, verdict)
    path = "race/counter"
    acknowledged: list[int] = []

    def add(number: int) -> None:
        with ExitStack() as closing:
            client = closing.enter_context(RawClient(server))
            s3 = S3Client(server)
            closing.callback(s3.close)
            put = by_s3(s3) if number % 2 else by_api(client)
            done = 0
            while done < increments:
                read = s3.call("GET", f"main/{path}")
                assert read.status == 200, read
                new = int(read.body) + 1
                status = put(path, b"%d" % new, {"If-Match": read.headers["etag"]})
                if status in {200, 201}:
                    done += 1
                    acknowledged.append(new)
                elif status != 412:
                    verdict.note("5xx" if status >= 500 else "other status", status)
                    return

    with RawClient(server) as client:
        assert by_api(client)(path, b"0", {}) == 201
        began = time.monotonic()
        with _beside([the_race.committer] * COMMITTERS, the_race.stopped):
            in_threads([partial(add, number) for number in range(RACERS)])
        verdict.seconds = time.monotonic() - began
    with RawClient(server) as client:  # the server has closed a connection that was idle for long
        last = client.call("GET", f"/repositories/{_LAKE}/refs/main/objects", path=path).body
    if int(last) != len(acknowledged) or len(set(acknowledged)) != len(acknowledged):
        verdict.note("lost or unacknowledged increments", f"{last!r} of {len(acknowledged)}")
    return verdict


def by_s3(client: S3Client) -> Put:
    return lambda path, body, headers: client.call("PUT", f"main/{path}", body, headers).status


def by_api(client: RawClient) -> Put:
    return lambda path, body, headers: (
        client.call("POST", _OBJECTS, body=body, headers=headers, path=path).status
    )


def _pages(client: RawClient, at: str, **query: Any) -> Iterator[dict[str, Any]]:
    after = ""
    while True:
        page = client.call("GET", f"/repositories/{_LAKE}/{at}", amount=1000, after=after, **query)
        yield from page.json["results"]
        if not page.json["pagination"]["has_more"]:
            return
        after = page.json["pagination"]["next_offset"]


@contextmanager
def _beside(calls: list[Callable[[], None]], stopped: threading.Event) -> Iterator[None]:
    """Run calls beside the block, until it ends; raise what one of them raised."""
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - raised by the caller
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


@contextmanager
def raced_server(folder: Path, name: str = "sqlite") -> Iterator[LakebedServer]:
    """Run a server on one of `DATABASES` while the block lasts; in `s3` the objects are there."""
    sections: dict[str, dict[str, Any]] = {"processes": {"workers": WORKERS}}
    namespace = "local://lakes"
    with ExitStack() as stack:
        match name:
            case "postgresql":
                postgresql = stack.enter_context(postgresql_server(durable=False))
                sections["database"] = {"url": postgresql.create_database()}
            case "dynamodb":
                keys = {"AWS_ACCESS_KEY_ID": "lakebed", "AWS_SECRET_ACCESS_KEY": "secret"}
                stack.enter_context(patch.dict("os.environ", keys))
                dynamodb = stack.enter_context(dynamodb_server(durable=False))
                sections["database"] = {"url": dynamodb_url(dynamodb.port)}
            case "etcd":
                etcd = stack.enter_context(etcd_server(durable=False))
                sections["database"] = {"url": etcd_url(etcd.port)}
            case "s3":
                storage = s3_settings(stack.enter_context(seaweedfs()))
                namespace = f"s3://{BUCKET}"
                sections["blockstore"] = {
                    "type": "s3",
                    "s3": {
                        "endpoint": storage.endpoint,
                        "access_key_id": storage.access_key_id,
                        "secret_access_key": storage.secret_access_key,
                        "path_style": True,
                    },
                }
        yield stack.enter_context(lakebed_server(folder, settings=sections, namespace=namespace))


def main(name: str, keys: int) -> int:
    """Run the large form; print its result, and return whether a violation was found."""
    with TemporaryDirectory() as folder, raced_server(Path(folder), name) as server:
        verdict = race(server, keys)
        print(name, verdict, flush=True)  # noqa: T201
        counted = count(server, max(1, keys // 20))
        print(name, "counter", counted, flush=True)  # noqa: T201
    return bool(verdict.violations or counted.violations)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
