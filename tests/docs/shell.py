"""Types the commands of a page, on a machine where `lakebed quickstart` runs."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from lakebed.clients import cli
from lakebed.clients.cli import running
from lakebed.server.quickstart import SAMPLE, WELL_KNOWN_PAIR
from lakebed.testing.servers.lakebed import end
from lakebed.testing.servers.object_stores import free_ports
from tests.docs.console import Names, Step

PATIENCE_SECONDS: Final = 120
EXAMPLE: Final = "127.0.0.1:8000"
_FOR_BASH: Final = re.compile(r"[|&;<>$`*?(){}]|^[A-Z_]+=")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Quickstart:
    """A quickstart that runs."""

    address: str
    """Host and port."""
    data: Path
    """Its folder."""


@contextmanager
def run_quickstart(folder: Path) -> Iterator[Quickstart]:
    """Start a quickstart in a folder, and end it."""
    data, port = folder / "data", free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "lakebed", "quickstart", "--port", str(port), "--data-dir", data],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("Lakebed is ready" in line for line in process.stdout)
        yield Quickstart(f"127.0.0.1:{port}", data)
    finally:
        end(process)


class Terminal(io.TextIOWrapper):
    """Looks like a terminal to commands, so that lists are tables."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Runs the commands of one page, in a new folder of the quickstart's machine.

    `last` is what the last command has printed.
    """

    def __init__(self, server: Quickstart, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._server, self._patch = server, patch
        self._names = Names()
        self.last: list[str] = []
        (folder / "data").symlink_to(server.data)
        patch.chdir(folder)
        variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "100",
            "LAKEBED_ENDPOINT": f"http://{server.address}",
            "LAKEBED_ACCESS_KEY_ID": WELL_KNOWN_PAIR.access_key_id,
            "LAKEBED_SECRET_ACCESS_KEY": WELL_KNOWN_PAIR.secret_access_key,
        }
        for name, value in variables.items():
            patch.setenv(name, value)

    def type(self, step: Step) -> tuple[int, list[str]]:
        """Run a command with the ids of this run; return its exit code and what it prints."""
        command = self._names.as_typed(step.command).replace(EXAMPLE, self._server.address)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._patch.setenv(name, value)
            return 0, []
        words = [] if _FOR_BASH.search(command) else shlex.split(command)
        run = self._run_here if words[:1] == ["lakebed"] else self._run_in_bash
        code, printed = run(command)
        plain = _COLOUR.sub("", printed).replace(self._server.address, EXAMPLE)
        return code, [line.rstrip() for line in plain.rstrip("\n").split("\n")]

    def check(self, step: Step) -> None:
        """Run a command, and compare what it prints with what the page shows.

        Raises:
            AssertionError: It differs, or the command ended otherwise than the page shows.
        """
        code, lines = self.type(step)
        self.last = lines
        printed = "\n".join(lines)
        assert (code != 0) == step.may_fail, f"{step.command}\nended with {code}:\n{printed}"
        if step.shown:
            wrong = self._names.difference(step.shown, lines)
            assert wrong is None, f"{step.command}\n{wrong}; it prints:\n{printed}"

    def _run_here(self, command: str) -> tuple[int, str]:
        """Run a command of ours in this process, which is ten times as fast as in its own."""
        printed = io.BytesIO()
        # Both are kept until the end: a wrapper that goes away closes what it writes to.
        screen = Terminal(printed, write_through=True)
        complaints = io.TextIOWrapper(printed, write_through=True)
        with self._patch.context() as patch:
            patch.setattr(sys, "stdout", screen)
            patch.setattr(sys, "stderr", complaints)
            code = running.run(cli.app, shlex.split(command)[1:])
        shown = printed.getvalue().decode()
        complaints.detach()
        return code, shown

    def _run_in_bash(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def clean_up(self) -> None:
        """Delete the repositories that the page has made."""
        pair = (WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key)
        url = f"http://{self._server.address}/api/v1/repositories"
        with httpx.Client(auth=pair, timeout=PATIENCE_SECONDS, trust_env=False) as api:
            found = api.get(url, params={"amount": 1000}).raise_for_status().json()["results"]
            for each in found:
                if each["id"] != SAMPLE:
                    api.delete(f"{url}/{each['id']}", params={"force": True}).raise_for_status()
