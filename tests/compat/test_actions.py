"""Hooks by the Python client that people have, and by our command line, against a real server."""

from pathlib import Path

import lakefs_sdk as sdk
import pytest
from lakefs_sdk.exceptions import ApiException

from lakebed.testing.servers.lakebed import LakebedServer
from tests.kit.served import eventually
from tests.system.cli_kit import CommandLine

pytestmark = pytest.mark.slow

SCRIPT = """
name: owners
on:
  pre-commit:
    branches: [main]
  post-commit:
    branches: [main]
hooks:
  - id: has_owner
    type: lua
    properties:
      script: |
        print("looking at " .. action.commit_id)
        if not action.commit.metadata.owner then error("nobody owns this") end
  - id: never
    type: lua
    if: failure() && false
    properties: {script: "error('no')"}
"""


@pytest.fixture(scope="module")
def client(sqlite_lakebed: LakebedServer) -> sdk.ApiClient:
    server = sqlite_lakebed
    return sdk.ApiClient(
        sdk.Configuration(
            host=f"{server.endpoint}/api/v1",
            username=server.access_key_id,
            password=server.secret_access_key,
        )
    )


@pytest.fixture
def gated(
    client: sdk.ApiClient, sqlite_lakebed: LakebedServer, repository_name: str, tmp_path: Path
) -> str:
    """A repository whose main branch has an action file, not committed yet."""
    sdk.RepositoriesApi(client).create_repository(
        sdk.RepositoryCreation(
            name=repository_name,
            storage_namespace=f"{sqlite_lakebed.namespace}/{repository_name}",
        )
    )
    (tmp_path / "owners.yaml").write_text(SCRIPT)
    sdk.ObjectsApi(client).upload_object(
        repository_name,
        "main",
        "_lakefs_actions/owners.yaml",
        content=str(tmp_path / "owners.yaml"),
    )
    return repository_name


def commit(client: sdk.ApiClient, repository: str, **metadata: str) -> sdk.Commit:
    wanted = sdk.CommitCreation(message="m", metadata=metadata)
    return sdk.CommitsApi(client).commit(repository, "main", wanted)


def test_the_python_client_reads_runs(client: sdk.ApiClient, gated: str) -> None:
    actions = sdk.ActionsApi(client)
    with pytest.raises(ApiException) as refused:
        commit(client, gated)
    assert refused.value.status == 412
    (failed,) = actions.list_repository_runs(gated).results
    assert failed.status == "failed"
    assert f"pre-commit hook aborted, run id '{failed.run_id}': 1 error" in refused.value.body
    assert "nobody owns this" in refused.value.body
    made = commit(client, gated, owner="ann")
    ended = eventually(
        lambda: (
            found
            if len(found := actions.list_repository_runs(gated, commit=made.id).results) == 2
            else None
        )
    )
    assert {(run.event_type, run.status) for run in ended} == {
        ("pre-commit", "completed"),
        ("post-commit", "completed"),
    }
    run = actions.get_run(gated, ended[0].run_id)
    assert (run.branch, run.commit_id) == ("main", made.id)
    first, second = actions.list_run_hooks(gated, run.run_id).results
    assert (first.hook_run_id, first.action, first.hook_id) == ("0000_0000", "owners", "has_owner")
    assert (second.status, second.hook_run_id) == ("completed", "0000_0001")
    output = actions.get_run_hook_output(gated, run.run_id, first.hook_run_id)
    assert bytes(output) == f"looking at {made.id}\n".encode()
    assert bytes(actions.get_run_hook_output(gated, run.run_id, second.hook_run_id)) == b""
    by_branch = actions.list_repository_runs(gated, branch="main", amount=1)
    assert by_branch.pagination.has_more
    following = actions.list_repository_runs(
        gated, branch="main", after=by_branch.pagination.next_offset
    )
    assert len(following.results) == 2


def test_the_command_line_shows_hooks(
    client: sdk.ApiClient,
    gated: str,
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = CommandLine(sqlite_lakebed, monkeypatch, capsys)
    made = commit(client, gated, owner="ann")
    repo = f"lakefs://{gated}"
    code, _, refused = run.result("commit", f"{repo}/main", "-m", "more", "--allow-empty")
    assert code == 1
    assert refused.startswith("lakebed: pre-commit hook aborted")
    assert "nobody owns this" in refused
    tried = run("actions", "run", f"{repo}/main", "--event", "pre-commit")
    assert f"owners/has_owner: looking at {made.id}\n" in tried
    assert tried.endswith(": completed\n")
    assert "No action file" in run("actions", "run", f"{repo}/main", "--event", "pre-merge")
    listed = run.json("actions", "runs", "list", repo, "--branch", "main")
    assert {item["event_type"] for item in listed} >= {"pre-commit"}
    newest = listed[0]["run_id"]
    described = run("actions", "runs", "describe", repo, newest)
    assert newest in described
    assert "owners/has_owner: completed" in described
    assert "owners/never: skipped" in described
