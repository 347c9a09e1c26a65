"""Objects there and back: odd keys, many files, large ones, and what must not happen."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil
import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.rounds import rounds
from tests.kit.served import eventually
from tests.system.cli_kit import CommandLine

MB: Final = 1_000_000
LARGE_BYTES: Final = 150 * MB
FILES: Final = rounds(100, long=1000)
ODD_KEYS: Final = [
    "plain",
    "with space",
    "ünï/cödé/文件",
    "100%",
    "%41",
    "a+b",
    "a&b=c?d#e",
    "a//b",
    "/leading",
    "trailing/",
    "..",
    "a/../b",
    "./a",
    "new\nline",
    "\x1b[2J",
    "'quotes\"",
    "back\\slash",
    "-r",
    "k" * 1000,
]


@pytest.fixture
def run(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


@pytest.fixture
def main(run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    """The URI of the branch of a new repository."""
    namespace = f"{sqlite_lakebed.namespace}/{repository_name}"
    run("repo", "create", f"lakefs://{repository_name}", namespace)
    return f"lakefs://{repository_name}/main"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def plant(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_odd_keys_go_there_and_back(run: CommandLine, main: str, tmp_path: Path) -> None:
    for number, key in enumerate(ODD_KEYS):
        source, target = tmp_path / "source", tmp_path / "target"
        source.write_bytes(f"{number}".encode())
        uri = f"{main}/{key}"
        if key.endswith("/"):
            uri = f"{uri}{source.name}"
        stats = run.json("fs", "upload", "-s", str(source), uri)
        assert stats["path"] == uri.removeprefix(f"{main}/")
        assert run.json("fs", "stat", uri)["path"] == stats["path"]
        run("fs", "download", uri, str(target))
        assert target.read_bytes() == source.read_bytes()
        assert run("fs", "cat", uri) == f"{number}"
    listed = {item["path"] for item in run.json("fs", "ls", "-r", main)}
    assert listed == {key if key[-1] != "/" else f"{key}source" for key in ODD_KEYS}
    shown = run("fs", "ls", "-r", main)
    assert "\x1b" not in shown
    assert len(shown.splitlines()) == len(ODD_KEYS)

    for key in ODD_KEYS[:5]:
        run("fs", "rm", f"{main}/{key}")
        assert "(404)" in run.error("fs", "stat", f"{main}/{key}")


def test_a_folder_goes_there_and_back(run: CommandLine, main: str, tmp_path: Path) -> None:
    files = {f"{n % 7}/ä b/{n % 13}/{n}%.txt": f"{n}".encode() * (n % 50) for n in range(FILES)}
    source = plant(tmp_path / "source", files)
    target = tmp_path / "target"

    report = run.json("fs", "upload", "-r", "-s", str(source), f"{main}/in/here")
    size = sum(len(content) for content in files.values())
    assert report == {"objects": FILES, "size_bytes": size, "skipped": 0, "failed": []}
    assert len(run.json("fs", "ls", "-r", f"{main}/in/here/")) == FILES
    assert [item["path"] for item in run.json("fs", "ls", f"{main}/in/here/")] == [
        f"in/here/{n}/" for n in range(7)
    ]

    run("fs", "upload", "-s", str(source / "0/ä b/0/0%.txt"), f"{main}/in/here-not")
    assert run.json("fs", "download", "-r", f"{main}/in/here", str(target)) == report
    assert tree(target) == files
    # What is there is left out, in both directions; what is not, or differs, is not.
    (target / "0/ä b/0/0%.txt").write_text("other")
    (target / "1/ä b/1/1%.txt").unlink()
    run("fs", "rm", f"{main}/in/here/2/ä b/2/2%.txt")
    for arguments, count in (
        (["upload", "-r", "-s", str(source), f"{main}/in/here"], 1),
        (["download", "-r", f"{main}/in/here", str(target)], 2),
    ):
        again = run.json("fs", *arguments)
        assert (again["objects"], again["skipped"]) == (count, FILES - count)
    assert tree(target) == files

    assert run.json("fs", "rm", "-r", f"{main}/in/here") == {"removed": FILES, "failed": []}
    assert [item["path"] for item in run.json("fs", "ls", "-r", main)] == ["in/here-not"]


def test_more_than_a_page_is_removed(run: CommandLine, main: str, tmp_path: Path) -> None:
    source = plant(tmp_path / "source", {f"{n:04}": b"" for n in range(1001)})
    run("fs", "upload", "-r", "-s", str(source), f"{main}/", "--parallelism", "16")
    assert run("fs", "rm", "-r", main) == f"Removed 1001 object(s) below {main}/\n"
    assert run.json("fs", "ls", main) == []
    assert run.error("fs", "rm", "-r", main) == f"no objects below {main}/"


def test_keys_do_not_lead_out_of_the_folder(run: CommandLine, main: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "inner" / "target"
    source.write_text("evil")
    unsafe = ["../escaped", "a/../../escaped", "a//b", "/escaped", "folder/"]
    for key in unsafe:
        name = f"{key}{source.name}" if key.endswith("/") else key
        run("fs", "upload", "-s", str(source), f"{main}/all/{name}")
    run("fs", "upload", "-s", str(source), f"{main}/all/good")

    code, printed, said = run.result("fs", "download", "-r", f"{main}/all", str(target), "--json")
    assert code == 1
    assert json.loads(printed)["objects"] == 2
    for key in unsafe[:-1]:
        assert f"not downloaded: all/{key}: " in said
    message = json.loads(said.splitlines()[-1])["message"]
    assert message == "4 object(s) could not be downloaded, see above"
    assert tree(tmp_path / "inner") == {"target/good": b"evil", "target/folder/source": b"evil"}
    assert not (tmp_path / "escaped").exists()


def test_a_key_that_is_also_a_folder(run: CommandLine, main: str, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("x")
    for key in ("a", "a/b"):
        run("fs", "upload", "-s", str(source), f"{main}/{key}")
    code, _, said = run.result("fs", "download", "-r", main, str(target), "--parallelism", "1")
    assert code == 1
    assert "not downloaded: a/b: File exists\n" in said
    assert tree(target) == {"a": b"x"}


def test_targets_of_downloads(
    run: CommandLine, main: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("a")
    run("fs", "upload", "-s", "a.csv", main)
    run("fs", "upload", "-s", "a.csv", f"{main}/folder/")
    listed = [item["path"] for item in run.json("fs", "ls", "-r", main)]
    assert listed == ["a.csv", "folder/a.csv"]

    Path("a.csv").unlink()
    run("fs", "download", f"{main}/folder/a.csv")
    assert Path("a.csv").read_text() == "a"
    Path("there").mkdir()
    run("fs", "download", f"{main}/folder/a.csv", "there")
    run("fs", "download", f"{main}/folder/a.csv", "new/folder/b.csv")
    assert tree(tmp_path) == dict.fromkeys(("a.csv", "there/a.csv", "new/folder/b.csv"), b"a")

    assert "(404)" in run.error("fs", "download", f"{main}/nothing", "nothing")
    assert "no objects below" in run.error("fs", "download", "-r", f"{main}/nothing", "nothing")
    assert sorted(path.name for path in Path().iterdir()) == ["a.csv", "new", "there"]
    for arguments, message in (
        (["upload", "-s", "there", f"{main}/x"], "there is a folder: pass -r"),
        (["upload", "-r", "-s", "a.csv", f"{main}/x"], "a.csv is not a folder: omit -r"),
        (["upload", "-s", "-", f"{main}/x/"], "is a folder: append the name of the object"),
        (["download", f"{main}/folder/"], "is a folder: pass -r"),
        (["rm", main], "is not the URI of an object"),
    ):
        code, printed, said = run.result("fs", *arguments)
        assert (code, printed) == (2, "")
        assert message in said


def test_failed_uploads_are_listed(run: CommandLine, main: str, tmp_path: Path) -> None:
    source = plant(tmp_path / "source", {"good": b"good", "folder/good": b"good"})
    (source / "link").symlink_to(source / "folder")
    (source / "nowhere").symlink_to(source / "missing")
    code, printed, said = run.result("fs", "upload", "-r", "-s", str(source), main, "--json")
    assert code == 1
    assert json.loads(printed)["objects"] == 2
    assert f"not uploaded: {source}/link: links to folders are not followed\n" in said
    assert f"not uploaded: {source}/nowhere: No such file or directory\n" in said
    message = json.loads(said.splitlines()[-1])["message"]
    assert message == "2 object(s) could not be uploaded, see above"


def test_a_branch_that_is_not_there_ends_an_upload_soon(
    run: CommandLine, main: str, tmp_path: Path
) -> None:
    source = plant(tmp_path / "source", {f"{n}": b"x" for n in range(300)})
    uri = main.replace("/main", "/nothing")
    code, printed, said = run.result("fs", "upload", "-r", "-s", str(source), uri)
    assert (code, printed) == (1, "")
    assert said.count("not uploaded: ") == 100
    assert said.endswith("lakebed: stopped after 100 failures; 0 object(s) were uploaded\n")


def test_bytes_from_a_pipe_and_to_a_pipe(run: CommandLine, main: str) -> None:
    content = bytes(range(256)) * 1000
    with run.process("fs", "upload", "-s", "-", f"{main}/bytes", stdin=-1) as upload:
        _, said = upload.communicate(content, timeout=60)
    assert (upload.returncode, said) == (0, b"")
    with run.process("fs", "cat", f"{main}/bytes") as cat:
        printed, said = cat.communicate(timeout=60)
    assert (cat.returncode, said, printed) == (0, b"", content)


# What the kernel tells of a child that ended may be the memory of the process that forked it.
_MEASURED: Final = """
import sys
from lakebed.clients import cli
code = cli.run(cli.app, sys.argv[1:])
for line in open("/proc/self/status"):
    if line.startswith("VmHWM:"):
        print(line.split()[1], file=sys.stderr)
