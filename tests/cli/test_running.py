"""How commands end, seen from outside: their exit codes and what they print."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from lakebed import cli
from lakebed.cli import COMMANDS, running
from tests.client.scripted import Answer, Numbers, Request, answer_json, scripted_server

COMMAND = [sys.executable, "-c", "import lakebed.cli; lakebed.cli.main()"]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """No settings but those that a test makes."""
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return kept | {
        "HOME": str(tmp_path),
        "LAKEBED_ACCESS_KEY_ID": "key",
        "LAKEBED_SECRET_ACCESS_KEY": "secret",
    }


Inside = Callable[..., tuple[int, str, str]]


@pytest.fixture
def inside(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Inside:
    """Runs a command in this process, which is quicker; gives its code and what it printed."""
    for name in list(os.environ):
        if name.startswith(("LAKEBED_", "LAKECTL_")):
            monkeypatch.delenv(name)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    def run_inside(*arguments: str) -> tuple[int, str, str]:
        code = running.run(cli.app, list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run_inside


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nonsense"], 2, "No such command 'nonsense'. (see `lakebed --help`)"),
        (["rep"], 2, "No such command 'rep'. Did you mean 'repo'? (see `lakebed --help`)"),
        (
            ["repo", "list", "--nonsense"],
            2,
            "No such option: --nonsense (see `lakebed repo list --help`)",
        ),
        (
            ["repo", "list", "surplus"],
            2,
            "Got unexpected extra argument(s) (surplus) (see `lakebed repo list --help`)",
        ),
        (
            ["repo", "create", "lakefs://repo"],
            2,
            "Missing argument 'NAMESPACE'. (see `lakebed repo create --help`)",
        ),
        (
            ["commit", "lakefs://repo/main"],
            2,
            "Missing option '--message' / '-m'. (see `lakebed commit --help`)",
        ),
        (
            ["branch", "list", "repo"],
            2,
            "'repo' is not the URI of a repository, expected for example lakefs://my-repo",
        ),
        (
            ["commit", "lakefs://repo/main", "-m", "x", "--meta", "novalue"],
            2,
            "'novalue' is not name=value, expected for example owner=ada",
        ),
        (
            ["diff", "lakefs://one/a", "lakefs://two/b"],
            2,
            (
                "lakefs://one/a and lakefs://two/b are in different repositories,"
                " expected the same one"
            ),
        ),
        (
            ["log", "lakefs://repo/main", "--since", "yesterday"],
            2,
            "'yesterday' is not a time, expected for example 2026-01-31T12:00:00Z",
        ),
        (
            ["branch", "reset", "lakefs://repo/main", "--prefix", "a", "--object", "b"],
            2,
            "--prefix and --object exclude each other",
        ),
        (
            ["repo", "list"],
            1,
            (
                "the endpoint is not set: set LAKEBED_ENDPOINT, or server.endpoint_url in"
                " ~/.lakectl.yaml, or give --endpoint"
            ),
        ),
        (
            ["repo", "list", "--config", "missing.yaml"],
            1,
            "the settings in missing.yaml cannot be read: No such file or directory",
        ),
        (
            ["fs", "upload", "-s", "missing.csv", "lakefs://repo/main/a", "--endpoint", "http://h"],
            1,
            "missing.csv: No such file or directory",
        ),
    ],
)
def test_an_error_is_one_line(
    inside: Inside, arguments: list[str], code: int, message: str
) -> None:
    assert inside(*arguments) == (code, "", f"lakebed: {message}\n")


def test_a_bug_is_one_line_too(inside: Inside) -> None:
    with scripted_server(lambda _: answer_json({"user": 5})) as endpoint:
        code, _, said = inside("identity", "--endpoint", endpoint)
    assert code == 1
    assert said.startswith("lakebed: a bug in lakebed, please report it: TypeError at output.py:")
    assert said.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["repo"], ["auth", "users"]])
def test_a_group_explains_itself(inside: Inside, arguments: list[str]) -> None:
    code, printed, said = inside(*arguments)
    assert (code, printed) == (2, "")
    assert said.startswith("Usage: ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(inside: Inside, name: str) -> None:
    code, printed, said = inside(name, "--help")
    assert (code, said) == (0, "")
    assert printed.startswith(f"Usage: lakebed {name} [OPTIONS]")


def test_help_loads_no_more_than_it_needs(environ: dict[str, str]) -> None:
    probe = (
        "import sys, lakebed.cli as cli; code = cli.run(cli.app, ['--help'])\n"
        "heavy = {'httpx', 'rich', 'yaml', 'pydantic', 'pyarrow', 'granian'} & set(sys.modules)\n"
        "sys.exit(code or ', '.join(heavy) or 0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe], env=environ, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_options_may_stand_before_and_after_the_command(inside: Inside) -> None:
    page = {"results": [], "pagination": {"has_more": False, "next_offset": ""}}
    with scripted_server(lambda _: answer_json(page)) as endpoint:
        for arguments in (
            ["--endpoint", endpoint, "--json", "repo", "list"],
            ["repo", "list", "--endpoint", endpoint, "--json"],
            ["--endpoint", "http://x.invalid", "repo", "list", "--endpoint", endpoint, "--json"],
        ):
            assert inside(*arguments) == (0, "[]\n", "")


def test_a_broken_pipe_is_silent(environ: dict[str, str]) -> None:
    def script(request: Request) -> Answer:
        answer = json.loads(Numbers(100_000)(request).body)
        for item in answer["results"]:
            item |= {"path_type": "common_prefix", "path": "x" * 100}
        return answer_json(answer)

    with (
        scripted_server(script) as endpoint,
        subprocess.Popen(
            [*COMMAND, "fs", "ls", "lakefs://repo/main", "--endpoint", endpoint],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


def test_nothing_is_said_when_a_short_answer_has_no_reader(environ: dict[str, str]) -> None:
    with scripted_server(lambda _: answer_json({"user": {"id": "ada"}})) as endpoint:
        read, write = os.pipe()
        os.close(read)
        ended = subprocess.run(
            [*COMMAND, "identity", "--endpoint", endpoint],
            env=environ,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
        os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.fixture
def slow_transfers() -> Iterator[tuple[str, Event]]:
    """A server with two objects whose bytes trickle, and a sign that one is under way."""
    begun, end = Event(), Event()

    def script(request: Request) -> Answer:
        if "/objects/ls" in request.target:
            items = [{"path": name, "path_type": "object"} for name in "ab"]
            return answer_json(
                {"results": items, "pagination": {"has_more": False, "next_offset": ""}}
            )
        begun.set()
        end.wait(5)
        return Answer(200, b"x")

    with scripted_server(script) as endpoint:
        yield endpoint, begun
        end.set()


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("arguments", [["cat", "lakefs://repo/main/a"], ["download", "-r"]])
def test_an_interrupt_ends_cleanly(
    environ: dict[str, str],
    slow_transfers: tuple[str, Event],
    arguments: list[str],
    tmp_path: Path,
) -> None:
    endpoint, begun = slow_transfers
    target = tmp_path / "target"
    if "download" in arguments:
        arguments = [*arguments, "lakefs://repo/main/", str(target)]
    with subprocess.Popen(
        [*COMMAND, "fs", *arguments, "--endpoint", endpoint],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert begun.wait(60)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    assert not target.exists() or list(target.iterdir()) == []
