"""Pull requests over the API: fields, filters, statuses, and who may merge."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from lakebed.auth import AuthNotFound, Effect, KeyPair, Statement
from lakebed.engine.errors import DirtyBranch
from lakebed.engine.model import RepositoryID
from tests.server.kit import REPOSITORY, Server, server

PULLS = f"/repositories/{REPOSITORY}/pulls"
ARN = f"arn:lakefs:fs:::repository/{REPOSITORY}"


@pytest.fixture
def world() -> Iterator[Server]:
    """A server with a branch that has a change to merge."""
    with server() as found:
        found.services.catalog.ref_changes.create_branch(RepositoryID(REPOSITORY), "dev", "main")
        put(found, "dev", "new")
        yield found


def put(world: Server, branch: str, path: str, data: bytes = b"data") -> None:
    world.put(path, data, branch)
    made = world.call(
        "POST", f"/repositories/{REPOSITORY}/branches/{branch}/commits", json={"message": "m"}
    )
    assert made.status_code == 201, made.text


def create(world: Server, **fields: str) -> str:
    body = {"title": "a change", "source_branch": "dev", "destination_branch": "main", **fields}
    made = world.call("POST", PULLS, json=body)
    assert made.status_code == 201, made.text
    found: str = made.json["id"]
    return found


def get(world: Server, pull_id: str) -> dict[str, Any]:
    found: dict[str, Any] = world.call("GET", f"{PULLS}/{pull_id}").json
    return found


def test_a_pull_request_from_end_to_end(world: Server) -> None:
    pull_id = create(world, description="long")
    found = get(world, pull_id)
    heads = {name: found.pop(name) for name in ("source_commit_id", "destination_commit_id")}
    assert found.pop("creation_date").endswith("Z")
    assert found == {
        "id": pull_id,
        "status": "open",
        "title": "a change",
        "description": "long",
        "author": "admin",
        "source_branch": "dev",
        "destination_branch": "main",
        "mergeable": True,
        "conflicts": 0,
    }
    merged = world.call("PUT", f"{PULLS}/{pull_id}/merge", params={"delete_source": "true"})
    assert merged.status_code == 200
    reference = merged.json["reference"]
    assert merged.json == {"reference": reference, "source_deleted": True}
    found = get(world, pull_id)
    assert (found["status"], found["merged_commit_id"]) == ("merged", reference)
    assert {name: found[name] for name in heads} == heads
    assert found["closed_date"]
    assert "mergeable" not in found
    commit = world.call("GET", f"/repositories/{REPOSITORY}/commits/{reference}").json
    assert commit["message"] == "Merge 'dev' into 'main'"
    assert commit["metadata"] == {
        ".lakefs.merge.strategy": "default",
        ".lakebed.pull_request": pull_id,
    }
    again = world.call("PUT", f"{PULLS}/{pull_id}/merge")
    assert (again.status_code, again.json["message"]) == (400, "bad pull request status")


def test_lists(world: Server) -> None:
    ids = [create(world, title=f"number {number}", description="long") for number in range(3)]
    world.call("PATCH", f"{PULLS}/{ids[0]}", json={"status": "closed"})
    world.call("PUT", f"{PULLS}/{ids[1]}/merge")

    def listed(**params: Any) -> list[str]:
        answer = world.call("GET", PULLS, params=params)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json["results"]]

    assert listed() == listed(status="all") == ids[::-1]
    assert listed(status="open") == [ids[2]]
    assert listed(status="closed") == [ids[1], ids[0]]
    assert listed(amount=1, after=ids[2]) == [ids[1]]
    assert listed(prefix=ids[0]) == [ids[0]]
    page = world.call("GET", PULLS, params={"amount": 1, "status": "closed"}).json
    assert page["pagination"]["has_more"]
    assert page["pagination"]["next_offset"] == ids[1]
    assert page["results"][0]["description"] == ""
    assert "merged_commit_id" not in page["results"][0]
    assert world.call("GET", PULLS, params={"status": "merged"}).status_code == 400


def test_changes(world: Server) -> None:
    pull_id = create(world)
    for body, status in (
        ({"title": "better", "description": "more"}, 204),
        ({"status": "closed"}, 204),
        ({"status": "closed"}, 204),
        ({"status": "merged"}, 400),
        ({"status": "gone"}, 400),
        ({"title": ""}, 400),
        ({"status": "open"}, 204),
        ({}, 204),
    ):
        answer = world.call("PATCH", f"{PULLS}/{pull_id}", json=body)
        assert answer.status_code == status, (body, answer.text)
    found = get(world, pull_id)
    assert (found["status"], found["title"], found["description"]) == ("open", "better", "more")


def test_mistakes(world: Server) -> None:
    for fields, status, message in (
        ({"source_branch": "main"}, 400, "both 'main'"),
        ({"source_branch": "none"}, 404, "branch not found"),
        ({"destination_branch": "no such/\x00"}, 404, "branch not found"),
        ({"title": " "}, 400, "title of a pull request"),
    ):
        body = {"title": "t", "source_branch": "dev", "destination_branch": "main", **fields}
        answer = world.call("POST", PULLS, json=body)
        assert answer.status_code == status, answer.text
        assert message in answer.json["message"]
    missing = world.call("GET", f"{PULLS}/{'0' * 20}")
    assert (missing.status_code, missing.json["message"]) == (404, "pull request not found")
    for method, path in (("GET", "x"), ("PATCH", "x"), ("PUT", "x/merge")):
        kwargs: dict[str, Any] = {"json": {}} if method == "PATCH" else {}
        assert world.call(method, f"{PULLS}/{path}", **kwargs).status_code == 400


def test_merges_that_are_refused(world: Server) -> None:
    pull_id = create(world)
    world.put("staged")
    dirty = world.call("PUT", f"{PULLS}/{pull_id}/merge")
    assert (dirty.status_code, dirty.json["message"]) == (
        400, "uncommitted changes (dirty branch)",
    )  # fmt: skip
    put(world, "main", "new", b"other")
    assert get(world, pull_id)["conflicts"] == 1
    conflict = world.call("PUT", f"{PULLS}/{pull_id}/merge")
    assert conflict.status_code == 409
    assert (conflict.json["reference"], conflict.json["conflicts"]) == ("", ["new"])
    world.services.catalog.ref_changes.create_branch(RepositoryID(REPOSITORY), "other", "dev")
    same = create(world, source_branch="other", destination_branch="dev")
    assert world.call("PUT", f"{PULLS}/{same}/merge").status_code == 400
    assert get(world, same)["not_mergeable_because"]
    world.call("DELETE", f"/repositories/{REPOSITORY}/branches/other")
    gone = world.call("PUT", f"{PULLS}/{same}/merge")
    assert (gone.status_code, gone.json["message"]) == (404, "branch not found")
    assert get(world, same)["status"] == "open"


def test_a_hook_that_refuses(world: Server) -> None:
    """Of action files on the source; the one that merges is told why, and it stays open."""
    hook = "{id: check, type: command, properties: {command: none}}"
    text = f"name: gate\non: {{pre-merge: }}\nhooks: [{hook}]\n"
    put(world, "dev", "_lakefs_actions/gate.yaml", text.encode())
    pull_id = create(world)
    refused = world.call("PUT", f"{PULLS}/{pull_id}/merge")
    assert refused.status_code == 412
    assert refused.json["message"].startswith("pre-merge hook aborted, run id '")
    found = get(world, pull_id)
    assert (found["status"], found.get("merging", False)) == ("open", False)
    runs = world.call("GET", f"/repositories/{REPOSITORY}/actions/runs").json["results"]
    assert [(run["event_type"], run["status"]) for run in runs] == [("pre-merge", "failed")]


def test_a_source_that_moved_on_is_kept(world: Server) -> None:
    pull_id = create(world)
    world.put("staged", branch="dev")
    merged = world.call("PUT", f"{PULLS}/{pull_id}/merge", params={"delete_source": "true"})
    assert merged.status_code == 200
    assert merged.json["source_deleted"] is False
    assert merged.json["source_kept_because"] == str(DirtyBranch("dev"))


def test_permissions_of_a_merge(world: Server) -> None:
    """Beside `pr:WritePullRequest`: committing to the destination, deleting the source."""
    pull_id = create(world)
    auth = world.services.auth
    auth.users.create("newcomer")
    made = auth.credentials.create("newcomer")
    pair = KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)

    def merge(*allowed: tuple[str, str], **params: str) -> int:
        with suppress(AuthNotFound):
            auth.policies.delete("just-this")
        auth.policies.create(
            "just-this",
            [
                Statement(effect=Effect.ALLOW, actions=(action,), resource=f"{ARN}{resource}")
                for action, resource in allowed
            ],
        )
        auth.user_policies.add("newcomer", "just-this")
        answer = world.call("PUT", f"{PULLS}/{pull_id}/merge", pair=pair, params=params)
        return answer.status_code

    write, commit = ("pr:WritePullRequest", ""), ("fs:CreateCommit", "/branch/main")
    delete = ("fs:DeleteBranch", "/branch/dev")
    assert merge(write) == 401
    assert merge(commit, delete) == 401
    assert merge(write, ("fs:CreateCommit", "/branch/dev")) == 401
    assert merge(write, commit, delete_source="true") == 401
    assert merge(write, commit, ("fs:DeleteBranch", "/branch/main"), delete_source="true") == 401
    assert get(world, pull_id)["status"] == "open"
    assert merge(write, commit, delete, delete_source="true") == 200


def test_our_metadata_is_refused(world: Server) -> None:
    world.put("staged")
    answer = world.call(
        "POST",
        f"/repositories/{REPOSITORY}/branches/main/commits",
        json={"message": "m", "metadata": {".lakebed.pull_request": "forged"}},
    )
    assert answer.status_code == 400
    assert ".lakebed.pull_request" in answer.json["message"]
