"""What people see: tables, progress bars and questions, on a terminal of their own."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine

CLEAR: Final = "\x1b[2J"


@pytest.fixture
def run(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


@pytest.fixture
def repo(run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    uri = f"lakefs://{repository_name}"
    run("repo", "create", uri, f"{sqlite_lakebed.namespace}/{repository_name}")
    return uri


def on_terminal(run: CommandLine, *arguments: str, keys: bytes = b"") -> tuple[int, str]:
    """Run a command on a terminal of 100 columns, press keys; its code and what was shown."""
    master, slave = pty.openpty()
    shown: list[bytes] = []

    def read() -> None:
        with suppress(OSError):  # a terminal ends with an error
            while chunk := os.read(master, 65536):
                shown.append(chunk)

    reader = Thread(target=read)
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "lakebed", *arguments],
            env=os.environ | run.environ | {"COLUMNS": "100", "TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        ) as process:
            os.close(slave)
            reader.start()
            os.write(master, keys)
            try:
                code = process.wait(60)
            finally:
                process.kill()
        reader.join(60)
    finally:
        os.close(master)
    return code, b"".join(shown).decode()


def test_a_list_is_a_table(run: CommandLine, repo: str) -> None:
    run("branch", "create", f"{repo}/dev", "-s", f"{repo}/main")
    code, shown = on_terminal(run, "branch", "list", repo)
    lines = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\r\n")
    assert code == 0
    assert lines[0].split() == ["Branch", "Commit"]
    assert [line.split()[0] for line in lines[1:3]] == ["dev", "main"]
    assert lines[1].index(lines[1].split()[1]) == lines[0].index("Commit")


def test_names_are_names_and_no_markup(run: CommandLine, repo: str) -> None:
    run("branch-protect", "add", repo, "[bold]*")
    code, shown = on_terminal(run, "branch-protect", "list", repo)
    assert code == 0
    assert "[bold]*" in shown


def test_no_name_moves_the_cursor(run: CommandLine, repo: str) -> None:
    run("repo", "metadata", "set", repo, f"{CLEAR}={CLEAR}")
    code, shown = on_terminal(run, "repo", "metadata", "get", repo)
    assert code == 0
    assert r"\x1b[2J" in shown
    assert CLEAR not in shown


def test_differences_are_coloured(run: CommandLine, repo: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    run("fs", "upload", "-s", str(file), f"{repo}/main/one")
    assert on_terminal(run, "diff", f"{repo}/main") == (0, "\x1b[32m+ added     one\x1b[0m\r\n")


def test_a_transfer_shows_how_it_gets_on(run: CommandLine, repo: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 2_000_000)
    code, shown = on_terminal(run, "fs", "upload", "-s", str(file), f"{repo}/main/one")
    assert code == 0
    assert "2.0/2.0 MB" in shown
    assert "Uploaded" in shown
    folder = tmp_path / "folder"
    for arguments in (
        ["download", "-r", f"{repo}/main", str(folder)],
        ["rm", "-r", f"{repo}/main"],
    ):
        code, shown = on_terminal(run, "fs", *arguments)
        assert code == 0
        assert "ing lakefs://" in shown
        if "download" in arguments:
            assert "2.0/2.0 MB" in shown
            assert "1/1 files" in shown
            assert "ETA" in shown
    code, shown = on_terminal(run, "fs", "rm", "-r", f"{repo}/main", "--json")
    assert "ing lakefs://" not in shown


def test_a_working_copy_shows_how_it_gets_on(
    run: CommandLine, repo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    folder = tmp_path / "its-name-is-longer-than-a-line-that-shows-figures-too-can-hold"
    first, second = folder / "first", folder / "second"
    code, _ = on_terminal(run, "local", "clone", f"{repo}/main", str(first))
    assert code == 0
    for name in ("one", "two"):
        (first / name).write_bytes(b"x" * 1_000_000)
    for arguments in (
        ["commit", str(first), "-m", "Two files"],
        ["clone", f"{repo}/main", str(second)],
    ):
        code, shown = on_terminal(run, "local", *arguments)
        assert code == 0, shown
        assert "2.0/2.0 MB" in shown
        assert "2/2 files" in shown
        assert "ETA" in shown
    (first / "one").write_bytes(b"y" * 3_000_000)
    (second / "two").unlink()
    on_terminal(run, "local", "commit", str(first), "-m", "A larger one")
    for arguments in (["pull", str(second)], ["checkout", str(second), "--yes"]):
        code, shown = on_terminal(run, "local", *arguments)
        assert code == 0, shown
        assert "1/1 files" in shown


@pytest.mark.parametrize(
    ("keys", "code", "ending"),
    [
        (b"n\n", 1, "lakebed: cancelled: nothing was changed\r\n"),
        (b"\n", 1, "lakebed: cancelled: nothing was changed\r\n"),
        (b"\x04", 130, ""),  # the end of the input
        (b"y\n", 0, "Deleted {branch}\r\n"),
    ],
)
def test_people_are_asked_first(
    run: CommandLine, repo: str, keys: bytes, code: int, ending: str
) -> None:
    branch = f"{repo}/dev"
    run("branch", "create", branch, "-s", f"{repo}/main")
    ended, shown = on_terminal(run, "branch", "delete", branch, keys=keys)
    assert ended == code
    assert shown.endswith(ending.format(branch=branch))
    there = [item["id"] for item in run.json("branch", "list", repo)]
    assert ("dev" in there) == (code != 0)


def test_yes_skips_the_question(run: CommandLine, repo: str) -> None:
    run("branch", "create", f"{repo}/dev", "-s", f"{repo}/main")
    assert on_terminal(run, "branch", "delete", f"{repo}/dev", "-y") == (
        0,
        f"Deleted {repo}/dev\r\n",
    )
