"""Large objects, in MB a second, as ratios to a plain server or a plain client of the store.

On local storage the plain server (`benchmarks.plain_server`) sends files by `sendfile`, and writes
and syncs uploads with their MD5; it is on the same machine, with the same client. On S3 the plain
client is obstore, which asks the same store through the same proxy.
"""

import argparse
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

from obstore.store import S3Store

from benchmarks.api import API, Requests
from benchmarks.http_load import send
from benchmarks.places import BUCKET, SQLITE, SQLITE_S3, UNSYNCED, Place, helper, machine_at
from benchmarks.report import Row, report
from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.lakebed import LakebedServer

LARGE_PLACES = (SQLITE, UNSYNCED, SQLITE_S3)
LARGE_BYTES = 256 << 20
TURNS = 5
CHUNK = os.urandom(1 << 20)
"""Random bytes, of which a large object is made again and again."""
BAR = 0.5
Transfers = tuple[Callable[[], object], Callable[[], object]]
"""An upload and a download."""


class Large:
    """Uploads and downloads of one large object through a Lakebed server."""

    def __init__(self, server: LakebedServer, name: str, size_bytes: int) -> None:
        """Make a repository of that name."""
        requests = Requests(server)
        made = {"name": name, "storage_namespace": f"{server.namespace}/{name}"}
        send(server.port, iter([requests.rest("POST", API, made)]), connections=1, seconds=60)
        target, kind = "objects?path=large", "application/octet-stream"
        at = f"{API}/{name}"
        self._port = server.port
        self._size = size_bytes
        self._put = requests.head("POST", f"{at}/branches/main/{target}", size_bytes, kind)
        self._get = requests.head("GET", f"{at}/refs/main/{target}", 0, kind)

    def upload(self) -> None:
        """Upload the object."""
        transfer(self._port, self._put, self._size)

    def download(self) -> None:
        """Read the object."""
        assert transfer(self._port, self._get, 0) == self._size


def transfer(port: int, head: bytes, size: int) -> int:
    """Send a request with a body of that size; return the length of the answer's body."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head)
        for _ in range(size // len(CHUNK)):
            connection.sendall(CHUNK)
        received = bytearray(connection.recv(1 << 16))
        while b"\r\n\r\n" not in received:
            received += connection.recv(1 << 16)
        if not received.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(f"the server answered {bytes(received[:500])!r}")
        top, _, rest = bytes(received).partition(b"\r\n\r\n")
        length = int(top.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        left, buffer = length - len(rest), bytearray(len(CHUNK))
        while left:
            count = connection.recv_into(buffer, min(left, len(buffer)))
            if not count:
                raise ConnectionError(f"{left} of {length} bytes did not come")
            left -= count
        return length


def seconds(operation: Callable[[], object]) -> float:
    """Return how long an operation takes."""
    begun = time.perf_counter()
    operation()
    return time.perf_counter() - begun


def use_memory(size_bytes: int) -> None:
    """Write to so much memory and give it back.

    A virtual machine may get memory from its host only when it is first used: one gave 400 MB a
    second, to the system's cache of files too, and an upload was mostly waiting for that.
    """
    with mmap.mmap(-1, size_bytes) as memory:
        for start in range(0, size_bytes, len(CHUNK)):
            memory[start : start + len(CHUNK)] = CHUNK


@contextmanager
def plain_server(size: int) -> Iterator[Transfers]:
    """Give an upload to a plain server that syncs, and a download from it by `sendfile`."""
    with scratch_folder() as folder, helper("plain_server", str(folder)) as port:
        put = f"PUT /large HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
        get = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
        yield lambda: transfer(port, put, size), lambda: transfer(port, get, 0)


def by_obstore(
    endpoint: str, key_pair: tuple[str, str], bucket: str, path: str, size: int
) -> Transfers:
    """Return an upload by S3, in parts, and a download; obstore is a plain client."""
    store = S3Store(
        bucket,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id=key_pair[0],
        secret_access_key=key_pair[1],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    def download() -> None:
        assert sum(len(chunk) for chunk in store.get(path).stream()) == size

    return lambda: store.put(path, iter([CHUNK] * (size // len(CHUNK)))), download


def large_rows(place: Place, size: int, turns: int) -> list[Row]:
    """Return the rows of uploads and downloads at a place, by REST and by S3."""
    with machine_at(place) as machine, ExitStack() as stack:
        server = machine.start("server")
        rest = Large(server, "large", size)
        key_pair = (server.access_key_id, server.secret_access_key)
        s3 = by_obstore(server.endpoint, key_pair, "large", "main/parts", size)
        if machine.s3_settings is None:
            beside, plain = "sendfile", stack.enter_context(plain_server(size))
        else:
            store = machine.s3_settings
            key_pair = (store["access_key_id"], store["secret_access_key"])
            beside = "obstore"
            plain = by_obstore(store["endpoint"], key_pair, BUCKET, "plain", size)
        kinds = {
            "upload by REST": (rest.upload, plain[0]),
            "download by REST": (rest.download, plain[1]),
            "upload by S3, in parts": (s3[0], plain[0]),
            "download by S3": (s3[1], plain[1]),
        }
        rows = []
        for name, pair in kinds.items():
            times = []
            for _ in range(turns):
                use_memory(2 * size)
                times.append((seconds(pair[0]), seconds(pair[1])))
            ours, theirs = (median(each) for each in zip(*times, strict=True))
            bar = BAR if place is SQLITE else None
            rows.append(Row(f"{name}, MB/s", beside, size / ours / 1e6, theirs / ours, bar))
        return rows


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the tables; return 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="do next to nothing, to see it run")
    tiny = parser.parse_args(arguments).tiny
    size, turns = (4 << 20, 1) if tiny else (LARGE_BYTES, TURNS)
    code = 0
    for place in LARGE_PLACES:
        print(f"\n{place.title}")
        code |= report(large_rows(place, size, turns))
    return code


if __name__ == "__main__":
    sys.exit(main())
