"""A Lakebed server in processes of its own, as an installation would run it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import yaml

from lakebed.testing.servers.object_stores import free_ports

PATIENCE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class LakebedServer:
    """A server that runs, and its administrator."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int
    access_key_id: str
    secret_access_key: str
    namespace: str
    """Where repositories can be made."""

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        """What it said."""
        return (self.folder / "server.log").read_text()


@contextmanager
def lakebed_server(
    folder: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    namespace: str = "local://lakes",
) -> Iterator[LakebedServer]:
    """Start a server with two workers in a folder, set it up, and end it.

    Args:
        folder: For its configuration, its log and, unless the settings say otherwise, its data.
        settings: Sections of the configuration.
        namespace: What storage namespaces begin with.
    """
    (port,) = free_ports(1)
    sections: dict[str, dict[str, Any]] = {
        "listen": {"port": port},
        "processes": {"workers": 2, "shutdown_seconds": 5},
        "database": {"url": f"sqlite:///{folder}/lakebed.db"},
        "blockstore": {"local": {"root": str(folder / "objects")}},
        "auth": {"secret_key": os.urandom(16).hex()},
        "logging": {"format": "text"},
    }
    for name, values in (settings or {}).items():
        sections[name] = {**sections.get(name, {}), **values}
    config = folder / "lakebed.yaml"
    config.write_text(yaml.safe_dump(sections))
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "lakebed", "run", "--config", str(config)],
            stdout=log,
            stderr=log,
        )
    try:
        yield _set_up(process, folder, port, namespace)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _set_up(
    process: subprocess.Popen[bytes], folder: Path, port: int, namespace: str
) -> LakebedServer:
    url = f"http://127.0.0.1:{port}/api/v1/setup_lakefs"
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            body = json.dumps({"username": "admin"}).encode()
            request = Request(url, body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=30) as answer:
                made = json.load(answer)
            break
        except OSError as error:
            if process.poll() is not None or time.monotonic() > until:
                log = (folder / "server.log").read_text()
                raise AssertionError(f"the server did not start:\n{log}") from error
            time.sleep(0.05)
    return LakebedServer(
        process, folder, port, made["access_key_id"], made["secret_access_key"], namespace
    )
