"""Every operation, tried by someone without its permission, and by someone with just that one."""

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lakebed.auth import AuthNotFound, Effect, KeyPair, Statement
from lakebed.engine.model import RepositoryID
from lakebed.kv import Store
from lakebed.server.api.operations import ROUTES
from lakebed.server.api.routes import Access, Need, Route
from tests.server.kit import BRANCH, REPOSITORY, Server, server

GUARDED = [route for route in ROUTES if isinstance(route.needs, tuple)]
PATH = "folder/object"

PARTS = {
    "repository": REPOSITORY,
    "branch": BRANCH,
    "ref": BRANCH,
    "right_ref": BRANCH,
    "destination_branch": BRANCH,
    "tag": "v1",
    "user": "someone",
    "group": "Viewers",
    "policy": "FSReadAll",
    "access_key_id": "AKIAJSOMEONE",
    "kind": "range",
}
QUERIES = {
    "path": PATH,
    "dest_path": "folder/copy",
    "ref": BRANCH,
    "task_id": "unknown",
    "id": "unknown",
    "bare": "false",
}
STATEMENT = {"effect": "allow", "resource": "*", "action": ["fs:ReadObject"]}
NOTHING = Statement(effect=Effect.DENY, actions=("fs:Nothing",), resource="*")
BODIES: dict[str, Any] = {
    "createRepository": {"name": "another", "storage_namespace": "mem://lakes/another"},
    "setRepositoryMetadata": {"metadata": {"owner": "me"}},
    "deleteRepositoryMetadata": {"keys": ["owner"]},
    "setBranchProtectionRules": [{"pattern": "release-*"}],
    "internalCreateBranchProtectionRule": {"pattern": "release-*"},
    "internalDeleteBranchProtectionRule": {"pattern": "release-*"},
    "restoreRefs": dict.fromkeys(
        ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"), "none"
    ),
    "restoreSubmit": dict.fromkeys(
        ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id"), "none"
    ),
    "createBranch": {"name": "dev", "source": BRANCH},
    "resetBranch": {"type": "reset"},
    "revertBranch": {"ref": BRANCH, "parent_number": 0},
    "cherryPick": {"ref": BRANCH},
    "createTag": {"id": "v2", "ref": BRANCH},
    "commit": {"message": "a commit"},
    "mergeIntoBranch": {},
    "deleteObjects": {"paths": [PATH, "folder/other"]},
    "copyObject": {"src_path": PATH},
    "updateObjectUserMetadata": {"set": {"colour": "blue"}},
    "linkPhysicalAddress": {
        "staging": {"physical_address": "mem://lakes/lake/x"},
        "checksum": "0",
        "size_bytes": 1,
    },
    "stageObject": {
        "physical_address": "mem://elsewhere/x",
        "checksum": "0",
        "size_bytes": 1,
    },
    "prepareGarbageCollectionUncommitted": {},
    "createUser": {"id": "another"},
    "createGroup": {"id": "another"},
    "setGroupACL": {"permission": "Write"},
    "createPolicy": {"id": "another", "statement": [STATEMENT]},
    "updatePolicy": {"id": "FSReadAll", "statement": [STATEMENT]},
}


@pytest.fixture
def world() -> Iterator[Server]:
    with server() as found:
        found.put(PATH)
        commit = found.call(
            "POST", f"/repositories/{REPOSITORY}/branches/{BRANCH}/commits", json={"message": "m"}
        )
        assert commit.status_code == 201, commit.text
        found.put("folder/staged")
        found.services.engine.create_tag(RepositoryID(REPOSITORY), "v1", BRANCH)
        found.services.auth.users.create("someone")
        yield found


def filled(route: Route) -> str:
    """The path of an operation on things that are there, where they can be."""
    parts = {name: PARTS.get(name, "unknown") for name in route.parameters}
    return route.path.replace(":path}", "}").format(**parts)


def newcomer(world: Server) -> KeyPair:
    """The keys of a user who may do nothing."""
    world.services.auth.users.create("newcomer")
    made = world.services.auth.credentials.create("newcomer")
    return KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)


def allow(world: Server, statements: list[Statement]) -> None:
    """Let the newcomer do just this."""
    service = world.services.auth
    with suppress(AuthNotFound):
        service.policies.delete("just-this")
    service.policies.create("just-this", statements or [NOTHING])
    service.user_policies.add("newcomer", "just-this")


def request(route: Route) -> tuple[str, str, dict[str, Any]]:
    """A request to an operation that is well formed."""
    kwargs: dict[str, Any] = {}
    if route.query is not None:
        required = [each for each in msgspec.structs.fields(route.query) if each.required]
        kwargs["params"] = {each.encode_name: QUERIES[each.encode_name] for each in required}
    if route.body is not None:
        kwargs["json"] = BODIES[route.operation]
    if route.uploads:
        kwargs["body"] = b"data"
    return route.method, filled(route), kwargs


def everything(store: Store) -> list[tuple[bytes, bytes, bytes]]:
    """All that a store in memory holds."""
    partitions = store._inner._inner._partitions  # type: ignore[attr-defined]
    return [
        (name, key, entry.value)
        for name in sorted(partitions)
        for key, entry in partitions[name].items()
    ]


def test_every_operation_has_a_request() -> None:
    """Should one be added, this file must learn to call it."""
    for route in GUARDED:
        request(route)


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.operation)
def test_without_the_permission_nothing_happens(world: Server, route: Route) -> None:
    pair = newcomer(world)
    before = everything(world.services.store)
    method, path, kwargs = request(route)
    answer = world.call(method, path, pair=pair, **kwargs)
    assert answer.status_code == 401
    assert everything(world.services.store) == before


def resources(route: Route, need: Need, kwargs: dict[str, Any]) -> list[str]:
    """What the permission must be on: the template, filled by hand from the request."""
    body = SimpleNamespace(**kwargs["json"]) if isinstance(kwargs.get("json"), dict) else None
    params = kwargs.get("params", {})
    query = None if route.query is None else msgspec.convert(params, route.query, strict=False)
    parts = {name: PARTS.get(name, "unknown") for name in route.parameters}
    each = [""] if need.each is None else getattr(body, need.each)
    return [need.resource.format(**parts, query=query, body=body, each=value) for value in each]


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.operation)
def test_with_just_the_permission_it_goes_through(world: Server, route: Route) -> None:
    assert isinstance(route.needs, tuple)
    pair = newcomer(world)
    method, path, kwargs = request(route)
    statements = [
        Statement(effect=Effect.ALLOW, actions=(need.action,), resource=resource)
        for need in route.needs
        for resource in resources(route, need, kwargs)
    ]
    allow(world, statements)
    answer = world.call(method, path, pair=pair, **kwargs)
    assert answer.status_code not in {401, 500}, answer.text
    # Each of the permissions is needed.
    for missing in statements:
        allow(world, [each for each in statements if each != missing])
        assert world.call(method, path, pair=pair, **kwargs).status_code == 401


def test_who_is_not_signed_in_gets_nowhere(world: Server) -> None:
    for route in ROUTES:
        if route.needs is Access.ANYONE:
            continue
        answer = world.call(route.method, filled(route), pair=None)
        assert answer.status_code == 401, route.operation
