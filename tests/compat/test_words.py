"""The messages of the REST API are those that scripts and golden files of lakeFS compare with.

Our own sentence is in `detail`, and `kind` is the stable name.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.kit import BRANCH, REPOSITORY, Server, server

REPO = f"/repositories/{REPOSITORY}"
ON_BRANCH = f"{REPO}/branches/{BRANCH}"
PROTECTED = f"{REPO}/branches/release"


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    """A repository with a tag, a protected branch, two branches in conflict, a dirty branch."""
    with server() as world:

        def made(method: str, path: str, status: int = 201, **options: Any) -> None:
            answer = world.call(method, path, **options)
            assert answer.status_code == status, answer.text

        world.put("base")
        made("POST", f"{ON_BRANCH}/commits", json={"message": "base"})
        made("POST", f"{REPO}/tags", json={"id": "v1", "ref": BRANCH})
        for name in ("release", "left", "right", "dirty"):
            made("POST", f"{REPO}/branches", json={"name": name, "source": BRANCH})
        for name in ("left", "right"):
            world.put("same", name.encode(), branch=name)
            made("POST", f"{REPO}/branches/{name}/commits", json={"message": name})
        world.put("uncommitted", branch="dirty")
        rules = [{"pattern": "release"}]
        made("PUT", f"{REPO}/settings/branch_protection", 204, json=rules)
        yield world


@pytest.mark.parametrize(
    ("status", "message", "kind", "method", "path", "options"),
    [
        (404, "repository not found", "repository_not_found", "GET", "/repositories/none", {}),
        (404, "branch not found", "branch_not_found", "GET", f"{REPO}/branches/none", {}),
        (404, "tag not found", "tag_not_found", "GET", f"{REPO}/tags/none", {}),
        (404, "commit not found", "ref_not_found", "GET", f"{REPO}/commits/none", {}),
        (404, "user not found", "user_not_found", "GET", "/auth/users/none", {}),
        (404, "group not found", "group_not_found", "GET", "/auth/groups/none", {}),
        (
            404,
            "not found",
            "entry_not_found",
            "GET",
            f"{REPO}/refs/main/objects/stat",
            {"params": {"path": "none"}},
        ),
        (
            404,
            "object not found",
            "entry_not_found",
            "POST",
            f"{ON_BRANCH}/objects/copy",
            {"params": {"dest_path": "x"}, "json": {"src_path": "none"}},
        ),
        (
            403,
            "cannot write to protected branch",
            "protected",
            "POST",
            f"{PROTECTED}/objects",
            {"params": {"path": "x"}, "body": b"x"},
        ),
        (
            400,
            "uncommitted changes (dirty branch)",
            "dirty_branch",
            "POST",
            f"{REPO}/refs/left/merge/dirty",
            {},
        ),
        (
            409,
            "tag already exists: not unique",
            "not_unique",
            "POST",
            f"{REPO}/tags",
            {"json": {"id": "v1", "ref": BRANCH}},
        ),
        (
            409,
            "branch already exists: not unique",
            "not_unique",
            "POST",
            f"{REPO}/branches",
            {"json": {"name": "left", "source": BRANCH}},
        ),
        (
            409,
            "Already exists",
            "auth_already_exists",
            "POST",
            "/auth/users",
            {"json": {"id": "admin"}},
        ),
        (
            409,
            "error creating repository: not unique",
            "not_unique",
            "POST",
            "/repositories",
            {"json": {"name": REPOSITORY, "storage_namespace": "mem://lakes/elsewhere"}},
        ),
        (
            400,
            "failed to create repository: storage namespace already in use",
            "namespace_taken",
            "POST",
            "/repositories",
            {"json": {"name": "second", "storage_namespace": f"mem://lakes/{REPOSITORY}"}},
        ),
        (
            400,
            "invalid import source",
            "address_taken",
            "POST",
            f"{ON_BRANCH}/import",
            {
                "json": {
                    "paths": [
                        {
                            "path": f"mem://lakes/{REPOSITORY}/",
                            "type": "common_prefix",
                            "destination": "in/",
                        }
                    ],
                    "commit": {"message": "import"},
                }
            },
        ),
        (
            400,
            "commit: no changes",
            "no_changes",
            "POST",
            f"{REPO}/branches/left/commits",
            {"json": {"message": "again"}},
        ),
        (
            400,
            "update branch main: no changes",
            "no_changes",
            "POST",
            f"{REPO}/refs/{BRANCH}/merge/{BRANCH}",
            {},
        ),
        (
            409,
            "update branch: conflict found",
            "merge_conflict",
            "POST",
            f"{REPO}/refs/left/merge/right",
            {},
        ),
    ],
)
def test_messages_are_those_of_lakefs(
    world: Server,
    status: int,
    message: str,
    kind: str,
    method: str,
    path: str,
    options: dict[str, Any],
) -> None:
    answer = world.call(method, path, **options)
    assert answer.status_code == status, answer.text
    assert answer.json["message"] == message
    assert answer.json["kind"] == kind
    detail = answer.json["detail"]
    assert detail != message
    assert len(detail) > len("not found"), "the detail names what was wrong"
