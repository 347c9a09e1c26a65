"""Servers for `test_wsgi_contract`: httpd in a thread of the test, others as programs."""

import os
import selectors
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lakebed.httpd import HTTPLimits, WSGIServer, listen
from tests.httpd.contract_app import ObjectStore
from tests.kit.served import PATIENCE_SECONDS, eventually, free_port

ROOT: Final = Path(__file__).parents[2]
BIN: Final = ROOT / ".envs/wsgi/bin"
"""The environment of `make test-all PARTS=wsgi` with the other servers."""
_SELECTORS: Final[dict[str, type[selectors.BaseSelector]]] = {
    "httpd": selectors.DefaultSelector,
    "httpd by select": selectors.SelectSelector,
}
"""The selector of httpd: the system's best, or the one available everywhere."""
STALL_SECONDS: Final = 1
CLIENT_SECONDS: Final = 8.0
"""Time that a client waits for an idle server."""
COMMANDS: Final = {
    "gunicorn": "gunicorn --bind {address} --worker-class gthread --threads 8 {app}",
    "cheroot": "cheroot --bind {address} --threads 8 --timeout {stall} {app}",
    "granian": "granian --interface wsgi --host 127.0.0.1 --port {port} --blocking-threads 8"
    " --http1-header-read-timeout 1000 {app}",
}


class ContractServer:
    """A server that runs the application."""

    def __init__(self, port: int, folder: Path, stop: Callable[[], object]) -> None:
        self._port = port
        self.folder = folder
        self.stop = stop
        """Stop the server gracefully."""

    def connect(self, *parts: bytes) -> socket.socket:
        """Open a connection and send data."""
        client = socket.create_connection(("127.0.0.1", self._port), CLIENT_SECONDS)
        for part in parts:
            client.sendall(part)
        return client

    def exists(self, name: str) -> bool:
        """Return whether the application has created a file."""
        return (self.folder / name).exists()


@contextmanager
def run_server(name: str, folder: Path) -> Iterator[ContractServer]:
    """Run a server, and stop it."""
    selector = _SELECTORS.get(name)
    with run_httpd(folder, selector) if selector else run_program(name, folder) as server:
        yield server


@contextmanager
def run_httpd(folder: Path, selector: type[selectors.BaseSelector]) -> Iterator[ContractServer]:
    """Run httpd in this process."""
    limits = HTTPLimits(stall_seconds=STALL_SECONDS, shutdown_seconds=PATIENCE_SECONDS)
    listener = listen("127.0.0.1", 0)
    server = WSGIServer(ObjectStore(folder), listener, limits, selector=selector)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield ContractServer(port, folder, server.stop)
    finally:
        server.stop()
        thread.join(PATIENCE_SECONDS)


@contextmanager
def run_program(name: str, folder: Path) -> Iterator[ContractServer]:
    """Run another server as documented by its manual."""
    port = free_port()
    command = COMMANDS[name].format(
        address=f"127.0.0.1:{port}",
        port=port,
        stall=STALL_SECONDS,
        app="tests.httpd.contract_app:application",
    )
    program, *arguments = command.split()
    environment = {**os.environ, "CONTRACT_FOLDER": str(folder), "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [BIN / program, *arguments], env=environment, cwd=ROOT, stdout=log, stderr=log
        )
    try:
        eventually(lambda: _listens(port))
        yield ContractServer(port, folder, lambda: process.send_signal(signal.SIGTERM))
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
