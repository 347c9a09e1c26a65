"""On whose behalf a request is carried out, by each entry point."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lakebed.base.actor import Actor, EntryPoint, current_actor
from lakebed.engine.model import RepositoryID
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.objects import Objects
from lakebed.server.app import build_api
from lakebed.server.hook_calls import HookCalls
from tests.server.kit import ADMIN, REPOSITORY, Server, server
from tests.server.s3.gateway_client import GatewayClient

PATH = f"/repositories/{REPOSITORY}/refs/main/objects/stat"
SENT = {"X-Request-ID": "id-1"}


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as made:
        made.put("a")
        yield made


@pytest.fixture
def seen(world: Server, monkeypatch: pytest.MonkeyPatch) -> list[Actor]:
    """The actors on whose behalf objects are read and deleted."""
    found: list[Actor] = []

    def watch(name: str) -> None:
        method = getattr(Objects, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            found.append(current_actor())
            return method(*args, **kwargs)

        monkeypatch.setattr(Objects, name, watched)

    for name in ("stat", "delete"):
        watch(name)
    return found


@pytest.fixture
def admin(world: Server) -> Actor:
    return Actor(
        user="admin",
        unique_id=world.services.auth.users.get("admin").unique_id,
        groups=("Admins",),
        access_key_id=ADMIN.access_key_id,
        address="unknown",
        request_id="id-1",
        entry_point=EntryPoint.API,
    )


def test_a_request_by_the_api(world: Server, seen: list[Actor], admin: Actor) -> None:
    answer = world.call("GET", PATH, params={"path": "a"}, headers=SENT)
    assert answer.status_code == 200, answer.text
    assert seen == [admin]
    assert current_actor() == Actor()


def test_a_request_with_a_token(world: Server, seen: list[Actor], admin: Actor) -> None:
    body = {"access_key_id": ADMIN.access_key_id, "secret_access_key": ADMIN.secret_access_key}
    token = world.call("POST", "/auth/login", pair=None, json=body).json["token"]
    headers = {**SENT, "Authorization": f"Bearer {token}"}
    answer = world.call("GET", PATH, pair=None, params={"path": "a"}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert seen == [replace(admin, access_key_id="")]


def test_a_request_that_is_forced(world: Server, seen: list[Actor], admin: Actor) -> None:
    objects = f"/repositories/{REPOSITORY}/branches/main/objects"
    for force in ("true", "false"):
        params = {"path": "never", "force": force}
        assert world.call("DELETE", objects, params=params, headers=SENT).status_code == 204
    assert seen == [replace(admin, force=True), admin]


def test_a_request_by_s3(world: Server, seen: list[Actor], admin: Actor) -> None:
    gateway_client = GatewayClient(world.services)
    answer = gateway_client.ask("DELETE", f"/{REPOSITORY}/main/never", headers=SENT)
    assert answer.status == 204, answer.body
    assert seen == [replace(admin, entry_point=EntryPoint.S3)]


def test_a_call_of_a_hook(world: Server, seen: list[Actor], admin: Actor) -> None:
    calls = HookCalls()
    calls.attach(world.services, lambda: build_api(world.services))
    repository = world.services.catalog.repositories.get(RepositoryID(REPOSITORY))
    event = HookEvent(
        event_type=EventType.PRE_COMMIT,
        run_id="run",
        event_time=datetime.now(UTC),
        repository_id=REPOSITORY,
        repository_uid=repository.unique_id,
        storage_namespace=str(repository.namespace),
        source_ref="main",
        username="admin",
    )
    at = {"repository": REPOSITORY, "reference": "main", "path": "a"}
    assert calls.caller(event).call("stat_object", at)[0] == 200
    (actor,) = seen
    by_hook = replace(admin, entry_point=EntryPoint.HOOK, access_key_id="", hook_depth=1)
    assert replace(actor, request_id="id-1") == by_hook
