"""Speed of the doors, REST and S3, as ratios to a floor in the same run. 2 workers.

The floor of small requests is a bare function on Granian that answers 204 (`benchmarks.api_rates`);
that of large uploads and downloads a bare application that does the same to the disk
(`benchmarks.api_floor`).
"""

import argparse
import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from benchmarks import api_rates
from benchmarks.api_operations import BRANCH, OPERATIONS, REF, Operation
from benchmarks.http_load import repeated, requests_per_second
from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server

OBJECTS = 2000
LARGE_BYTES = 1 << 30
CHUNK = os.urandom(1 << 20)
QUIET = {"logging": {"level": "warning"}}


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    seconds = 0.5 if tiny else 10.0
    large_bytes = 4 << 20 if tiny else LARGE_BYTES
    with scratch_folder() as place:
        (place / "floor").mkdir()
        with (
            lakebed_server(place, settings=QUIET) as server,
            unsynced_server(place / "unsynced") as unsynced,
            floor_server(place / "floor", "bare") as (bare_port, bare_pid),
            floor_server(place / "floor", "app") as (floor_port, _),
        ):
            objects = 20 if tiny else OBJECTS
            bars = api_rates.SQLITE_BARS
            targets = api_rates.targets_of(server, bare_port, bare_pid, objects=objects, bars=bars)
            targets += api_rates.unsynced_targets_of(unsynced, bars=bars)
            small = api_rates.rows(targets, seconds=seconds)
            use_keys_of(server)
            each = each_operation(server, seconds / 10)
            large = large_rows(
                large_transfers(server, large_bytes),
                transfer(floor_port, put_head("/large/x", large_bytes), large_bytes),
                transfer(floor_port, get_head("/large/x"), 0),
            )
    floor = small[0].per_second
    return report(
        [
            *small,
            *large,
            *(Row(name, "", found, found / floor, None) for name, found in each.items()),
        ]
    )


def large_rows(found: tuple[float, float, float], up_floor: float, down_floor: float) -> list[Row]:
    """Return the rows of large objects."""
    up, down, growth = found
    return [
        Row("upload of a large object, MB", "", up / 1e6, up / up_floor, 0.5),
        Row("download of it, MB", "", down / 1e6, down / down_floor, 0.5),
        Row(f"  workers grew by {growth / 1e6:.0f} MB meanwhile", "", 0, None, None),
    ]


# Requests


_headers = ""


def request(
    method: str, target: str, body: bytes = b"", *, kind: str = "application/octet-stream"
) -> bytes:
    """A request as bytes."""
    framing = f"Content-Length: {len(body)}\r\nContent-Type: {kind}\r\n" if body else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{_headers}{framing}\r\n"
    return head.encode() + body


def each_operation(server: LakebedServer, seconds: float) -> dict[str, float]:
    """Return requests per second of each operation, for the report."""
    return {
        name: requests_per_second(
            server.port,
            repeated(partial(numbered, operation)),
            connections=1 if operation.alone else api_rates.FEW,
            seconds=seconds,
            with_bodies=operation.method != "HEAD",
        )
        for name, operation in OPERATIONS.items()
    }


def numbered(operation: Operation, number: int) -> bytes:
    """A request for an operation."""
    return request(*operation.at(number), kind="application/json")


def use_keys_of(server: LakebedServer) -> None:
    """Sign all requests in as the administrator of a server."""
    global _headers  # noqa: PLW0603 - one server, one user
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    _headers = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"


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


# Other servers


@contextmanager
def unsynced_server(folder: Path) -> Iterator[LakebedServer]:
    """A server whose storage leaves it to the system when the disk gets the bytes of objects."""
    folder.mkdir()
    local = {"root": str(folder / "objects"), "sync": False}
    with lakebed_server(folder, settings={**QUIET, "blockstore": {"local": local}}) as server:
        yield server


@contextmanager
def floor_server(folder: Path, app: str) -> Iterator[tuple[int, int]]:
    """A bare application on Granian: its port, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = "granian --interface wsgi --workers 2 --blocking-threads 128 --backpressure 1000"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", *command.split()),
            *("--no-ws", "--http", "1", "--port", str(port), f"benchmarks.api_floor:{app}"),
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
        yield port, process.pid
    finally:
        kill_family(process)


def kill_family(process: "subprocess.Popen[bytes]") -> None:
    """End Granian and its workers; one that is asked to end may wait for ever."""
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
