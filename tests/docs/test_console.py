"""Every `console` block of README and the documentation does what it shows, on a real server."""

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from lakebed import cli
from lakebed.cli import running
from lakebed.server.quickstart import SAMPLE, WELL_KNOWN_PAIR
from lakebed.testing.servers.lakebed import end
from lakebed.testing.servers.object_stores import free_ports
from tests.docs.console import ROOT, Block, Names, Step, blocks, pages

REASONS: Final = {
    "installs",
    "make",
    "needs a cloud",
    "needs a cluster",
    "needs containers",
    "needs systemd",
}
"""Why a block may be left out."""

EXAMPLE: Final = "127.0.0.1:8000"
_SHELL: Final = re.compile(r"[|&;<>$`*?(){}]|^[A-Z_]+=")
PATIENCE_SECONDS: Final = 60

PAGES: Final = {str(page.relative_to(ROOT)): list(blocks(page)) for page in pages()}
MARKS: Final = [(name, each) for name, found in PAGES.items() for each in found if each.not_run]
TO_RUN: Final = {
    name: chosen
    for name, found in PAGES.items()
    if (chosen := [each for each in found if each.kind == "console" and not each.not_run])
}


def test_there_are_blocks_to_run() -> None:
    assert "README.md" in TO_RUN
    assert len(TO_RUN) > 5


@pytest.mark.parametrize(("name", "block"), MARKS, ids=[f"{n}:{b.line}" for n, b in MARKS])
def test_a_block_that_is_not_run_has_a_reason_that_counts(name: str, block: Block) -> None:
    assert block.not_run in REASONS, f"{name}:{block.line}: say one of {sorted(REASONS)}"


@pytest.mark.parametrize("name", PAGES)
def test_what_is_typed_stands_in_console_blocks(name: str) -> None:
    """Nothing is kept from the tests by another name."""
    typed = [
        f"{name}:{block.line}"
        for block in PAGES[name]
        if block.kind != "console" and any(line.startswith("$ ") for line in block.lines)
    ]
    assert typed == []


class Terminal(io.TextIOWrapper):
    """Looks like a terminal to commands, so that lists are tables."""

    def isatty(self) -> bool:
        return True


class Shell:
    """Types the commands of a page, in a folder where `lakebed quickstart` runs."""

    def __init__(self, endpoint: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._endpoint, self._monkeypatch = endpoint, monkeypatch
        self._names = Names()
        programs = Path(sys.executable).parent
        monkeypatch.chdir(folder)
        self._export("PATH", f"{programs}:{os.environ['PATH']}")
        self._export("HOME", str(folder))
        self._export("NO_COLOR", "1")
        self._export("COLUMNS", "100")
        self._export("LAKEBED_ENDPOINT", f"http://{endpoint}")
        self._export("LAKEBED_ACCESS_KEY_ID", WELL_KNOWN_PAIR.access_key_id)
        self._export("LAKEBED_SECRET_ACCESS_KEY", WELL_KNOWN_PAIR.secret_access_key)

    def _export(self, name: str, value: str) -> None:
        self._monkeypatch.setenv(name, value)

    def type(self, step: Step) -> None:
        """Run a command, and compare what it prints with what the page shows."""
        command = self._names.as_typed(step.command).replace(EXAMPLE, self._endpoint)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._export(name, value)
            return
        words = [] if _SHELL.search(command) else shlex.split(command)
        run = self._run_here if words[:1] == ["lakebed"] else self._run_in_bash
        code, printed = run(command)
        printed = printed.replace(self._endpoint, EXAMPLE)
        assert (code != 0) == step.may_fail, f"{step.command}\nended with {code}:\n{printed}"
        if step.shown:
            wrong = self._names.differences(step.shown, printed.splitlines())
            assert wrong is None, f"{step.command}\n{wrong}; it prints:\n{printed}"

    def _run_here(self, command: str) -> tuple[int, str]:
        """Run a command of ours in this process, which is ten times as fast as in its own."""
        printed = io.BytesIO()
        terminal = Terminal(printed, write_through=True)
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", terminal)
            patch.setattr(sys, "stderr", io.TextIOWrapper(terminal.buffer, write_through=True))
            code = running.run(cli.app, shlex.split(command)[1:])
        return code, printed.getvalue().decode()

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


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a fresh quickstart, and its folder."""
    data, port = tmp_path_factory.mktemp("quickstart") / "data", free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "lakebed", "quickstart", "--port", str(port), "--data-dir", data],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert any("Lakebed is ready" in line for line in process.stdout)
        yield f"127.0.0.1:{port}", data
    finally:
        end(process)


@pytest.fixture
def shell(
    quickstart: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    """A shell in a new folder; repositories that its page makes are gone afterwards."""
    endpoint, data = quickstart
    (tmp_path / "data").symlink_to(data)
    yield Shell(endpoint, tmp_path, monkeypatch)
    pair = (WELL_KNOWN_PAIR.access_key_id, WELL_KNOWN_PAIR.secret_access_key)
    url = f"http://{endpoint}/api/v1/repositories"
    with httpx.Client(auth=pair, timeout=PATIENCE_SECONDS, trust_env=False) as api:
        for each in api.get(url, params={"amount": 1000}).raise_for_status().json()["results"]:
            if each["id"] != SAMPLE:
                api.delete(f"{url}/{each['id']}", params={"force": True}).raise_for_status()


@pytest.mark.slow
@pytest.mark.parametrize("name", TO_RUN)
def test_the_blocks_of_a_page_do_what_they_show(shell: Shell, name: str) -> None:
    for block in TO_RUN[name]:
        for step in block.steps():
            try:
                shell.type(step)
            except AssertionError as error:
                pytest.fail(f"{name}:{step.line}: {error}", pytrace=False)
