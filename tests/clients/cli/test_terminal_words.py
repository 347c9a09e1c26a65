"""Commands without a server: plugins, completion, what is said once, and what is not made."""

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from urllib.parse import parse_qs

import pytest

import lakebed
from lakebed.clients import cli
from lakebed.clients.cli import running
from tests.clients.cli.kit import bare_environ
from tests.clients.http.scripted import Answer, Request, answer_json, object_stats, scripted_server


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in bare_environ(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = running.run(cli.app, list(arguments))
    printed = capfd.readouterr()
    return code, printed.out, printed.err


def test_the_version_is_that_of_the_package() -> None:
    assert lakebed.__version__ == version("lakebed")


def test_help_has_a_short_name_everywhere(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["repo"], ["repo", "list"], ["config", "check"]):
        code, printed, _ = run(capfd, *words, "-h")
        assert (code, printed.startswith(f"Usage: {' '.join(['lakebed', *words])}")) == (0, True)


def test_a_program_on_the_path_is_a_command(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = home / "lakebed-foo"
    plugin.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    plugin.chmod(0o755)
    (home / "lakebed-repo").symlink_to(plugin)
    monkeypatch.setenv("PATH", str(home), prepend=":")
    assert run(capfd, "foo", "--bar", "-h", "x y") == (7, "--bar -h x y\n", "")
    assert run(capfd, "repo", "-h")[1].startswith("Usage: lakebed repo"), "ours come first"
    assert run(capfd, "nothing")[0] == 2


@pytest.mark.parametrize("before", [True, False])
def test_colours_are_switched_off_by_a_flag(
    home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    page = {"results": [], "pagination": {"has_more": False, "next_offset": ""}}
    with scripted_server(lambda _: answer_json(page)) as endpoint:
        command = ["repo", "list", "--endpoint", endpoint]
        assert run(capfd, *command)[1].startswith("\x1b[1mRepository")
        command = ["--no-color", *command] if before else [*command, "--no-color"]
        assert run(capfd, *command)[1].startswith("Repository")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell_asks_the_command(
    home: Path, capfd: pytest.CaptureFixture[str], shell: str
) -> None:
    code, script, _ = run(capfd, "completion", shell)
    assert code == 0
    assert "_LAKEBED_COMPLETE=complete_" in script


_PATHS = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}


def _objects(request: Request) -> Answer:
    """A server with two repositories, and objects in one."""
    lake = {"creation_date": 0, "default_branch": "main", "storage_namespace": "mem://lake"}
    path, _, query = request.target.partition("?")
    found: dict[str, list[dict[str, object]]] = {
        "/api/v1/repositories": [{"id": each, **lake} for each in ("lake", "last")],
        "/api/v1/repositories/lake/branches": [{"id": "main", "commit_id": "1"}],
        "/api/v1/repositories/lake/tags": [{"id": "made", "commit_id": "1"}],
        "/api/v1/repositories/lake/refs/main/objects/ls": [
            object_stats("a/", path_type="common_prefix"),
            object_stats("a b.csv"),
            object_stats("a.csv"),
        ],
    }
    if path not in found:
        return answer_json({"message": "no"}, 404)
    [prefix] = parse_qs(query).get("prefix", [""])
    results = [
        each for each in found[path] if str(each.get("path") or each["id"]).startswith(prefix)
    ]
    page = {"has_more": False, "next_offset": "", "results": 0, "max_per_page": 1000}
    return answer_json({"results": results, "pagination": page})


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("fs ls x", []),
        ("fs ls l", ["lakefs://lake/", "lakefs://last/"]),
        ("repo delete lakefs://la", ["lakefs://lake", "lakefs://last"]),
        ("repo delete lakefs://lake/m", []),
        ("merge lakefs://lake/m", ["lakefs://lake/main", "lakefs://lake/made"]),
        (
            "branch create lakefs://lake/x -s lakebed://lake/ma",
            ["lakebed://lake/main", "lakebed://lake/made"],
        ),
        ("fs cat lakefs://lake/m", ["lakefs://lake/main/", "lakefs://lake/made/"]),
        ("fs cat lakefs://lake/main/a", ["lakefs://lake/main/a/", "lakefs://lake/main/a.csv"]),
        ("fs cat lakefs://other/m", []),
    ],
)
def test_uris_are_completed(
    home: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    found: list[str],
) -> None:
    monkeypatch.setenv("_LAKEBED_COMPLETE", "complete_fish")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    with scripted_server(_objects) as endpoint:
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"lakebed --endpoint {endpoint} {line}")
        _, printed, said = run(capfd)
    assert (printed.split(), said) == (found, "")


