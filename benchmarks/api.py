"""Speed of the REST API, as ratios to a floor in the same run.

The floor of small reads is a request that is authenticated, goes through all of the middleware and
asks for nothing (the version); the floor of uploads and downloads is a bare application on the same
server that does the same to the disk (`benchmarks.api_floor`). 16 connections, 2 workers.
"""

import argparse
import base64
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import httpx
import psutil

from benchmarks.api_operations import BRANCH, OPERATIONS, REF, REPOSITORY, Operation
from benchmarks.http_load import repeated, requests_per_second
from benchmarks.report import Row, report
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server

CONNECTIONS = 16
TURNS = 5
OBJECTS = 2000
SMALL = os.urandom(1024)
LARGE_BYTES = 1 << 30
CHUNK = os.urandom(1 << 20)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    seconds = 0.5 if tiny else 10.0
    large_bytes = 4 << 20 if tiny else LARGE_BYTES
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        (place / "floor").mkdir()
        with (
            lakebed_server(place, settings={"logging": {"level": "warning"}}) as server,
            floor_server(place / "floor") as floor_port,
        ):
            commit = prepare(server, objects=20 if tiny else OBJECTS)
            small = small_requests(server, floor_port, commit, seconds)
            large = large_transfers(server, large_bytes)
            large_floor = [
                transfer(floor_port, put_head("/large/x", large_bytes), large_bytes),
                transfer(floor_port, get_head("/large/x"), 0),
            ]
            each = each_operation(server, seconds / 10)
    floor = small["no-op, signed in"]
    return report(
        [
            *rows(small, large, large_floor),
            *(Row(name, "sqlite", found, found / floor, None) for name, found in each.items()),
        ]
    )


def rows(
    small: dict[str, float], large: tuple[float, float, float], large_floor: list[float]
) -> list[Row]:
    """Return the table."""
    floor = small["no-op, signed in"]
    bars = {"stat, committed": 0.4, "get 1 KiB, committed": 0.3}
    upload, upload_floor = small.pop("upload 1 KiB"), small.pop("its floor")
    up, down, growth = large
    return [
        *(Row(name, "sqlite", each, each / floor, bars.get(name)) for name, each in small.items()),
        Row("upload 1 KiB", "sqlite", upload, upload / upload_floor, 0.5),
        Row("  its floor", "sqlite", upload_floor, None, None),
        Row("upload of a large object, MB", "sqlite", up / 1e6, up / large_floor[0], 0.5),
        Row("download of it, MB", "sqlite", down / 1e6, down / large_floor[1], 0.5),
        Row(f"  workers grew by {growth / 1e6:.0f} MB meanwhile", "sqlite", 0, None, None),
    ]


# Requests


_headers = ""


def request(
    method: str, target: str, body: bytes = b"", *, kind: str = "application/octet-stream"
) -> bytes:
    """A request as bytes."""
    framing = f"Content-Length: {len(body)}\r\nContent-Type: {kind}\r\n" if body else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: bench\r\n{_headers}{framing}\r\n"
    return head.encode() + body


def get(target: str) -> Callable[[int], bytes]:
    """The same request again and again."""
    prepared = request("GET", target)
    return lambda _: prepared


def get_some(target: str, objects: int) -> Callable[[int], bytes]:
    """A request for one object after the other, in no order."""
    order = list(range(objects))
    random.Random(0).shuffle(order)
    prepared = [request("GET", target.format(path_of(number))) for number in order]
    return lambda number: prepared[number % objects]


def put(target: str) -> Callable[[int], bytes]:
    """Uploads, each under a name of its own."""
    return lambda number: request("PUT", f"{target}/{number}", SMALL)


def post(target: str) -> Callable[[int], bytes]:
    """Uploads, each under a path of its own."""
    return lambda number: request("POST", f"{target}{path_of(number)}", SMALL)


def path_of(number: int) -> str:
    """The path of an object."""
    return f"data/{number % 10}/{number:06}"


# Small requests


def prepare(server: LakebedServer, *, objects: int) -> str:
    """Make a repository with committed objects; return their commit."""
    global _headers  # noqa: PLW0603 - one server, one user
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    _headers = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    with httpx.Client(
        base_url=server.endpoint,
        auth=(server.access_key_id, server.secret_access_key),
        timeout=60,
        trust_env=False,
    ) as client:
        body = {"name": "bench", "storage_namespace": f"{server.namespace}/bench"}
        client.post("/api/v1/repositories", json=body).raise_for_status()
        for number in range(objects):
            answer = client.post(
                f"{BRANCH}/objects", params={"path": path_of(number)}, content=SMALL
            )
            answer.raise_for_status()
        made = client.post(f"{BRANCH}/commits", json={"message": "all"}).raise_for_status()
        dev = {"name": "dev", "source": "main"}
        client.post(f"{REPOSITORY}/branches", json=dev).raise_for_status()
        return str(made.json()["id"])


