"""Ways around permissions: each was open once."""

import base64
import hashlib
from collections.abc import Iterator
from typing import Final

import pytest
from falcon.testing import Result
from hypothesis import given
from hypothesis import strategies as st

from lakebed.auth import Context, Effect, KeyPair, Policy, PolicyID, Statement, UniqueID
from lakebed.auth.policy.rules import Rules
from lakebed.auth.secrets import KEY_FAILURES, KEY_SECONDS
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.lake.model import METADATA_NAMES_MAX
from lakebed.lake.places import parse_namespace
from lakebed.reclaim.cleaner import Cleaner
from lakebed.server.api.dispatch import permissions
from lakebed.server.api.operations import ROUTES
from lakebed.server.s3.metadata import metadata_headers
from lakebed.server.services import Services
from lakebed.wire.objects import PathQuery
from lakebed.wire.repositories import RepositoryCreation
from lakebed.wire.staging import ObjectStageCreation
from tests.server.kit import ADMIN, BRANCH, REPOSITORY, Server, server
from tests.server.s3.gateway_client import GatewayClient

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


# Places in the storage

BY_NAME: Final = {route.operation: route for route in ROUTES}
AZURE: Final = "https://lake.blob.core.windows.net"
PLACES: Final = ("local://finance", "local://finance/x", "s3://finance/2024/q1", f"{AZURE}/fin/x")
PATTERNS: Final = (
    "*://finance*",
    "local://finance*",
    "LOCAL://finance/*",
    "local://finance/",
    "Local://finance",
    "s3*",
    "S3://finance/*/q1/",
    "HTTPS://Lake.Blob.core.windows.net:443/fin/*",
    f"{AZURE}*",
    "*",
)


def spellings(place: str) -> st.SearchStrategy[str]:
    """Texts that mean the same place."""
    scheme, _, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    hosts = st.just(host)
    if scheme == "https":
        hosts = st.builds(str.__add__, st.sampled_from([host, host.upper()]), ports())
    schemes = st.sampled_from([scheme, scheme.upper(), scheme.title()])
    return st.builds(
        "{}://{}{}{}{}".format,
        schemes,
        hosts,
        st.just(slash),
        st.just(path),
        st.sampled_from(["", "/"]),
    )


def ports() -> st.SearchStrategy[str]:
    return st.sampled_from(["", ":443"])


def is_granted(rules: Rules, operation: str, body: object) -> bool:
    """Whether policies let a request with this body through."""
    asked = permissions(
        BY_NAME[operation], {"repository": "r"}, {"query": PathQuery(path="p"), "body": body}
    )
    unknown = Context(source_ip=None)
    return all(rules.resource_filter(each.action, unknown)(each.resource) for each in asked)


@given(st.data())
def test_two_spellings_of_a_place_are_allowed_alike(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(PLACES))
    pattern = "arn:lakefs:fs:::namespace/" + data.draw(st.sampled_from(PATTERNS))
    statements = data.draw(
        st.sampled_from(
            [
                (
                    allow("*"),
                    deny("fs:AttachStorageNamespace", "fs:ImportFromStorage", resource=pattern),
                ),
                (allow("fs:CreateRepository", "fs:WriteObject"), allow("fs:*", resource=pattern)),
            ]
        )
    )
    policy = Policy(id=PolicyID("p"), unique_id=UniqueID("u"), created_us=0, statements=statements)
    rules = Rules([policy], "someone")
    other = data.draw(spellings(place))
    assert may_create(rules, other) is may_create(rules, place)
    # An object whose name ends in a slash is another one.
    if place.count("/") > 2 and not other.endswith("/"):
        assert may_stage(rules, other) is may_stage(rules, place)


def may_create(rules: Rules, place: str) -> bool:
    body = RepositoryCreation(name="r", storage_namespace=place)
    return is_granted(rules, "createRepository", body)


def may_stage(rules: Rules, place: str) -> bool:
    body = ObjectStageCreation(physical_address=place, checksum="0", size_bytes=1)
    return is_granted(rules, "stageObject", body)


@pytest.mark.parametrize(
    "namespace", ["MEM://finance/x", "Mem://finance", "mem://finance/", "mem://finance/x/"]
)
def test_a_denied_place_is_denied_in_every_spelling(world: Server, namespace: str) -> None:
    name = f"spelling-{namespace.encode().hex()}"
    pattern = "arn:lakefs:fs:::namespace/mem://finance*"
    creator = user(world.services, name, allow("*"), deny("fs:*", resource=pattern))
    body = {"name": name, "storage_namespace": namespace}
    answer = world.call("POST", "/repositories", pair=creator, json=body)
    assert answer.status_code == 401, answer.text
    assert "namespace/mem://finance" in answer.json["detail"]
    assert not [each for each in world.services.catalog.repositories.list() if each.id == name]