sys.exit(code)
"""


def _memory_max_bytes(run: CommandLine, *arguments: str) -> int:
    """Run a command in a process of its own; the most memory that it had."""
    ended = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments],
        env=os.environ | run.environ,
        capture_output=True,
        timeout=100,
        check=True,
    )
    return int(ended.stderr) * 1024


def test_large_objects_take_no_memory(run: CommandLine, main: str, tmp_path: Path) -> None:
    small, large, back = (tmp_path / name for name in ("small", "large", "back"))
    small.write_bytes(b"x")
    with large.open("wb") as file:
        for n in range(LARGE_BYTES // MB):
            file.write(n.to_bytes(2, "big") * (MB // 2))
    usual = _memory_max_bytes(run, "fs", "upload", "-s", str(small), f"{main}/small")
    sent = _memory_max_bytes(run, "fs", "upload", "-s", str(large), f"{main}/large")
    received = _memory_max_bytes(run, "fs", "download", f"{main}/large", str(back))
    assert sent - usual < 50 * MB
    assert received - usual < 50 * MB
    with large.open("rb") as one, back.open("rb") as other:
        assert (
            hashlib.file_digest(one, "md5").digest() == hashlib.file_digest(other, "md5").digest()
        )


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_download_that_is_ended_leaves_no_half_file(
    run: CommandLine, main: str, tmp_path: Path, ending: signal.Signals
) -> None:
    source, target = tmp_path / "source", tmp_path / "folder" / "target"
    with source.open("wb") as file:
        file.truncate(LARGE_BYTES)
    target.parent.mkdir()
    run("fs", "upload", "-s", str(source), f"{main}/large")
    with run.process("fs", "download", f"{main}/large", str(target)) as process:
        eventually(lambda: list(target.parent.iterdir()))
        psutil.Process(process.pid).suspend()
        assert not target.exists()
        process.send_signal(ending)
        psutil.Process(process.pid).resume()
        _, said = process.communicate(timeout=60)
    if ending == signal.SIGINT:
        told = b"Interrupted; the partial transfer was discarded. Run again to restart.\n"
        told += b"lakebed: interrupted\n"
        assert (process.returncode, said) == (130, told)
        assert list(target.parent.iterdir()) == []
    else:
        assert not target.exists()
