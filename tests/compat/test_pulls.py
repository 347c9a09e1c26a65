"""Pull requests by the Python client and by our command line, against a real server."""

from collections.abc import Callable

import lakefs_sdk as sdk
import pytest
from lakefs import Client, Repository
from lakefs_sdk.exceptions import ApiException

from lakebed.testing.servers.lakebed import LakebedServer
from tests.system.cli_kit import CommandLine

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(sqlite_lakebed: LakebedServer, repository_name: str) -> Repository:
    """A repository with a branch that has a change to merge."""
    server = sqlite_lakebed
    client = Client(
        host=server.endpoint, username=server.access_key_id, password=server.secret_access_key
    )
    made = Repository(repository_name, client=client)
    made.create(storage_namespace=f"{server.namespace}/{repository_name}")
    dev = made.branch("dev").create("main")
    dev.object("new").upload(b"new")
    dev.commit("something new")
    return made


def pulls_api(repository: Repository) -> sdk.PullsApi:
    return sdk.PullsApi(repository._client.sdk_client._api)


def test_the_python_client(repository: Repository) -> None:
    pulls, name = pulls_api(repository), repository.id
    wanted = sdk.PullRequestCreation(
        title="a change", description="long", source_branch="dev", destination_branch="main"
    )
    made = pulls.create_pull_request(name, wanted).id
    other = pulls.create_pull_request(name, wanted).id
    found = pulls.get_pull_request(name, made)
    assert (found.status, found.title, found.description) == ("open", "a change", "long")
    assert (found.source_branch, found.destination_branch) == ("dev", "main")
    assert found.author
    assert found.creation_date.tzinfo is not None
    pulls.update_pull_request(name, other, sdk.PullRequestBasic(status="closed", title="no"))
    assert [each.id for each in pulls.list_pull_requests(name).results] == [other, made]
    assert [each.id for each in pulls.list_pull_requests(name, status="open").results] == [made]
    merged = pulls.merge_pull_request(name, made)
    assert repository.branch("main").get_commit().id == merged.reference
    found = pulls.get_pull_request(name, made)
    assert (found.status, found.merged_commit_id) == ("merged", merged.reference)
    assert found.closed_date is not None
    listed = pulls.list_pull_requests(name, status="closed", amount=1)
    assert [each.title for each in listed.results] == ["no"]
    assert listed.pagination.next_offset == other
    calls: list[tuple[int, Callable[[], object]]] = [
        (400, lambda: pulls.merge_pull_request(name, made)),
        (400, lambda: pulls.merge_pull_request(name, other)),
        (400, lambda: pulls.get_pull_request(name, "none")),
        (404, lambda: pulls.get_pull_request(name, "0" * 20)),
        (
            400,
            lambda: pulls.update_pull_request(name, made, sdk.PullRequestBasic(status="open")),
        ),
        (
            400,
            lambda: pulls.update_pull_request(name, other, sdk.PullRequestBasic(status="merged")),
        ),
    ]
    for status, call in calls:
        with pytest.raises(ApiException) as refused:
            call()
        assert refused.value.status == status


def test_the_command_line(
    repository: Repository,
    sqlite_lakebed: LakebedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lakebed = CommandLine(sqlite_lakebed, monkeypatch, capsys)
    at = f"lakefs://{repository.id}"
    create = ("pr", "create", f"{at}/dev", f"{at}/main", "--title")
    first = lakebed.json(*create, "not now")["id"]
    assert lakebed("pr", "close", at, first) == f"Closed pull request {first}\n"
    second = lakebed.json(*create, "a change", "-d", "long")["id"]
    listed = lakebed("pr", "list", at)
    assert second in listed
    assert first not in listed
    assert first in lakebed("pr", "list", at, "--status", "all")
    shown = lakebed.json("pr", "show", at, second)
    assert (shown["mergeable"], shown["conflicts"], shown["description"]) == (True, 0, "long")
    merged = lakebed.json("pr", "merge", at, second, "--delete-source")
    assert repository.branch("main").get_commit().id == merged["reference"]
    assert [each.id for each in repository.branches()] == ["main"]
    assert "is merged: only an open pull request" in lakebed.error("pr", "merge", at, second)
    assert "pull request not found" in lakebed.error("pr", "show", at, "0" * 20)
    for branch, content in (("dev", b"1"), ("main", b"2")):
        if branch == "dev":
            repository.branch("dev").create("main")
        repository.branch(branch).object("new").upload(content)
        repository.branch(branch).commit("changed on both sides")
    third = lakebed.json(*create, "conflict")["id"]
    code, _, said = lakebed.result("pr", "merge", at, third)
    assert code == 1
    assert "conflict: new" in said
    assert "both sides changed 'new' differently: change one side" in said
