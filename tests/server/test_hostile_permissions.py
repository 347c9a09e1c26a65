"""Ways around permissions: each was open once."""

from collections.abc import Iterator
from typing import Final

import pytest

from lakebed.auth import Effect, KeyPair, Statement
from lakebed.server.services import Services
from tests.server.kit import ADMIN, BRANCH, REPOSITORY, Server, server

ON_BRANCH: Final = f"/repositories/{REPOSITORY}/branches/{BRANCH}"
LIST: Final = f"/repositories/{REPOSITORY}/refs/{BRANCH}/objects/ls"


@pytest.fixture(scope="module")
def world() -> Iterator[Server]:
    with server() as found:
        yield found


def allow(*actions: str, resource: str = "*") -> Statement:
    return Statement(effect=Effect.ALLOW, actions=actions, resource=resource)


def deny(*actions: str, resource: str) -> Statement:
    return Statement(effect=Effect.DENY, actions=actions, resource=resource)


def user(services: Services, name: str, *statements: Statement) -> KeyPair:
    """The keys of a new user with just these rules."""
    service = services.auth
    service.users.create(name)
    service.policies.create(name, statements)
    service.user_policies.add(name, name)
    made = service.credentials.create(name)
    return KeyPair(access_key_id=made.access_key_id, secret_access_key=made.secret_access_key)


# Presigned URLs


def listed(world: Server, pair: KeyPair) -> dict[str, str]:
    """Where a listing with presigned URLs says that objects are."""
    answer = world.call("GET", LIST, pair=pair, params={"presign": "true", "prefix": "listed/"})
    assert answer.status_code == 200, answer.text
    for each in answer.json["results"]:
        is_url = each["physical_address"].startswith("http")
        assert ("physical_address_expiry" in each) is is_url, each
    return {each["path"]: each["physical_address"] for each in answer.json["results"]}


def test_a_listing_has_urls_only_of_what_the_caller_may_read(world: Server) -> None:
    for name in ("listed/open", "listed/secret"):
        world.put(name)
    secret = f"arn:lakefs:fs:::repository/{REPOSITORY}/object/listed/secret"
    lister = user(world.services, "lister", allow("fs:ListObjects"))
    reader = user(world.services, "reader", allow("fs:*"), deny("fs:ReadObject", resource=secret))
    plain = world.call("GET", LIST, params={"prefix": "listed/"}).json["results"]
    addresses = {each["path"]: each["physical_address"] for each in plain}
    assert listed(world, lister) == addresses
    seen = listed(world, reader)
    assert seen["listed/secret"] == addresses["listed/secret"]
    assert seen["listed/open"].startswith("http")
    assert all(url.startswith("http") for url in listed(world, ADMIN).values())
