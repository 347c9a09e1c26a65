"""Real database servers for tests that no package of pip or npm brings: ``make test-kv-all``.

- MariaDB: the real one, from a jar.
- MongoDB: a server of others, in Java, that speaks its protocol; in memory.
- Bigtable: Google's own emulator, built by Go; in memory.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakebed.testing.servers.databases import DatabaseServer, running
from lakebed.testing.servers.fetch_databases import fetched, mariadb_program


@contextmanager
def mariadb_server(*, settings: Sequence[str] = ()) -> Iterator[DatabaseServer]:
    """Run a MariaDB while the block lasts, with the user and database of `mariadb_url`.

    Raises:
        ServerMissingError: The program is missing or does not start.
    """
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
    """The URL of the local server, or of one behind a proxy."""
    return f"mysql://lakebed:secret@127.0.0.1:{port}/lakebed"


@contextmanager
def bigtable_server() -> Iterator[DatabaseServer]:
    """Run Google's Bigtable emulator while the block lasts; what it holds ends with it.

    Raises:
        ServerMissingError: The program is missing or does not start.
    """
    program = fetched("bigtable") / "emulator"
    with running(lambda _, port: [str(program), "-address", f"127.0.0.1:{port}"]) as server:
        yield server


def bigtable_url(port: int) -> str:
    """The URL of the local server, or of one behind a proxy."""
    return f"bigtable://project/instance/lakebed?emulator=127.0.0.1:{port}"


@contextmanager
def mongodb_server() -> Iterator[DatabaseServer]:
    """Run a server that speaks MongoDB's protocol; what it holds ends with it.

    Raises:
        ServerMissingError: The program is missing or does not start.
    """
    home = fetched("mongodb")
    jars = ":".join(str(jar) for jar in home.glob("*.jar"))
    source = home.parent.parent / "requirements/databases/MongoServer.java"
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", jars, str(source)]
    with running(lambda _, port: [*java, str(port)]) as server:
        yield server


def mongodb_url(port: int) -> str:
    """The URL of the local server, or of one behind a proxy."""
    return f"mongodb://127.0.0.1:{port}/lakebed"
