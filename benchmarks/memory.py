"""The memory of a worker while many list and upload at the same time.

50 clients list 1,000 entries again and again, and 50 send an object of 100 MB each, to two workers.
The bar is 400 MB, as a ratio: 1.00 is exactly that much, less memory is a larger ratio.
"""

import argparse
import base64
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Final

import httpx
import psutil

from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server

CLIENTS: Final = 50
ENTRIES: Final = 1000
MEGABYTE: Final = 1_000_000
BAR_BYTES: Final = 400 * MEGABYTE
LOOK_SECONDS: Final = 0.05
REPOSITORY: Final = "/api/v1/repositories/bench"


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; return 1 if a worker took more than the bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    settings = {"logging": {"level": "warning"}}
    with (
        scratch_folder() as folder,
        lakebed_server(folder, settings=settings) as server,
    ):
        _fill(server)
        before = _largest(server)
        peak, sent, seconds = _crowd(server, megabytes=1 if tiny else 100)
    size = f"peak of a worker, {peak / MEGABYTE:.0f} MB (idle {before / MEGABYTE:.0f} MB)"
    return report(
        [
            Row(size, "sqlite", 0, BAR_BYTES / peak, 1.0),
            Row("uploaded meanwhile, MB", "sqlite", sent / MEGABYTE / seconds, None, None),
        ]
    )


def _fill(server: LakebedServer) -> None:
    pair = (server.access_key_id, server.secret_access_key)
    with httpx.Client(base_url=server.endpoint, auth=pair, timeout=60, trust_env=False) as client:
        namespace = f"{server.namespace}/bench"
        body = {"name": "bench", "storage_namespace": namespace}
        client.post("/api/v1/repositories", json=body).raise_for_status()
        for number in range(ENTRIES):
            staged = {
                "physical_address": f"local://elsewhere/{number}",
                "checksum": "c",
                "size_bytes": 1,
            }
            query = {"path": f"listed/{number:06}"}
            client.put(
                f"{REPOSITORY}/branches/main/objects", params=query, json=staged
            ).raise_for_status()


def _crowd(server: LakebedServer, *, megabytes: int) -> tuple[int, int, float]:
    """Return the largest memory of a process, the bytes uploaded, and how long that took."""
    uploaded = Event()
    begun = time.perf_counter()
    with ThreadPoolExecutor(2 * CLIENTS) as pool:
        lists = [pool.submit(_list_until, server, uploaded) for _ in range(CLIENTS)]
        uploads = [pool.submit(_upload, server, each, megabytes) for each in range(CLIENTS)]
        peak = 0
        try:
            while not all(each.done() for each in uploads):
                peak = max(peak, _largest(server))
                time.sleep(LOOK_SECONDS)
        finally:
            uploaded.set()
        seconds = time.perf_counter() - begun
        for each in (*lists, *uploads):
            each.result()
    return peak, CLIENTS * megabytes * MEGABYTE, seconds


def _largest(server: LakebedServer) -> int:
    family = psutil.Process(server.process.pid).children(recursive=True)
    return max(process.memory_info().rss for process in family)


def _list_until(server: LakebedServer, ended: Event) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        while not ended.is_set():
            target = f"{REPOSITORY}/refs/main/objects/ls?amount={ENTRIES}"
            connection.sendall(_head(server, "GET", target, ""))
            _take_answer(connection)


def _upload(server: LakebedServer, number: int, megabytes: int) -> None:
    target = f"{REPOSITORY}/branches/main/objects?path=large/{number}"
    framing = (
        f"Content-Length: {megabytes * MEGABYTE}\r\nContent-Type: application/octet-stream\r\n"
    )
    chunk = bytes(MEGABYTE)
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as connection:
        connection.sendall(_head(server, "POST", target, framing))
        # A server that refuses says why, and closes the connection.
        with suppress(BrokenPipeError):
            for _ in range(megabytes):
                connection.sendall(chunk)
        _take_answer(connection)


def _head(server: LakebedServer, method: str, target: str, framing: str) -> bytes:
    pair = f"{server.access_key_id}:{server.secret_access_key}"
    key = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    return f"{method} {target} HTTP/1.1\r\nHost: bench\r\n{key}{framing}\r\n".encode()


def _take_answer(connection: socket.socket) -> None:
    """Read one answer to its end; it must be a success."""
    received = bytearray()
    while b"\r\n\r\n" not in received:
        received += connection.recv(1 << 16)
    head, _, rest = bytes(received).partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 20"):
        raise ConnectionError(f"the server answered {head[:200]!r}")
    left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]) - len(rest)
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))


if __name__ == "__main__":
    sys.exit(main())
