"""Every operation, tried by someone without its permission, and by someone with just that one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
import pytest

from lakebed.auth import AuthNotFound, Effect, KeyPair, Statement
from lakebed.engine.model import RepositoryID
from lakebed.kv import Store
from lakebed.server.api.operations import ROUTES
from lakebed.server.api.operations.commits import SKIP_HOOKS
from lakebed.server.api.routes import Access, Need, Route
from tests.server.kit import BRANCH, REPOSITORY, Server, server
from tests.server.operations import PARTS, PATH, filled, request

GUARDED = [route for route in ROUTES if isinstance(route.needs, tuple)]
NOTHING = Statement(effect=Effect.DENY, actions=("fs:Nothing",), resource="*")


@contextmanager
def new_world() -> Iterator[Server]:
    with server() as found:
        found.put(PATH)
        commit = found.call(
            "POST", f"/repositories/{REPOSITORY}/branches/{BRANCH}/commits", json={"message": "m"}
        )
        assert commit.status_code == 201, commit.text
        found.put("folder/staged")
        found.services.catalog.ref_changes.create_tag(RepositoryID(REPOSITORY), "v1", BRANCH)
        found.services.auth.users.create("someone")
        yield found


@pytest.fixture
def world() -> Iterator[Server]:
    with new_world() as found:
        yield found


@pytest.fixture(scope="module")
def refused() -> Iterator[tuple[Server, KeyPair]]:
    """A world, and the keys of a user who may do nothing: one for all that changes nothing."""
    with new_world() as found:
        yield found, newcomer(found)


@pytest.fixture(scope="module")
def read_only() -> Iterator[tuple[Server, KeyPair]]:
    """The same, for those who may read something."""
    with new_world() as found:
        yield found, newcomer(found)


@pytest.fixture
def tried(request: pytest.FixtureRequest, route: Route) -> tuple[Server, KeyPair]:
    """A world to try a route in, and keys: a new one for each route that changes something."""
    if route.method in {"GET", "HEAD"}:
        shared: tuple[Server, KeyPair] = request.getfixturevalue("read_only")
        return shared
    world = request.getfixturevalue("world")
    return world, newcomer(world)


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


def everything(store: Store) -> list[tuple[bytes, bytes, bytes]]:
    """All that a store holds."""
    return [
        (name, item.key, item.value)
        for name in sorted(store.partitions())
        for item in store.scan(name)
    ]


def test_every_operation_has_a_request() -> None:
    """Should one be added, this file must learn to call it."""
    for route in GUARDED:
        request(route)


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.operation)
def test_without_the_permission_nothing_happens(
    refused: tuple[Server, KeyPair], route: Route
) -> None:
    world, pair = refused
    before = everything(world.services.foundation.store)
    method, path, kwargs = request(route)
    answer = world.call(method, path, pair=pair, **kwargs)
    assert answer.status_code == 401
    assert everything(world.services.foundation.store) == before


def resources(route: Route, need: Need, kwargs: dict[str, Any]) -> list[str]:
    """What the permission must be on: the template, filled by hand from the request."""
    given = kwargs.get("json")
    body = None if given is None else msgspec.convert(given, route.body)
    params = kwargs.get("params", {})
    query = None if route.query is None else msgspec.convert(params, route.query, strict=False)
    parts = {name: PARTS.get(name, "unknown") for name in route.parameters}
    each = [""] if need.each is None else need.each(body)
    return [need.resource.format(**parts, query=query, body=body, each=value) for value in each]


@pytest.mark.slow
@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.operation)
def test_with_just_the_permission_it_goes_through(
    tried: tuple[Server, KeyPair], route: Route
) -> None:
    assert isinstance(route.needs, tuple)
    world, pair = tried
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


def test_hooks_are_skipped_with_a_permission_only() -> None:
    """A request that skips them with it, and one without, are in `test_actions`."""
    skipping = [
        route
        for route in ROUTES
        if route.query is not None
        and "skip_hooks" in {field.name for field in msgspec.structs.fields(route.query)}
    ]
    assert len(skipping) == 8
    assert [
        route.operation
        for route in skipping
        if not isinstance(route.needs, tuple) or SKIP_HOOKS not in route.needs
    ] == []


def test_users_can_ask_what_they_may(world: Server) -> None:
    pair = newcomer(world)
    of_main, of_dev = (f"arn:lakefs:fs:::repository/{REPOSITORY}/branch/{b}" for b in ("main", "d"))
    allow(
        world,
        [
            Statement(effect=Effect.ALLOW, actions=("fs:*",), resource=of_main),
            Statement(effect=Effect.DENY, actions=("fs:DeleteBranch",), resource="*"),
        ],
    )
    asked = [
        f"fs:CreateCommit {of_main}",
        f"fs:DeleteBranch {of_main}",
        f"fs:CreateCommit {of_dev}",
    ]
    answer = world.call("GET", "/user", params={"may": asked}, params_csv=False, pair=pair)
    assert (answer.json["user"]["id"], answer.json["denied"]) == ("newcomer", asked[1:])
    assert "denied" not in world.call("GET", "/user", pair=pair).json
    for wrong in (["fs:CreateCommit"], asked[:1] * 51):
        refused = world.call("GET", "/user", params={"may": wrong}, params_csv=False, pair=pair)
        assert refused.status_code == 400


def test_unauthenticated_requests_are_refused(world: Server) -> None:
    for route in ROUTES:
        if route.needs is Access.ANYONE:
            continue
        answer = world.call(route.method, filled(route), pair=None)
        assert answer.status_code == 401, route.operation
