"""The words of the command line that people use less often, on a real server."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine


@pytest.fixture
def run(
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> CommandLine:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return CommandLine(sqlite_lakebed, monkeypatch, capsys)


@pytest.fixture
def repo(run: CommandLine, sqlite_lakebed: LakebedServer, repository_name: str) -> str:
    uri = f"lakefs://{repository_name}"
    run("repo", "create", uri, f"{sqlite_lakebed.namespace}/{repository_name}")
    return uri


class Files:
    """Puts small objects onto branches."""

    def __init__(self, run: CommandLine, folder: Path, repo: str) -> None:
        self._run, self._folder, self._repo = run, folder, repo

    def put(self, key: str, content: str = "content", *, branch: str = "main") -> None:
        file = self._folder / "upload"
        file.write_text(content)
        self._run("fs", "upload", "-s", str(file), f"{self._repo}/{branch}/{key}")

    def commit(self, *keys: str, branch: str = "main") -> str:
        for key in keys:
            self.put(key, branch=branch)
        made = self._run.json("commit", f"{self._repo}/{branch}", "-m", f"Add {' '.join(keys)}")
        return str(made["id"])


@pytest.fixture
def files(run: CommandLine, tmp_path: Path, repo: str) -> Files:
    return Files(run, tmp_path, repo)


def test_what_is_not_there_is_not_said_to_be_removed(
    run: CommandLine, repo: str, files: Files
) -> None:
    main = f"{repo}/main"
    for key in ("a/one", "a-b"):
        files.put(key)
    assert run.error("fs", "rm", f"{main}/a") == (
        f"{main}/a is a folder: pass -r to remove all objects below it"
    )
    assert run.error("fs", "rm", f"{main}/a/") == (
        f"{main}/a/ is a folder: pass -r to remove all objects below it"
    )
    for path in ("nothing", "a-"):
        assert run.error("fs", "rm", f"{main}/{path}") == (
            f"no object {main}/{path}: nothing was removed"
        )
    assert run.error("fs", "rm", "-r", f"{main}/nothing") == f"no objects below {main}/nothing"
    code, printed, said = run.result("fs", "ls", f"{main}/nothing")
    assert (code, printed, said.strip()) == (0, "", f"no objects below {main}/nothing")
    run("fs", "rm", "-r", "-C", "4", f"{main}/a")
    assert [item["path"] for item in run.json("fs", "ls", "-r", f"{main}/")] == ["a-b"]


def test_lists_in_a_pipe_are_lines_with_tabs(run: CommandLine, repo: str, files: Files) -> None:
    head = files.commit("folder/one", "two.csv")
    main, lines = (
        f"{repo}/main",
        [line.split("\t") for line in run("log", f"{repo}/main").split("\n")],
    )
    assert [(line[0], line[-1]) for line in lines[:1]] == [(head, "Add folder/one two.csv")]
    assert run("log", "--oneline", "--amount", "1", main) == f"{head}\tAdd folder/one two.csv\n"
    [folder, file] = run("fs", "ls", main + "/").splitlines()
    assert folder == "\t\tfolder/"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:]{8}\S+\t7\ttwo\.csv", file)
    assert run.json("show", "commit", f"{repo}/{head[:16]}")["id"] == head
    assert run("fs", "ls", repo) == run("branch", "list", repo) == f"main\t{head}\n"
    assert run.json("fs", "stat", f"{main}/two.csv")["content_type"] == "text/csv"
    [path, *commit] = run("annotate", main + "/").splitlines()[0].split("\t")
    assert (path, commit[0], commit[-1]) == ("folder/", head, "Add folder/one two.csv")
    files.put("three")
    assert run.json("annotate", "-r", f"{main}/t")[0] == {"path": "three", "commit": None}


def test_a_part_of_a_list(run: CommandLine, repo: str) -> None:
    for name in ("a1", "a2", "b1"):
        run("branch", "create", f"{repo}/{name}", "-s", f"{repo}/main")
        run("tag", "create", f"{repo}/t{name}", f"{repo}/main")

    def names(*arguments: str) -> list[str]:
        return [line.partition("\t")[0] for line in run(*arguments).splitlines()]

    assert names("branch", "list", repo, "--prefix", "a") == ["a1", "a2"]
    assert names("branch", "list", repo, "--amount", "2") == ["a1", "a2"]
    assert names("branch", "list", repo, "--after", "a1", "--amount", "1") == ["a2"]
    assert names("tag", "list", repo, "--prefix", "ta", "--after", "ta1") == ["ta2"]
    name = repo.removeprefix("lakefs://")
    assert names("repo", "list", "--prefix", name) == [name]
    assert names("auth", "groups", "list", "--prefix", "Adm") == ["Admins"]


def test_a_base_uri_stands_before_names(
    run: CommandLine, repo: str, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.put("folder/one")
    expected = run.json("fs", "ls", f"{repo}/main/folder/")
    assert run.json("--base-uri", f"{repo}/main", "fs", "ls", "/folder/") == expected
    assert run.json("fs", "ls", "folder/", "--base-uri", f"{repo}/main/") == expected
    monkeypatch.setenv("LAKECTL_BASE_URI", repo)
    assert run.json("fs", "ls", "main/folder/") == expected
    assert run.json("fs", "ls", f"{repo}/main/folder/") == expected
    monkeypatch.delenv("LAKECTL_BASE_URI")
    assert run.result("fs", "ls", "main/folder/")[0] == 2


def test_the_log_in_other_forms(run: CommandLine, repo: str, files: Files) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    one = files.commit("one")
    run("branch", "create", dev, "-s", main)
    two, three = files.commit("two"), files.commit("three", branch="dev")
    merge = run.json("merge", dev, main, "-m", "Merge")["reference"]

    def ids(*options: str) -> list[str]:
        return [item["id"] for item in run.json("log", main, *options)]

    everything = ids()
    assert set(ids("--no-merges")) == set(everything) - {merge}
    assert ids("--no-merges", "--amount", "1") == [each for each in everything if each != merge][:1]
    assert ids("--stop-at", one) == everything[:-1]
    assert ids("--after", everything[1]) == everything[2:]
    assert ids("--amount", "2", "--limit") == everything[:2]
    graph = run("log", "--graph", main).splitlines()
    assert graph[:2] == [f"* {merge[:16]} Merge", "|\\"]
    assert sorted(line.split()[-1] for line in graph if "Add" in line) == ["one", "three", "two"]
    assert graph[-3:] == [
        "|/",
        f"* {one[:16]} Add one",
        f"* {everything[-1][:16]} Repository created",
    ]
    dot = run("log", "--dot", main)
    assert f'"{merge}" -> "{two}"' in dot
    assert f'"{merge}" -> "{three}"' in dot
    code, _, said = run.result("log", main, "--graph", "--no-merges")
    assert (code, "--graph needs all commits" in said) == (2, True)


def test_differences_counted_and_below_a_prefix(run: CommandLine, repo: str, files: Files) -> None:
    main = f"{repo}/main"
    files.commit("a/one", "b/two")
    files.put("a/one", "longer content")
    files.put("b/three")
    assert run("diff", main, "--prefix", "b/") == "added\tb/three\n"
    assert run("diff", main, "--stat") == "added\t1\t7\nchanged\t1\t14\n"
    assert run("diff", f"{main}~1", f"{main}@", "--two-way", "--prefix", "b/") == "added\tb/two\n"


def test_a_merge_mentions_what_it_leaves_out(run: CommandLine, repo: str, files: Files) -> None:
    main, dev = f"{repo}/main", f"{repo}/dev"
    run("branch", "create", dev, "-s", main)
    files.commit("one", branch="dev")
    files.put("two", branch="dev")
    code, printed, said = run.result("merge", dev, main, "--force")
    assert (code, said) == (
        0,
        f"{dev} has uncommitted changes, which are not merged: commit them first\n",
    )
    assert printed.startswith(f"Merged {dev} into {main}: ")
    files.commit(branch="dev")
    assert run("merge", f"{repo}/dev@", main).startswith("Merged ")


def test_a_tag_is_replaced_by_force_only(run: CommandLine, repo: str, files: Files) -> None:
    tag, main = f"{repo}/v1", f"{repo}/main"
    run("tag", "create", tag, main)
    head = files.commit("one")
    assert "(409)" in run.error("tag", "create", tag, main)
    assert "(404)" in run.error("tag", "create", "--force", tag, f"{repo}/nothing")
    assert run("tag", "create", "-f", tag, main) == f"Created {tag} at {head}\n"


def test_metadata_of_an_object_and_of_a_repository(
    run: CommandLine, repo: str, files: Files
) -> None:
    files.put("one")
    uri = f"{repo}/main/one"
    run("fs", "update-metadata", uri, "--metadata", "owner=ada,team=lakes", "--metadata", "n=1")
    assert run.json("fs", "stat", uri)["metadata"] == {"owner": "ada", "team": "lakes", "n": "1"}
    run("repo", "metadata", "set", repo, "data_owner=Ada", "UPPER=x")
    assert run("repo", "metadata", "get", repo) == "UPPER\tx\ndata_owner\tAda\n"


def test_the_storage_sends_and_takes_bytes_itself(
    run: CommandLine, repo: str, tmp_path: Path
) -> None:
    source, target, uri = tmp_path / "source", tmp_path / "target", f"{repo}/main/lakes.parquet"
    source.write_bytes(os.urandom(100_000))
    sent = run.json("fs", "upload", "-s", str(source), uri, "--pre-sign")
    assert (sent["size_bytes"], sent["content_type"]) == (
        100_000,
        "application/vnd.apache.parquet",
    )
    run("fs", "download", uri, str(target), "--pre-sign", "--part-size", "30000")
    assert target.read_bytes() == source.read_bytes()
    assert run("fs", "download", uri, str(target)) == f"{target} already has the content of {uri}\n"
    target.unlink()
    run("fs", "download", uri, str(target), "--part-size", "1024", "-p", "4", "--no-progress")
    assert target.read_bytes() == source.read_bytes()
    assert run.json("fs", "stat", uri, "--pre-sign")["physical_address"].startswith("http")
    with run.process("fs", "cat", uri, "--pre-sign") as process:
        assert process.communicate(timeout=60)[0] == source.read_bytes()


def test_traffic_is_shown_without_secrets(run: CommandLine) -> None:
    code, printed, said = run.result("auth", "users", "credentials", "create", "-v", "--json")
    secret = json.loads(printed)["secret_access_key"]
    assert code == 0
    assert "> POST http://127.0.0.1" in said
    assert "> authorization: ********\n" in said
    assert "< 201 " in said
    assert '"secret_access_key": "********"' in said
    assert secret not in said
    assert run.environ["LAKEBED_SECRET_ACCESS_KEY"] not in said
    key = ["--access-key-id", json.loads(printed)["access_key_id"]]
    assert run("auth", "users", "credentials", "delete", *key)
    code, printed, said = run.result("--log-level", "debug", "repo", "list", "--amount", "1")
    assert (code, said) == (0, "DEBUG: GET /api/v1/repositories: 200\n")


def test_rules_of_garbage_collection_as_a_document(
    run: CommandLine, repo: str, tmp_path: Path
) -> None:
    rules = {"default_retention_days": 30, "branches": [{"branch_id": "main", "retention_days": 9}]}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(rules))
    run("gc", "set-config", repo, "-f", str(file))
    assert json.loads(run("gc", "get-config", repo, "-p")) == rules
    assert run("gc", "get-config", repo) == "main\t9\n(all others)\t30\n"
    run("gc", "delete-config", repo)
    assert "(404)" in run.error("gc", "get-config", repo)


def test_words_for_groups_usage_and_what_is_not_there(
    run: CommandLine, repository_name: str
) -> None:
    group = ["--id", f"group-{repository_name}"]
    run("auth", "groups", "create", *group)
    run("auth", "groups", "acl", "set", *group, "--permission", "Write")
    assert run("auth", "groups", "acl", "get", *group) == "permission\tWrite\n"
    run("auth", "groups", "delete", *group)
    assert isinstance(run.json("usage", "summary")["reports"], list)
    arn = ["--principal-id", "arn:aws:sts::1:assumed-role/r"]
    for words in (
        ["attach", "--id", "admin", *arn],
        ["detach", "--id", "admin", *arn],
        ["list", "--id", "admin"],
        ["lookup", *arn],
    ):
        assert run.error("auth", "users", "aws-iam", *words).endswith("is not implemented (501)")


def test_a_search_halves_what_is_left(
    run: CommandLine, repo: str, files: Files, tmp_path: Path
) -> None:
    commits = [files.commit(f"{n}") for n in range(8)]
    main, first_bad = f"{repo}/main", commits[5]
    assert run.error("bisect", "good") == ("no search in progress: run `lakebed bisect start`")
    assert "is not a first-parent ancestor" in run.error(
        "bisect", "start", f"{repo}/{commits[0]}", main
    )
    said = run("bisect", "start", main, f"{repo}/{commits[0]}")
    assert said.startswith("7 commits left, about 2 steps\nTest lakefs://")
    assert run.error("bisect", "start", main, f"{repo}/{commits[1]}") == (
        f"a search in {repo} is in progress (7 commits left): end it with `lakebed bisect reset`"
    )
    assert run("bisect", "log") == said
    steps = 0
    while "first bad" not in said:
        current = said.split("/")[-1].split()[0]
        is_bad = next(n for n, each in enumerate(commits) if each.startswith(current)) >= 5
        said = run("bisect", "bad" if is_bad else "good")
        steps += 1
    assert f"The first bad commit is {repo}/{first_bad[:16]} Add 5" in said
    assert steps <= 3

    run("bisect", "start", main, f"{repo}/{commits[0]}")
    script = (
        f"import os, sys; sys.exit(os.environ['BISECT_ID'] in {commits[5:]} "
        "and sys.argv[1] == os.environ['BISECT_ID'])"
    )
    said = run("bisect", "run", sys.executable, "-c", script, ":BISECT_ID:")
    assert said.endswith(f"The first bad commit is {repo}/{first_bad[:16]} Add 5\n")
    assert run("bisect", "log") == said.splitlines(keepends=True)[-1]
    assert run("bisect", "view").startswith(first_bad)
    run("bisect", "reset")
    run("bisect", "start", main, f"{repo}/{commits[0]}")
    assert run.error("bisect", "run", str(tmp_path / "nothing")).startswith("cannot run ")


def test_settings_are_written_for_this_tool_and_lakectl(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "home" / ".lakectl.yaml"
    file.write_text("options: {parallelism: 7}\nserver: {retries: {max_attempts: 2}}\n")
    known = dict(run.environ)
    for name in known:
        monkeypatch.delenv(name)
    options = ["--endpoint", known["LAKEBED_ENDPOINT"]]
    options += ["--access-key-id", known["LAKEBED_ACCESS_KEY_ID"]]
    ended = subprocess.run(
        [sys.executable, "-m", "lakebed", "config", *options],
        input=known["LAKEBED_SECRET_ACCESS_KEY"],
        text=True,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == f"Wrote {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert "parallelism: 7" in file.read_text()
    assert "max_attempts: 2" in file.read_text()
    assert run.json("identity")["id"] == "admin"
