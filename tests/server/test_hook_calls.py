"""What hooks may ask of the server, and as whom."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from lakebed.engine.model import RepositoryID
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.server.app import build_api
from lakebed.server.hook_calls import HookCalls
from tests.server.kit import REPOSITORY, Server, server


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as made:
        made.put("folder/object", b"content")
        yield made


@pytest.fixture
def calls(world: Server) -> HookCalls:
    made = HookCalls()
    made.attach(world.services, lambda: build_api(world.services))
    return made


@pytest.fixture
def event(world: Server) -> HookEvent:
    repository = world.services.catalog.repositories.get(RepositoryID(REPOSITORY))
    return HookEvent(
        event_type=EventType.PRE_COMMIT,
        run_id="run",
        event_time=datetime.now(UTC),
        repository_id=REPOSITORY,
        repository_uid=repository.unique_id,
        storage_namespace=str(repository.namespace),
        source_ref="main",
        username="admin",
    )


def test_an_object_is_bytes_and_the_rest_is_json(calls: HookCalls, event: HookEvent) -> None:
    caller = calls.caller(event)
    at = {"repository": REPOSITORY, "reference": "main"}
    assert caller.call("get_object", {**at, "path": "folder/object"}) == (200, b"content")
    status, stats = caller.call("stat_object", {**at, "path": "folder/object"})
    assert (status, stats["size_bytes"]) == (200, 7)
    status, page = caller.call("list_objects", {**at, "prefix": "fol", "amount": 1})
    assert [item["path"] for item in page["results"]] == ["folder/object"]
    status, error = caller.call("get_object", {**at, "path": "none"})
    assert status == 404
    assert error["message"]
    metadata = {"path": "folder/object", "metadata": {"k": "v"}}
    on_branch = {"repository": REPOSITORY, "branch": "main"}
    status, _ = caller.call("update_object_user_metadata", {**on_branch, **metadata})
    assert status == 204
    status, stats = caller.call("stat_object", {**at, "path": "folder/object"})
    assert stats["metadata"] == {"k": "v"}
    refs = {"repository": REPOSITORY, "left": "main", "right": "main"}
    assert caller.call("diff_refs", refs)[0] == 200


def test_another_repository_of_that_name_is_not_found(calls: HookCalls, event: HookEvent) -> None:
    caller = calls.caller(replace(event, repository_uid="another"))
    listing = {"repository": REPOSITORY, "reference": "main"}
    assert caller.call("list_objects", listing)[0] == 404
    assert calls.caller(event).call("list_objects", listing)[0] == 200


def test_invalid_requests_have_a_status(calls: HookCalls, event: HookEvent) -> None:
    caller = calls.caller(event)
    assert caller.call("nothing", {"repository": REPOSITORY})[0] == 400
    assert caller.call("stat_object", {"repository": REPOSITORY})[0] == 400
    gone = calls.caller(replace(event, username="nobody"))
    assert gone.call("list_objects", {"repository": REPOSITORY, "reference": "main"})[0] == 404
