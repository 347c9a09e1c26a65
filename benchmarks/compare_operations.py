"""The operations that `benchmarks.compare` measures, each as the seconds that one of it takes."""

import base64
import json
import math
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from statistics import median
from typing import Any

from benchmarks.http_load import Load, send, send_each
from lakebed.testing.servers.lakebed import LakebedServer

API = "/api/v1/repositories"
WRITERS = 12
CONNECTIONS = 16
PAGE = 1000
CHUNK = os.urandom(1 << 20)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much to do."""

    many: int = 100_000
    listed_pages: int = 20
    base: int = 20_000
    some: int = 200
    repeats: int = 10
    branches: int = 320
    large_bytes: int = 512 << 20

    @classmethod
    def tiny(cls) -> "Sizes":
        """Next to nothing."""
        return cls(
            many=50, listed_pages=1, base=20, some=2, repeats=1, branches=16, large_bytes=1 << 20
        )


class Client:
    """One connection to a server."""

    def __init__(self, server: LakebedServer) -> None:
        self._headers = {"Authorization": f"Basic {basic_token(server)}"}
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=600)

    def ask(self, method: str, target: str, body: Any = None) -> Any:
        """Send a request and return the answer, of JSON or nothing.

        Raises:
            RuntimeError: It is not a success.
        """
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {**self._headers, **({} if data is None else {"Content-Type": kind})}
        self._connection.request(method, API + target, data, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{method} {target}: {answer.status} {content[:500]!r}")
        is_json = answer.headers.get_content_type() == "application/json"
        return json.loads(content) if content and is_json else None

    def upload(self, target: str, size_bytes: int) -> None:
        """Upload so many bytes."""
        chunks: Iterator[bytes] = iter([CHUNK] * (size_bytes // len(CHUNK)))
        headers = {
            **self._headers,
            "Content-Length": str(size_bytes),
            "Content-Type": "application/octet-stream",
        }
        self._connection.request("POST", API + target, chunks, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 201, content

    def download(self, target: str) -> int:
        """Read an object; return its size."""
        self._connection.request("GET", API + target, headers=self._headers)
        answer = self._connection.getresponse()
        buffer, size = bytearray(1 << 20), 0
        while read := answer.readinto(buffer):
            size += read
        return size

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        self._connection.close()


def measure_round(server: LakebedServer, number: int, sizes: Sizes) -> dict[str, float]:
    """Return for each operation how many seconds one takes."""
    with closing(Client(server)) as client:
        found = {
            **measure_many(server, client, f"many-{number}", sizes),
            **measure_over_many(server, client, f"base-{number}", sizes),
            **measure_branches(server, client, f"small-{number}", sizes),
            **measure_large(client, f"large-{number}", sizes),
        }
    print(f"{server.folder.name}: " + ", ".join(f"{k} {v:.5f} s" for k, v in found.items()))
    return found


def measure_many(
    server: LakebedServer, client: Client, name: str, sizes: Sizes
) -> dict[str, float]:
    """Stage many entries; list and compare what is staged; commit it."""
    make_repository(server, client, name)
    staging = seconds(lambda: stage(server, name, "main", range(sizes.many)))
    client.close()  # the server closes what is idle for so long

    def list_pages() -> None:
        after = ""
        for _ in range(sizes.listed_pages):
            target = f"/{name}/refs/main/objects/ls?amount={PAGE}&after={after}"
            after = client.ask("GET", target)["pagination"]["next_offset"]

    listing = median(seconds(list_pages) for _ in range(3))
    changes = partial(client.ask, "GET", f"/{name}/branches/main/diff")
    first_page = median(seconds(changes) for _ in range(3 * sizes.repeats))
    return {
        "staging by the API": staging / sizes.many,
        "staged listing": listing,
        "first page of uncommitted changes": first_page,
        "commit of many": seconds(lambda: commit(client, name, "main")),
    }


def measure_over_many(
    server: LakebedServer, client: Client, name: str, sizes: Sizes
) -> dict[str, float]:
    """Commit a few changes over many entries."""
    make_repository(server, client, name)
    stage(server, name, "main", range(sizes.base))
    client.close()
    commit(client, name, "main")
    times = []
    for repeat in range(sizes.repeats):
        first = sizes.base + repeat * sizes.some
        stage(server, name, "main", range(first, first + sizes.some))
        times.append(seconds(lambda: commit(client, name, "main")))
    return {"commit of some over many": median(times)}


def measure_branches(
    server: LakebedServer, client: Client, name: str, sizes: Sizes
) -> dict[str, float]:
    """Branch, upload and commit, by several clients; then merge the branches, by one."""
    make_repository(server, client, name)
    stage(server, name, "main", range(10))
    commit(client, name, "main")

    def requests(numbers: Sequence[int]) -> Iterator[bytes]:
        for number in numbers:
            branch = f"b{number}"
            made = {"name": branch, "source": "main"}
            yield request(server, "POST", f"/{name}/branches", made)
            target = f"/{name}/branches/{branch}"
            yield request(server, "POST", f"{target}/objects?path=o{number}", CHUNK[:1024])
            yield request(server, "POST", f"{target}/commits", {"message": "m"})

    numbers = range(sizes.branches)
    series = [list(requests(numbers[first::CONNECTIONS])) for first in range(CONNECTIONS)]
    work = answered(3 * sizes.branches, send_each(server.port, [iter(each) for each in series]))
    merges = [
        request(server, "POST", f"/{name}/refs/b{number}/merge/main", {"message": "m"})
        for number in range(sizes.branches // 4)
    ]
    merging = answered(len(merges), send_each(server.port, [iter(merges)]))
    return {
        "branch, upload and commit": work.seconds / sizes.branches,
        "small merge": merging.seconds / len(merges),
    }


def measure_large(client: Client, name: str, sizes: Sizes) -> dict[str, float]:
    """Upload and download one large object."""
    client.ask("POST", "", {"name": name, "storage_namespace": f"local://lakes/{name}"})
    target = "objects?path=large"

    def upload() -> float:
        use_memory(4 * sizes.large_bytes)
        return seconds(lambda: client.upload(f"/{name}/branches/main/{target}", sizes.large_bytes))

    return {
        "upload of a large object": median(upload() for _ in range(3)),
        "download of a large object": median(
            seconds(lambda: client.download(f"/{name}/refs/main/{target}")) for _ in range(9)
        ),
    }


def use_memory(size_bytes: int) -> None:
    """Write to so much memory and give it back.

    A virtual machine may get memory from its host only when it is first used: one gave 400 MB a
    second, to the system's cache of files too, and an upload was mostly waiting for that.
    """
    with mmap.mmap(-1, size_bytes) as memory:
        for start in range(0, size_bytes, len(CHUNK)):
            memory[start : start + len(CHUNK)] = CHUNK


def make_repository(server: LakebedServer, client: Client, name: str) -> None:
    """Make a repository."""
    namespace = f"{server.namespace}/{name}"
    client.ask("POST", "", {"name": name, "storage_namespace": namespace})


def stage(server: LakebedServer, name: str, branch: str, numbers: range) -> None:
    """Stage entries of objects that are elsewhere."""

    def entry(number: int) -> bytes:
        body = {
            "physical_address": f"local://elsewhere/data/{number:08}",
            "checksum": f"{number:032x}",
            "size_bytes": number,
        }
        path = f"data/{number % 10}/{number:08}"
        return request(server, "PUT", f"/{name}/branches/{branch}/objects?path={path}", body)

    entries = map(entry, numbers)
    answered(len(numbers), send(server.port, entries, connections=WRITERS, seconds=math.inf))


def answered(count: int, load: Load) -> Load:
    """Return what was measured of so many requests.

    Raises:
        RuntimeError: Some were refused.
    """
    if load.answered < count:
        raise RuntimeError(f"{load.refused} of {count} requests were refused")
    return load


def request(server: LakebedServer, method: str, target: str, body: Any) -> bytes:
    """Return a request to send as it is: the client must not be what takes the time."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
    return (
        f"{method} {API}{target} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Basic {basic_token(server)}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    ).encode() + data


def basic_token(server: LakebedServer) -> str:
    """Return what names the user to the server."""
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    return base64.b64encode(pair.encode()).decode()


def commit(client: Client, name: str, branch: str) -> None:
    """Commit what is staged."""
    client.ask("POST", f"/{name}/branches/{branch}/commits", {"message": "m"})


def seconds(operation: Callable[[], object]) -> float:
    """Return how long an operation takes."""
    begun = time.perf_counter()
    operation()
    return time.perf_counter() - begun