@pytest.mark.parametrize("place", ["mem://open/../finance/x", "mem://open/./x", "mem://open/.."])
def test_a_place_with_dots_is_refused(world: Server, place: str) -> None:
    body = {"name": "dots", "storage_namespace": place}
    answer = world.call("POST", "/repositories", json=body)
    assert answer.status_code == 400
    assert "'.' or '..'" in answer.json["message"]
    assert stage(world, place).status_code == 400


# Staging what is in the storage


def stage(world: Server, address: str, pair: KeyPair = ADMIN) -> Result:
    body = {"physical_address": address, "checksum": "0", "size_bytes": 4}
    return world.call(
        "PUT", f"{ON_BRANCH}/objects", pair=pair, params={"path": "staged"}, json=body
    )


def test_staging_needs_a_permission_on_the_address(world: Server) -> None:
    writer = user(world.services, "writer", allow("fs:WriteObject", "fs:ReadObject"))
    refused = stage(world, "MEM://elsewhere/x", writer)
    assert refused.status_code == 401
    needed = "fs:ImportFromStorage on arn:lakefs:fs:::namespace/mem://elsewhere/x"
    assert needed in refused.json["detail"]
    importer = user(
        world.services,
        "importer",
        allow("fs:WriteObject"),
        allow("fs:ImportFromStorage", resource="arn:lakefs:fs:::namespace/mem://elsewhere/*"),
    )
    assert stage(world, "mem://elsewhere/x", importer).status_code == 201
    assert stage(world, "mem://other/x", importer).status_code == 401


def test_only_admins_and_super_users_may_import_at_first(world: Server) -> None:
    service = world.services.auth
    may = set()
    for group in ("Admins", "SuperUsers", "Developers", "Viewers"):
        pair = user(world.services, f"one-of-{group}", deny("fs:Nothing", resource="*"))
        service.memberships.add(f"one-of-{group}", group)
        if stage(world, "mem://elsewhere/x", pair).status_code == 201:
            may.add(group)
    assert may == {"Admins", "SuperUsers"}


def test_objects_of_a_deleted_repository_stay_closed(world: Server) -> None:
    repositories = world.services.catalog.repositories
    gone = repositories.create("gone", parse_namespace("mem://lakes/gone"), committer="admin")
    assert stage(world, "mem://lakes/gone/data/x").json["kind"] == "address_taken"
    repositories.delete(gone.id)
    Cleaner(world.services.foundation.store, world.services.runtime, grace_seconds=0).run_once()
    refused = stage(world, "mem://lakes/gone/data/x")
    assert refused.status_code == 400
    assert refused.json["kind"] == "address_closed"
    assert stage(world, "mem://lakes/gone-2/x").status_code == 201
    # A creation that failed leaves nothing, and closes nothing.
    body = {"name": "greedy", "storage_namespace": "mem://lakes"}
    assert world.call("POST", "/repositories", json=body).status_code == 400
    assert stage(world, "mem://lakes/gone-2/x").status_code == 201
    # The place itself can be used again.
    repositories.create("again", parse_namespace("mem://lakes/gone"), committer="admin")


# Protected branches


@pytest.fixture
def release(world: Server) -> Iterator[str]:
    """The path of a branch with a commit of its own."""
    refs = world.services.catalog.ref_changes
    refs.create_branch(RepositoryID(REPOSITORY), "release", BRANCH)
    world.put("released", branch="release")
    path = f"/repositories/{REPOSITORY}/branches/release"
    assert world.call("POST", f"{path}/commits", json={"message": "m"}).status_code == 201
    yield path
    world.services.catalog.refs.set_protection(RepositoryID(REPOSITORY), [])
    refs.delete_branch(RepositoryID(REPOSITORY), BranchID("release"))


def protect(world: Server, *rules: dict[str, object]) -> None:
    path = f"/repositories/{REPOSITORY}/settings/branch_protection"
    answer = world.call("PUT", path, json=list(rules))
    assert answer.status_code == 204, answer.text


def rules_of(world: Server) -> list[dict[str, object]]:
    path = f"/repositories/{REPOSITORY}/settings/branch_protection"
    rules: list[dict[str, object]] = world.call("GET", path).json
    return rules