def small_requests(
    server: LakebedServer, floor_port: int, commit: str, seconds: float
) -> dict[str, float]:
    """Return requests per second of what there are bars for, and of their floors.

    They take turns, so that whatever else the machine does meanwhile slows down all of them.
    """
    at_commit = f"{REPOSITORY}/refs/{commit}"
    objects = 20 if seconds < 1 else OBJECTS
    wanted = {
        "no-op, signed in": get("/api/v1/config/version"),
        "stat, committed": get_some(f"{at_commit}/objects/stat?path={{}}", objects),
        "get 1 KiB, committed": get_some(f"{at_commit}/objects?path={{}}", objects),
        "  the same by branch: stat": get_some(f"{REF}/objects/stat?path={{}}", objects),
        "  the same by branch: get": get_some(f"{REF}/objects?path={{}}", objects),
        "list 1,000 entries": get(f"{REF}/objects/ls?amount=1000"),
        "upload 1 KiB": post(f"{BRANCH}/objects?path=new/"),
        "its floor": put("/small"),
    }
    requests = {name: repeated(make) for name, make in wanted.items()}
    found: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(TURNS):
        for name, each in requests.items():
            port = floor_port if name == "its floor" else server.port
            found[name].append(
                requests_per_second(port, each, connections=CONNECTIONS, seconds=seconds / TURNS)
            )
    return {name: median(rates) for name, rates in found.items()}


def each_operation(server: LakebedServer, seconds: float) -> dict[str, float]:
    """Return requests per second of each operation, for the report."""
    return {
        name: requests_per_second(
            server.port,
            repeated(partial(numbered, operation)),
            connections=1 if operation.alone else CONNECTIONS,
            seconds=seconds,
            with_bodies=operation.method != "HEAD",
        )
        for name, operation in OPERATIONS.items()
    }


def numbered(operation: Operation, number: int) -> bytes:
    """A request for an operation."""
    return request(*operation.at(number), kind="application/json")


# Large objects


def large_transfers(server: LakebedServer, size: int) -> tuple[float, float, float]:
    """Return bytes per second up and down, and by how many bytes the workers grew."""
    before = resident(server)
    head = put_head(f"{BRANCH}/objects?path=large", size, method="POST")
    up = transfer(server.port, head, size)
    down = transfer(server.port, get_head(f"{REF}/objects?path=large"), 0)
    return up, down, resident(server) - before


def resident(server: LakebedServer) -> float:
    """The memory of all processes of a server."""
    family = psutil.Process(server.process.pid).children(recursive=True)
    return float(sum(process.memory_info().rss for process in family))


def put_head(target: str, size: int, method: str = "PUT") -> bytes:
    """The head of a large upload."""
    kind = "Content-Type: application/octet-stream\r\n"
    length = f"Content-Length: {size}\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: x\r\n{_headers}{length}{kind}\r\n".encode()


def get_head(target: str) -> bytes:
    """The head of a large download."""
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n{_headers}\r\n".encode()


def transfer(port: int, head: bytes, size: int) -> float:
    """Send a request with a body, take the answer; return bytes per second, both ways together."""
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head)
        for _ in range(size // len(CHUNK)):
            connection.sendall(CHUNK)
        received = bytearray(connection.recv(1 << 16))
        assert received.startswith(b"HTTP/1.1 20"), bytes(received[:200])
        while b"\r\n\r\n" not in received:
            received += connection.recv(1 << 16)
        top, _, rest = bytes(received).partition(b"\r\n\r\n")
        length = int(top.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        left = length - len(rest)
        while left:
            left -= len(connection.recv(min(left, 1 << 20)))
    return (size + length) / (time.perf_counter() - begun)


# The floor


@contextmanager
def floor_server(folder: Path) -> Iterator[int]:
    """A bare application on the same HTTP server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = "granian --interface wsgi --workers 2 --blocking-threads 128 --backpressure 1000"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", *command.split()),
            *("--no-ws", "--http", "1", "--port", str(port), "benchmarks.api_floor:app"),
        ],
        env={**os.environ, "LAKEBED_FLOOR": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
