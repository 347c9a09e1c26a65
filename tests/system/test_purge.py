"""Purges and lists of runs on a real server, by the command line."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lakebed.testing.servers.lakebed import LakebedServer, lakebed_server
from tests.system.cli_kit import CommandLine

pytestmark = [pytest.mark.extended, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakebedServer]:
    """A server on which no commit and no other request takes longer than ten seconds."""
    settings = {
        "engine": {"scan_limit_seconds": 1.0},
        "gc": {"longest_request_seconds": 10.0, "skew_seconds": 0.5},
        "limits": {"request_seconds": 10.0},
        "cleaner": {"interval_seconds": 0.5},
    }
    with lakebed_server(tmp_path_factory.mktemp("purge"), settings=settings) as opened:
        yield opened


@pytest.fixture
def run(
    server: LakebedServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    return CommandLine(server, monkeypatch, capsys)


def test_an_object_is_purged_from_all_history(
    run: CommandLine, server: LakebedServer, tmp_path: Path
) -> None:
    repo = "lakefs://people"
    run("repo", "create", repo, f"{server.namespace}/people")
    file = tmp_path / "ada"
    for text in ("first", "second"):
        file.write_text(text)
        run("fs", "upload", "-s", str(file), f"{repo}/main/ada.json")
        run("commit", f"{repo}/main", "-m", text)
    code, printed, _ = run.result("purge", "object", repo, "--path", "ida.json")
    assert (code, printed) == (0, "No objects of lakefs://people found in any commit\n")
    named = ("purge", "object", repo, "--path", "ada.json")
    planned = run.json(*named)
    assert (planned["dry_run"], planned["objects"], planned["deleted"]) == (True, 2, 0)
    assert run("fs", "cat", f"{repo}/main/ada.json") == "second"
    assert "pass --reason" in run.result(*named, "--confirm")[2]

    begun = run.json(*named, "--confirm", "--reason", "article 17")
    status = ("purge", "status", repo, begun["id"])
    shown = run(*status)
    assert shown.startswith(("The first search of", "2 of 2 objects (11 B) were deleted from all"))
    assert run.json(*status)["completed"] is False
    code, printed, said = run.result(*status, "--wait")
    assert code == 0
    assert run.json(*status)["deleted"] == 2
    assert "task" in run.error("purge", "status", repo, "none")
    assert printed.startswith("2 of 2 objects (11 B) of lakefs://people were deleted from all")
    assert "Not covered:\n  backups, replicas" in said
    for ref in ("main", "main~1"):
        answer = httpx.get(
            f"{server.endpoint}/api/v1/repositories/people/refs/{ref}/objects",
            params={"path": "ada.json"},
            auth=(server.access_key_id, server.secret_access_key),
        )
        assert answer.status_code == 410
        assert answer.json()["message"].endswith(": article 17")
    s3 = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        region_name="us-east-1",
        aws_access_key_id=server.access_key_id,
        aws_secret_access_key=server.secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )
    with pytest.raises(ClientError, match="NoSuchVersion"):
        s3.get_object(Bucket="people", Key="main/ada.json")
    assert [each["message"] for each in run.json("log", f"{repo}/main")][:2] == ["second", "first"]


def test_a_purge_can_be_waited_for(run: CommandLine, server: LakebedServer, tmp_path: Path) -> None:
    repo = "lakefs://waits"
    run("repo", "create", repo, f"{server.namespace}/waits")
    (tmp_path / "a").write_text("a")
    run("fs", "upload", "-s", str(tmp_path / "a"), f"{repo}/main/a")
    options = ("--path", "a", "--confirm", "--reason", "r", "--wait")
    code, printed, said = run.result("purge", "object", repo, *options)
    assert (code, printed[:20]) == (0, "1 of 1 objects (1 B)")
    assert "`lakebed purge status lakefs://waits " in said
    assert "1 of 1 objects (1 B) were deleted; the second search starts at 20" in said


def test_runs_are_listed_for_those_who_may_read_only(
    run: CommandLine, server: LakebedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = "lakefs://read-only"
    run("repo", "create", repo, f"{server.namespace}/read-only")
    prepare = f"{server.endpoint}/api/v1/repositories/read-only/gc/prepare_uncommited"
    keys = (server.access_key_id, server.secret_access_key)
    httpx.post(prepare, auth=keys).raise_for_status()
    run("auth", "users", "create", "--id", "reader")
    run("auth", "groups", "members", "add", "--id", "Viewers", "--user", "reader")
    made = run.json("auth", "users", "credentials", "create", "--id", "reader")
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", made["access_key_id"])
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", made["secret_access_key"])
    (shown,) = run.json("gc", "runs", repo)
    assert shown["state"] == "running"
    denied = httpx.post(prepare, auth=(made["access_key_id"], made["secret_access_key"]))
    assert denied.status_code == 401


def test_what_a_deleted_repository_has_left_is_asked_for(
    run: CommandLine, server: LakebedServer
) -> None:
    repo = "lakefs://over"
    run("repo", "create", repo, f"{server.namespace}/over")
    printed = run("repo", "delete", repo, "--purge", "--yes")
    assert printed.startswith(
        f"Deleted {repo}. The server will delete its data: {server.namespace}/over"
    )
    (left,) = run.json("repo", "purge", repo)
    assert left["requested"]
    assert (
        "Nothing was changed: to delete the data, add --confirm"
        in run.result("repo", "purge", repo)[2]
    )
    # Neither a name that was never there nor a repository that lives has left anything.
    run("repo", "create", "lakefs://alive", f"{server.namespace}/alive")
    for uri in ("lakefs://never", "lakefs://alive"):
        for options in ((), ("--confirm",)):
            assert "has data left to purge" in run.error("repo", "purge", uri, *options)


def test_who_may_delete_a_repository_but_not_its_data_is_told_what_was_done(
    run: CommandLine, server: LakebedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = "lakefs://half"
    run("repo", "create", repo, f"{server.namespace}/half")
    run("auth", "users", "create", "--id", "super")
    run("auth", "groups", "members", "add", "--id", "SuperUsers", "--user", "super")
    made = run.json("auth", "users", "credentials", "create", "--id", "super")
    monkeypatch.setenv("LAKEBED_ACCESS_KEY_ID", made["access_key_id"])
    monkeypatch.setenv("LAKEBED_SECRET_ACCESS_KEY", made["secret_access_key"])
    said = run.error("repo", "delete", repo, "--purge", "--yes")
    assert f"{repo} was deleted, but its data was kept: " in said
    assert "retention:PurgeRepository" in said