def test_a_protected_branch_is_not_deleted(world: Server, release: str) -> None:
    protect(world, {"pattern": "rel*"})
    refused = world.call("DELETE", release)
    assert refused.status_code == 403, refused.text
    assert "branch release is protected (rule 'rel*')" in refused.json["detail"]
    assert world.call("GET", release).status_code == 200


def test_a_strict_rule_lets_only_merges_through(world: Server, release: str) -> None:
    def revert() -> int:
        body = {"ref": "release", "parent_number": 0}
        return world.call("POST", f"{release}/revert", json=body).status_code

    def cherry_pick() -> int:
        body = {"ref": "release~1"}
        return world.call("POST", f"{release}/cherry-pick", json=body).status_code

    protect(world, {"pattern": "release"})
    assert revert() == 204
    assert cherry_pick() == 201
    protect(world, {"pattern": "release", "strict": True})
    assert (revert(), cherry_pick()) == (403, 403)
    world.put("to-merge")
    world.call("POST", f"{ON_BRANCH}/commits", json={"message": "m"})
    merged = world.call("POST", f"/repositories/{REPOSITORY}/refs/{BRANCH}/merge/release", json={})
    assert merged.status_code == 200, merged.text


def test_a_client_that_knows_only_patterns_does_not_take_strictness_away(world: Server) -> None:
    strict = {"pattern": "a", "strict": True}
    protect(world, strict, {"pattern": "b"})
    assert rules_of(world) == [strict, {"pattern": "b"}]
    protect(world, {"pattern": "a"}, {"pattern": "c"})
    assert rules_of(world) == [strict, {"pattern": "c"}]
    protect(world, {"pattern": "a", "strict": False})
    assert rules_of(world) == [{"pattern": "a"}]
    protect(world)
    protect(world, {"pattern": "a"})
    assert rules_of(world) == [{"pattern": "a"}]
    protect(world)


# Logins


def log_in(world: Server, key: str, secret: str, address: str = "127.0.0.1") -> Result:
    body = {"access_key_id": key, "secret_access_key": secret}
    return world.call("POST", "/auth/login", pair=None, json=body, extras={"REMOTE_ADDR": address})


@pytest.mark.parametrize("way", ["by the API", "by the page"])
def test_a_token_ends_with_its_logout(world: Server, way: str) -> None:
    token = log_in(world, ADMIN.access_key_id, ADMIN.secret_access_key).json["token"]
    other = log_in(world, ADMIN.access_key_id, ADMIN.secret_access_key).json["token"]
    cookie = {"Cookie": f"internal_auth_session={token}"}
    bearer = {"Authorization": f"Bearer {token}"}
    for headers in (cookie, bearer):
        assert world.call("GET", "/user", pair=None, headers=headers).status_code == 200
    if way == "by the API":
        answer = world.call("POST", "/auth/logout", pair=None, headers=bearer)
        assert answer.status_code == 204
    else:
        answer = world.request("GET", "/logout", headers=cookie)
        assert answer.status_code == 303
    assert "internal_auth_session=;" in answer.headers["set-cookie"].replace('""', "")
    for headers in (cookie, bearer):
        assert world.call("GET", "/user", pair=None, headers=headers).status_code == 401
    still = {"Authorization": f"Bearer {other}"}
    assert world.call("GET", "/user", pair=None, headers=still).status_code == 200
    # Without a token there is nothing to end.
    assert world.call("POST", "/auth/logout", pair=None).status_code == 204


