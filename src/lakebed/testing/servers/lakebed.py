"""Lakebed servers in separate processes, as in an installation."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import psutil
import yaml

from lakebed.testing.servers.object_stores import free_ports

Settings = dict[str, dict[str, Any]]
"""Sections of a configuration."""

_END_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class LakebedServer:
    """A running server and its administrator."""

    process: subprocess.Popen[str]
    folder: Path
    port: int
    access_key_id: str
    secret_access_key: str
    namespace: str
    """Base of storage namespaces for repositories."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        return log_of(self.folder)


@contextmanager
def lakebed_server(
    folder: Path,
    *,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    namespace: str = "local://lakes",
    environment: Mapping[str, str] | None = None,
) -> Iterator[LakebedServer]:
    """Run a server with two workers during the block, with an administrator.

    Args:
        folder: For the configuration, the log and, by default, the data.
        settings: Sections of the configuration.
        namespace: Base of storage namespaces.
        environment: Additional environment variables.
    """
    given = dict(settings or {})
    given["processes"] = {"workers": 2, "shutdown_seconds": 5, **given.get("processes", {})}
    given["logging"] = {"format": "text", **given.get("logging", {})}
    sections = settings_in(folder, given)
    command = ("-m", "lakebed", "run", "--config")
    process = launch(folder, sections, *command, environment=environment)
    try:
        port = sections["listen"]["port"]
        wait_until_ready(process, folder, f"lakebed is ready at http://127.0.0.1:{port}")
        key_pair = _set_up(port)
        yield LakebedServer(process, folder, port, *key_pair, namespace)
    finally:
        end(process)


def settings_in(folder: Path, sections: Mapping[str, Mapping[str, object]]) -> Settings:
    """Return a configuration with all data in a folder and a free port; `sections` override it."""
    defaults: Settings = {
        "listen": {"port": free_ports(1)[0]},
        "database": {"url": f"sqlite:///{folder}/lakebed.db"},
        "blockstore": {"local": {"root": str(folder / "objects")}},
        "auth": {"secret_key": "a key for tests only"},
    }
    return {
        name: {**defaults.get(name, {}), **sections.get(name, {})}
        for name in {*defaults, *sections}
    }


def launch(
    folder: Path, settings: Settings, *command: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start Python with a command whose last argument is a settings file in the folder."""
    file = folder / "lakebed.yaml"
    file.write_text(yaml.safe_dump(settings))
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, *command, str(file)],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **(environment or {})},
        )


def wait_until_ready(process: subprocess.Popen[str], folder: Path, line: str) -> None:
    """Wait until a server reports that it is ready; fail with its log on any other output."""
    assert process.stdout is not None
    said = process.stdout.readline()
    if said != f"{line}\n":
        raise AssertionError(f"the server did not start: {said!r}\n{log_of(folder)}")


def log_of(folder: Path) -> str:
    """Return the log of a server launched in a folder."""
    return (folder / "log").read_text()


def end(process: subprocess.Popen[str]) -> None:
    """Terminate a server and all its descendant processes."""
    family = [psutil.Process(process.pid)] if process.poll() is None else []
    family += [child for each in family for child in each.children(recursive=True)]
    process.terminate()
    try:
        process.wait(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for child in family:
        if child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
            child.kill()
    if process.stdout is not None:
        process.stdout.close()


def _set_up(port: int) -> tuple[str, str]:
    """Create the first administrator; return access key id and secret."""
    request = Request(
        f"http://127.0.0.1:{port}/api/v1/setup_lakefs",
        json.dumps({"username": "admin"}).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60) as answer:
        made = json.load(answer)
    return made["access_key_id"], made["secret_access_key"]
