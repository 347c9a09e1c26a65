"""How commands end: their exit codes and what they print."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.main import get_command

from lakebed.clients import cli
from lakebed.clients.cli import COMMANDS, running
from lakebed.clients.cli.errors import LISTINGS
from lakebed.engine import errors as engine_errors
from lakebed.lake import errors as lake_errors
from tests.clients.cli.kit import bare_environ
from tests.clients.http.scripted import Answer, Request, answer_json, object_stats, scripted_server
from tests.kit.words import helps


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """No settings but those that a test makes."""
    return bare_environ(tmp_path)


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
        (["nonsense"], 2, "no such command 'nonsense' (see `lakebed --help`)"),
        (["rep"], 2, "no such command 'rep': did you mean 'repo'? (see `lakebed --help`)"),
        (
            ["repo", "list", "--nonsense"],
            2,
            "no such option: --nonsense (see `lakebed repo list --help`)",
        ),
        (
            ["repo", "list", "surplus"],
            2,
            "got unexpected extra argument(s) (surplus) (see `lakebed repo list --help`)",
        ),
        (
            ["repo", "create", "lakefs://repo"],
            2,
            "missing argument 'NAMESPACE' (see `lakebed repo create --help`)",
        ),
        (
            ["commit", "lakefs://repo/main"],
            2,
            "missing option '--message' / '-m' (see `lakebed commit --help`)",
        ),
        (
            ["branch", "list", "repo"],
            2,
            "'repo' is not the URI of a repository: expected for example lakefs://my-repo",
        ),
        (
            ["merge", "lakefs://repo/dev", "lakefs://repo/main", "--strategy", "source"],
            2,
            (
                "invalid value for '--strategy': 'source' is not one of 'source-wins',"
                " 'dest-wins' (see `lakebed merge --help`)"
            ),
        ),
        (
            ["branch", "delete", "lakefs://repo/feature/x"],
            2,
            (
                "'lakefs://repo/feature/x' is not the URI of a branch, tag or commit, whose names"
                " have no /: expected for example lakefs://my-repo/main"
            ),
        ),
        (
            ["commit", "lakefs://repo/main", "-m", " "],
            2,
            "the commit message is empty: describe the change, or pass --allow-empty-message",
        ),
        (
            ["commit", "lakefs://repo/main", "-m", "x", "--meta", "novalue"],
            2,
            "'novalue' is not name=value: expected for example owner=ada",
        ),
        (
            ["diff", "lakefs://one/a", "lakefs://two/b"],
            2,
            (
                "lakefs://one/a and lakefs://two/b are in different repositories:"
                " expected the same one"
            ),
        ),
        (
            ["log", "lakefs://repo/main", "--since", "yesterday"],
            2,
            "'yesterday' is not a time: expected for example 2026-01-31T12:00:00Z",
        ),
        (
            ["branch", "reset", "lakefs://repo/main", "--prefix", "a", "--object", "b"],
            2,
            "--prefix and --object cannot be combined: pass one of them",
        ),
        (
            ["repo", "list"],
            1,
            (
                "the endpoint is not set: set LAKEBED_ENDPOINT, or server.endpoint_url in"
                " ~/.lakectl.yaml, or pass --endpoint"
            ),
        ),
        (
            ["repo", "list", "--config", "missing.yaml"],
            1,
            "cannot read the settings in missing.yaml: No such file or directory",
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


@pytest.mark.parametrize(
    ("arguments", "code", "failure"),
    [
        (["repo", "list"], 1, {"kind": "branch_not_found", "status": 404}),
        (["branch", "list", "repo"], 2, {"kind": "misuse"}),
        (["repo", "list", "--nonsense"], 2, {"kind": "misuse"}),
        (["repo", "list", "--config", "missing.yaml"], 1, {"kind": "client_settings"}),
        (["fs", "upload", "-s", "no.csv", "lakefs://repo/main/a"], 1, {"kind": "system"}),
    ],
)
def test_with_json_an_error_is_an_object(
    inside: Inside, arguments: list[str], code: int, failure: dict[str, object]
) -> None:
    refusal = {"kind": "branch_not_found", "message": "gone"}
    with scripted_server(lambda _: answer_json(refusal, 404)) as endpoint:
        ended, printed, said = inside("--json", "--endpoint", endpoint, *arguments)
    shown = json.loads(said)
    assert (ended, printed, said.count("\n")) == (code, "", 1)
    assert {"message": shown["message"]} | failure == shown


def test_a_bug_is_one_line_too(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise AttributeError("x\ny")

    monkeypatch.setattr("lakebed.clients.cli.output._shown", broken)
    user = {"user": {"id": "ada", "creation_date": 0}}
    with scripted_server(lambda _: answer_json(user)) as endpoint:
        code, _, said = inside("identity", "--endpoint", endpoint)
    assert code == 1
    assert said.startswith(
        "lakebed: internal error, please report it: AttributeError at test_running.py:"
    )
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


def test_the_columns_of_a_listing_in_a_pipe_are_stable(inside: Inside) -> None:
    found = [object_stats("a/", path_type="common_prefix"), object_stats("b", size_bytes=5)]
    page = {"results": found, "pagination": {"has_more": False, "next_offset": ""}}
    with scripted_server(lambda _: answer_json(page)) as endpoint:
        _, printed, _ = inside("fs", "ls", "lakefs://lake/main/", "--endpoint", endpoint)
    folder, stored = (line.split("\t") for line in printed.splitlines())
    assert folder == ["", "", "a/"]
    assert stored[1:] == ["5", "b"]


def test_options_may_stand_before_and_after_the_command(inside: Inside) -> None:
    page = {"results": [], "pagination": {"has_more": False, "next_offset": ""}}
    with scripted_server(lambda _: answer_json(page)) as endpoint:
        for arguments in (
            ["--endpoint", endpoint, "--json", "repo", "list"],
            ["repo", "list", "--endpoint", endpoint, "--json"],
            ["--endpoint", "http://x.invalid", "repo", "list", "--endpoint", endpoint, "--json"],
        ):
            assert inside(*arguments) == (0, "[]\n", "")


def test_to_end_all_uploads_goes_on_behind_one_that_is_over(inside: Inside) -> None:
    facts = {
        "kind": "",
        "branch": "",
        "path": "",
        "physical_address": "",
        "begun": "2026-01-01T00:00:00Z",
    }
    uploads = [{"id": each, **facts} for each in ("1", "2", "3")]
    page = {"results": uploads, "pagination": {"has_more": False, "next_offset": ""}}

    def script(request: Request) -> Answer:
        if request.method == "GET":
            return answer_json(page)
        if request.target.endswith("/2"):
            return answer_json({"message": "it is over"}, 404)
        return Answer(204)

    command = ["gc", "end-uploads", "lakefs://lake", "--yes", "--endpoint"]
    with scripted_server(script) as endpoint:
        said = inside(*command, endpoint, "--all", "--json")[1]
        assert json.loads(said) == {"ended": ["1", "3"]}
        code, _, said = inside(*command, endpoint, "2")
        assert (code, "it is over (404)" in said) == (1, True)


def test_rules_of_garbage_collection(inside: Inside) -> None:
    sent: list[Request] = []
    rules = {
        "default_retention_days": 30,
        "branches": [{"branch_id": "exp-*", "retention_days": 7}],
    }

    def script(request: Request) -> Answer:
        sent.append(request)
        return answer_json(rules) if request.method == "GET" else Answer(204)

    with scripted_server(script) as endpoint:
        where = ["lakefs://lake", "--endpoint", endpoint]
        command = ["gc", "rules", "set", *where, "--days", "30", "--yes", "--branch"]
        assert inside(*command, "exp-*=7")[0] == 0
        assert (sent[-1].method, json.loads(sent[-1].body)) == ("PUT", rules)
        assert sent[-1].target.endswith("/repositories/lake/settings/gc_rules")
        code, said, _ = inside("gc", "rules", "get", *where)
        assert (code, "exp-*" in said, "30" in said) == (0, True, True)
        assert inside("gc", "rules", "delete", *where)[0] == 0
        assert sent[-1].method == "DELETE"
        code, _, said = inside(*command, "main")
        assert (code, "'main' is not a rule" in said) == (2, True)


def test_the_command_that_lists_names_exists_as_do_the_errors() -> None:
    errors = {**vars(engine_errors), **vars(lake_errors)}.values()
    kinds = {getattr(each, "kind", "") for each in errors}
    assert LISTINGS.keys() <= kinds
    commands = {" ".join(words) for words, _, _ in helps(get_command(cli.app))}
    assert set(LISTINGS.values()) <= commands