def test_a_token_ends_with_its_key(world: Server) -> None:
    keys = user(world.services, "leaver", allow("fs:*"))
    token = log_in(world, keys.access_key_id, keys.secret_access_key).json["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert world.call("GET", "/user", pair=None, headers=headers).status_code == 200
    world.call("DELETE", f"/auth/users/leaver/credentials/{keys.access_key_id}")
    assert world.call("GET", "/user", pair=None, headers=headers).status_code == 401


def test_wrong_logins_are_throttled_for_whoever_makes_them(world: Server) -> None:
    keys = user(world.services, "victim", allow("fs:*"))
    attacker, owner = "203.0.113.7", "203.0.113.8"
    answers = [log_in(world, keys.access_key_id, "wrong", attacker) for _ in range(20)]
    statuses = [answer.status_code for answer in answers]
    assert statuses == [401] * KEY_FAILURES + [429] * (20 - KEY_FAILURES)
    assert 1 <= int(answers[-1].headers["retry-after"]) <= KEY_SECONDS
    assert answers[-1].json["kind"] == "too_many_logins"
    # By a key pair in each request, it is the same bucket; even the right secret must wait.
    extras = {"REMOTE_ADDR": attacker}
    assert world.call("GET", "/user", pair=keys, extras=extras).status_code == 429
    # The owner is elsewhere.
    assert log_in(world, keys.access_key_id, keys.secret_access_key, owner).status_code == 200
    assert world.call("GET", "/user", pair=keys, extras={"REMOTE_ADDR": owner}).status_code == 200


def test_wrong_keys_do_not_lock_out_others_behind_the_same_address(world: Server) -> None:
    proxy = "203.0.113.9"
    carol = user(world.services, "carol", allow("fs:*"))
    victim = user(world.services, "known", allow("fs:*"))
    for number in range(300):
        assert log_in(world, f"AKIAINVENTED{number}", "wrong", proxy).status_code == 401
    for _ in range(KEY_FAILURES + 1):
        last = log_in(world, victim.access_key_id, "wrong", proxy)
    assert last.status_code == 429
    # This process has not seen carol before, as after a restart.
    assert log_in(world, carol.access_key_id, carol.secret_access_key, proxy).status_code == 200
    assert world.call("GET", "/user", pair=carol, extras={"REMOTE_ADDR": proxy}).status_code == 200


# Input that is too large, or too deep


def deep(amount: int = 8_000) -> bytes:
    """Deeper than Python goes down, and small enough for every route."""
    return b'{"x":' + b"[" * amount + b"]" * amount + b"}"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/setup_comm_prefs"),
        ("POST", "/auth/login"),
        ("POST", "/auth/policies"),
        ("POST", f"{ON_BRANCH}/commits"),
    ],
)
def test_deep_json_is_refused(world: Server, method: str, path: str) -> None:
    headers = {"Content-Type": "application/json"}
    answer = world.call(method, path, body=deep(), headers=headers)
    assert answer.status_code == 400, answer.text
    assert answer.json["kind"] == "bad_request"


def test_the_metadata_of_an_object_is_bounded(world: Server) -> None:
    world.put("labelled")

    def label(metadata: dict[str, str]) -> Result:
        return world.call(
            "PUT",
            f"{ON_BRANCH}/objects/stat/user_metadata",
            params={"path": "labelled"},
            json={"set": metadata},
        )

    assert label({"a": "x" * 8000}).status_code == 204
    refused = label({"a": "x" * 9000})
    assert refused.status_code == 400
    assert "has 9001 bytes of names and values; at most 8192 are allowed" in refused.text
    assert label({f"n{number}": "" for number in range(65)}).status_code == 400
    staged = {
        "physical_address": "mem://elsewhere/x",
        "checksum": "0",
        "size_bytes": 4,
        "metadata": {"a": "x" * 9000},
    }
    for change in (
        {},
        {"metadata": {}, "checksum": "x" * 2000},
        {"metadata": {}, "checksum": "a\nb"},
    ):
        answer = world.call(
            "PUT", f"{ON_BRANCH}/objects", params={"path": "labelled"}, json=staged | change
        )
        assert answer.status_code == 400, answer.text
        assert answer.json["kind"] == "invalid_metadata"
    kept = world.call(
        "GET", f"/repositories/{REPOSITORY}/refs/{BRANCH}/objects/stat", params={"path": "labelled"}
    )
    assert kept.json["metadata"] == {"a": "x" * 8000}


def test_an_object_with_too_much_metadata_can_be_read_by_s3() -> None:
    """It may be older than the bound."""
    headers = metadata_headers({"a": "small", "b": "x" * 5_000_000})
    assert headers == {"x-amz-meta-a": "small", "x-amz-missing-meta": "1"}
    many = metadata_headers({f"n{number}": "v" for number in range(1000)})
    assert len(many) == METADATA_NAMES_MAX + 1
    assert many["x-amz-missing-meta"] == str(1000 - METADATA_NAMES_MAX)


def test_deleting_many_objects_does_not_tell_whether_a_repository_exists(world: Server) -> None:
    gate = GatewayClient(world.services)
    stranger = user(world.services, "stranger", allow("fs:ListRepositories"))
    body = b"<Delete><Object><Key>main/x</Key></Object></Delete>"
    md5 = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    answers = [
        gate.ask("POST", f"/{name}?delete", body, pair=stranger, headers={"content-md5": md5})
        for name in (REPOSITORY, "nothing")
    ]
    assert [answer.status for answer in answers] == [200, 200]
    assert b"AccessDenied" in answers[0].body
    there, not_implemented = (answer.body.replace(b"nothing", b"lake") for answer in answers)
    assert there == not_implemented
    # Who may delete there, may know.
    missing = gate.ask("POST", "/nothing?delete", body, headers={"content-md5": md5})
    assert missing.code == "NoSuchBucket"