@pytest.mark.slow
def test_completion_does_not_wait_for_a_server(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-m", "lakebed"],
            env=bare_environ(home)
            | _PATHS
            | {
                "_LAKEBED_COMPLETE": "complete_fish",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
                "_TYPER_COMPLETE_ARGS": f"lakebed --endpoint {endpoint} fs ls lakefs://",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert (ended.stdout, ended.stderr) == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("branch re", ["reset", "revert"]),
        ("fs ls lakefs://la", ["//lake/", "//last/"]),  # the word since the last colon
    ],
)
def test_bash_completes_commands_and_uris(home: Path, line: str, found: list[str]) -> None:
    program = home / "lakebed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m lakebed "$@"\n')
    program.chmod(0o755)
    ask = (
        'source <("$0" completion bash)\n'
        'COMP_LINE="lakebed $1" COMP_POINT=100 COMP_WORDBREAKS=:=\n'
        '_lakebed_completion "$0"\n'
        'echo "${COMPREPLY[@]}"\n'
    )
    with scripted_server(_objects) as endpoint:
        ended = subprocess.run(
            ["bash", "-c", ask, str(program), line],
            env=bare_environ(home) | _PATHS | {"LAKEBED_ENDPOINT": endpoint},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert ended.stdout.split() == found


def test_a_server_that_is_never_reached_is_named_once(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = home / "folder"
    folder.mkdir()
    for name in "abcdef":
        (folder / name).write_text("x")
    arguments = ("fs", "upload", "-r", "-s", str(folder), "lakefs://r/main/")
    code, printed, said = run(capfd, *arguments, "--endpoint", "http://127.0.0.1:1")
    assert (code, printed, said.count("cannot reach")) == (1, "", 1)
    assert said.count("\n") == 1


def test_a_part_goes_on_where_its_connection_broke(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    content = bytes(range(256)) * 40
    asked: list[str] = []

    def script(request: Request) -> Answer:
        if "/stat?" in request.target:
            return answer_json(object_stats("a", size_bytes=len(content)))
        asked.append(request.headers["Range"])
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        cut = 1000 if len(asked) == 1 else None
        return Answer(206, content[first : last + 1], {"ETag": '"0-1"'}, cut=cut)

    with scripted_server(script) as endpoint:
        arguments = ("lakefs://r/main/a", "a", "--part-size", "8192", "-p", "1")
        assert run(capfd, "fs", "download", *arguments, "--endpoint", endpoint)[0] == 0
    assert Path("a").read_bytes() == content
    assert asked == ["bytes=0-8191", "bytes=1000-8191", "bytes=8192-10239"]


def test_parts_of_two_versions_are_not_mixed(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def script(request: Request) -> Answer:
        if "/stat?" in request.target:
            return answer_json(object_stats("a", size_bytes=5000, checksum="old"))
        return Answer(206, b"x" * 1000, {"ETag": '"new"'})

    with scripted_server(script) as endpoint:
        arguments = ("lakefs://r/main/a", "a", "--part-size", "1024", "--endpoint", endpoint)
        code, _, said = run(capfd, "fs", "download", *arguments)
    assert (code, said) == (
        1,
        "lakebed: lakefs://r/main/a was replaced during the download: try again\n",
    )
    assert list(home.iterdir()) == []


def test_the_cleaner_makes_no_database(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--database", f"sqlite:///{home}/none.db"]):
        code, printed, said = run(capfd, "cleaner", "run", *arguments)
        assert (code, printed) == (2, "")
        assert said.startswith("lakebed: database file ")
    assert list(home.rglob("*.db")) == []


def test_a_setup_that_was_done_is_said_to_be(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    seen: list[Request] = []

    def script(request: Request) -> Answer:
        seen.append(request)
        return answer_json({"message": "done before"}, 409)

    with scripted_server(script) as endpoint:
        code, _, said = run(capfd, "setup", "--endpoint", endpoint)
    assert (code, said) == (1, "lakebed: done before (409)\n")
    assert "Authorization" not in seen[0].headers


def test_a_dry_run_of_an_import(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bodies: list[bytes] = []

    def server(request: Request) -> Answer:
        if request.method == "POST":
            bodies.append(request.body)
            return answer_json({"id": "i"}, 202)
        time = "2026-01-02T03:04:05Z"
        return answer_json({"completed": True, "update_time": time, "ingested_objects": 3})

    places = ("--from", "s3://b/x/", "--to", "lakefs://r/main/to/")
    patterns = ("--include", "*.csv", "--exclude", "_tmp/", "--exclude", "*.bak")
    with scripted_server(server) as endpoint:
        said = run(capfd, "import", *places, *patterns, "--dry-run", "--endpoint", endpoint)
    assert said == (0, "Would import 3 object(s) from s3://b/x/\n", "")
    sent = json.loads(bodies[0])
    assert sent["dry_run"] is True
    assert sent["paths"][0]["include"] == ["*.csv"]
    assert sent["paths"][0]["exclude"] == ["_tmp/", "*.bak"]
