"""Servers to measure: Lakebed on a database and a storage, and plain servers beside it."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import psutil

from benchmarks.scratch import scratch_folder
from lakebed.testing.servers.databases import PostgreSQLServer, postgresql_server
from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from lakebed.testing.servers.object_stores import ACCESS_KEY_ID, SECRET_ACCESS_KEY, seaweedfs

ROOT = Path(__file__).parents[1]
DELAY_MILLISECONDS = 5
BUCKET = "bench"


@dataclass(frozen=True, slots=True)
class Place:
    """A database and a storage."""

    title: str
    is_postgresql: bool = False
    is_s3: bool = False
    is_synced: bool = True


SQLITE = Place("SQLite, local storage")
UNSYNCED = Place("SQLite, local storage, objects not synced", is_synced=False)
POSTGRESQL = Place("PostgreSQL, local storage", is_postgresql=True)
SQLITE_S3 = Place("SQLite, S3 at 5 ms", is_s3=True)
POSTGRESQL_S3 = Place("PostgreSQL, S3 at 5 ms", is_postgresql=True, is_s3=True)


class Machine:
    """The database server and the object store of a place, and Lakebed servers on them."""

    def __init__(
        self,
        place: Place,
        folder: Path,
        stack: ExitStack,
        database: PostgreSQLServer | None,
        s3_settings: dict[str, Any] | None,
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._database = database
        self._is_synced = place.is_synced
        self.s3_settings = s3_settings

    @property
    def database_pid(self) -> int | None:
        """The process whose children serve the database, or None on SQLite."""
        return None if self._database is None else self._database.pid

    def start(self, name: str, sources: Path = ROOT) -> LakebedServer:
        """Start a Lakebed server from a tree of sources, on a database of its own.

        The server is only spoken to by HTTP: its tree may have other packages than this one.
        """
        folder = self._folder / name
        folder.mkdir()
        settings: dict[str, dict[str, Any]] = {"logging": {"level": "warning"}}
        if self._database is not None:
            settings["database"] = {"url": self._database.create_database()}
        if self.s3_settings is not None:
            settings["blockstore"] = {"type": "s3", "s3": self.s3_settings}
        elif not self._is_synced:
            local = {"root": str(folder / "objects"), "sync": False}
            settings["blockstore"] = {"local": local}
        environment = {"PYTHONPATH": str(sources / "src")}
        check_tree(sources, environment)
        namespace = f"s3://{BUCKET}/{name}" if self.s3_settings is not None else "local://lakes"
        server = lakebed_server(
            folder, settings=settings, namespace=namespace, environment=environment
        )
        return self._stack.enter_context(server)


def check_tree(sources: Path, environment: dict[str, str]) -> None:
    """Raise RuntimeError if a process with this environment imports another tree of Lakebed."""
    command = [sys.executable, "-c", "import lakebed; print(lakebed.__file__)"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    if not Path(done.stdout.strip()).is_relative_to(sources.resolve() / "src"):
        raise RuntimeError(f"a server of {sources} would run {done.stdout.strip()}")


@contextmanager
def machine_at(place: Place) -> Iterator[Machine]:
    """Start the database server and the object store of a place, in a new folder."""
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder())
        database = (
            stack.enter_context(postgresql_server(durable=True)) if place.is_postgresql else None
        )
        s3_settings = stack.enter_context(distant_s3()) if place.is_s3 else None
        yield Machine(place, folder, stack, database, s3_settings)


@contextmanager
def distant_s3() -> Iterator[dict[str, Any]]:
    """Run SeaweedFS behind a proxy that delays each way; give the settings to reach it."""
    with seaweedfs() as store:
        keys = {"access_key_id": ACCESS_KEY_ID, "secret_access_key": SECRET_ACCESS_KEY}
        client = boto3.client(
            "s3",
            endpoint_url=store.endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
        )
        client.create_bucket(Bucket=BUCKET)
        client.close()
        arguments = (str(urlsplit(store.endpoint).port), str(DELAY_MILLISECONDS))
        with helper("distance", *arguments) as port:
            yield {**keys, "endpoint": f"http://127.0.0.1:{port}", "path_style": True}


@contextmanager
def helper(module: str, *arguments: str) -> Iterator[int]:
    """Run a module of benchmarks that prints its port when it listens; give the port."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def bare_server() -> Iterator[tuple[int, int]]:
    """Run a function that answers 204 on Granian: its port, and its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    command = "granian --interface wsgi --workers 2 --blocking-threads 128 --backpressure 1000"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", *command.split()),
            *("--no-ws", "--http", "1", "--port", str(port), "benchmarks.plain_server:bare"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        yield port, process.pid
    finally:
        # A worker that is asked to end may wait for ever.
        workers = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for worker in workers:
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        process.wait()


def wait_for(port: int) -> None:
    """Wait until a server listens; raise TimeoutError if it does not within a minute."""
    give_up_at = time.monotonic() + 60
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"no server listens on port {port}")
        time.sleep(0.05)
