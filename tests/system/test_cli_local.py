"""Working copies by the command line, on a real server."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine

STANDING_STILL: Final = """
import time
from lakebed.clients import cli
from lakebed.clients.working_copy import remote

send = remote.Remote.send

def send_and_stand_still(*arguments, **options):
    send(*arguments, **options)
    print("sent", flush=True)
    time.sleep(600)

remote.Remote.send = send_and_stand_still
cli.main()
"""

# Ctrl-C comes when one file is there and noted, and the next one is being sent.
INTERRUPTED: Final = """
import os, signal, threading
from lakebed.clients import cli
from lakebed.clients.working_copy import hashes, remote

send, note, noted = remote.Remote.send, hashes.Hashes.note, threading.Event()
sent = []

def send_until_interrupted(*arguments, **options):
    if sent:
        noted.wait(60)
        os.kill(os.getpid(), signal.SIGINT)
    sent.append(1)
    return send(*arguments, **options)

def note_and_tell(*arguments, **options):
    note(*arguments, **options)
    if sent:
        noted.set()

remote.Remote.send = send_until_interrupted
hashes.Hashes.note = note_and_tell
signal.signal(signal.SIGINT, signal.default_int_handler)  # those in the background may ignore it
cli.main()
"""


@pytest.fixture
def run(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


@pytest.fixture
def main(run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    """The URI of the branch of a new repository, with a folder."""
    namespace = f"{sqlite_lakebed.namespace}/{repository_name}"
    run("repo", "create", f"lakefs://{repository_name}", namespace)
    main = f"lakefs://{repository_name}/main"
    for name in ("a", "b/c"):
        Path("file").write_text(f"of {name}")
        run("fs", "upload", "-s", "file", f"{main}/data/{name}")
    run("commit", main, "-m", "first")
    return main


def head(run: CommandLine, main: str) -> str:
    return str(run.json("show", "commit", main)["id"])


def test_from_clone_to_commit_and_back(run: CommandLine, main: str) -> None:
    first = head(run, main)
    assert run("local", "clone", f"{main}/data", "work") == (
        f"Cloned {main}/data to work: 2 downloaded, 0 removed\n"
    )
    assert run("local", "list") == f"work\t{main}/data/\t{first}\n"
    assert run("local", "status", "work") == ""
    Path("work/a").write_text("mine")
    Path("work/new").write_text("mine")
    Path("work/b/c").unlink()
    assert run("local", "status", "work/b") == (
        "local\tmodified\ta\nlocal\tremoved\tb/c\nlocal\tadded\tnew\n"
    )
    run("fs", "upload", "-s", "file", f"{main}/of-others")
    printed = run("local", "commit", "work", "-m", "my changes", "--meta", "by=ada")
    second = head(run, main)
    assert printed == f"Committed {second} to {main}/data/: 2 uploaded, 1 removed\n"
    record = run.json("show", "commit", main)
    assert (record["message"], record["parents"]) == ("my changes", [first])
    assert record["metadata"]["by"] == "ada"
    assert [item["path"] for item in run.json("diff", main)] == ["of-others"]
    assert run("local", "commit", "work", "-m", "again") == (
        f"Nothing to commit: work has the same content as {main}/data/\n"
    )
    assert run("local", "checkout", "work", "--ref", f"{main}~1") == (
        f"Checked out {first} in work: 2 downloaded, 1 removed\n"
    )
    assert Path("work/b/c").read_text() == "of b/c"
    assert run.json("local", "pull", "work") == {
        "commit": second,
        "downloaded": 2,
        "removed": 1,
        "skipped": 0,
    }
    assert sorted(path.name for path in Path("work").iterdir()) == [".lakefs_ref.yaml", "a", "new"]


def test_a_conflict_is_one_message_and_code_1(run: CommandLine, main: str) -> None:
    run("local", "clone", f"{main}/data/", "work")
    Path("file").write_text("theirs")
    run("fs", "upload", "-s", "file", f"{main}/data/a")
    run("commit", main, "-m", "theirs")
    Path("work/a").write_text("mine")
    for command in (("pull",), ("commit", "-m", "mine")):
        code, printed, said = run.result("local", *command, "work")
        assert (code, printed) == (1, "")
        assert said.splitlines() == [
            "lakebed: changed here and on the server: a",
            (
                "lakebed: nothing was overwritten: move these files out of the folder and run"
                " `lakebed local pull`, or discard all local changes with"
                " `lakebed local pull --force`"
            ),
        ]
    Path("work/a").rename("mine")
    run("local", "pull", "work")
    assert Path("work/a").read_text() == "theirs"


def test_a_folder_that_is_there_is_linked(run: CommandLine, main: str) -> None:
    Path("mine").mkdir()
    Path("mine/x").write_text("x")
    said = run("local", "init", f"{main}/new/", "mine")
    assert said.startswith(f"Linked mine to {main}/new/ at commit ")
    assert "already" in run.error("local", "init", f"{main}/new/", "mine")
    run("local", "commit", "mine", "-m", "x")
    assert run("fs", "cat", f"{main}/new/x") == "x"
    assert run.error("local", "status").endswith(
        "run `lakebed local clone` or `lakebed local init`"
    )


def test_a_commit_goes_on_after_sigkill(run: CommandLine, main: str) -> None:
    run("local", "clone", f"{main}/data/", "work")
    for name in ("x", "y", "z"):
        Path(f"work/{name}").write_text(name)
    before = head(run, main)
    child = subprocess.Popen(
        [sys.executable, "-c", STANDING_STILL, "local", "commit", "work", "-m", "m", "-p", "1"],
        env=os.environ | run.environ,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"sent\n"
    child.kill()
    child.communicate()
    assert head(run, main) == before
    assert yaml.safe_load(Path("work/.lakefs_ref.yaml").read_text())["active_operation"] == "commit"
    assert run("local", "commit", "work", "-m", "m").endswith(
        "2 uploaded, 0 removed; 1 already up to date\n"
    )
    assert [run("fs", "cat", f"{main}/data/{name}") for name in "xyz"] == ["x", "y", "z"]
    assert sorted(path.name for path in Path("work").iterdir()) == [
        *(".lakefs_ref.yaml", "a", "b", "x", "y", "z")
    ]


def test_ctrl_c_says_what_was_done(run: CommandLine, main: str) -> None:
    run("local", "clone", f"{main}/data/", "work")
    for name in ("x", "y", "z"):
        Path(f"work/{name}").write_text(name)
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, "local", "commit", "work", "-m", "m", "-p", "1"],
        env=os.environ | run.environ,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert "transferred. Run again to resume." in done.stderr
    assert run("local", "commit", "work", "-m", "m").endswith("already up to date\n")
