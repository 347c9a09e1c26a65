"""Who is it, and may it? On the stores that need no server."""

import json
import re

import pytest

from lakebed.auth import (
    Action,
    AlreadyExists,
    AlreadySetUp,
    AuthenticationFailed,
    AuthInvalid,
    AuthNotFound,
    AuthService,
    Context,
    CredentialNotFound,
    Denied,
    Effect,
    InvalidPolicy,
    KeyPair,
    Permission,
    PolicyNotFound,
    ServerKeys,
    Statement,
)
from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import AUTH, CREDENTIALS, POLICIES
from lakebed.auth.policy.actions import user_arn
from lakebed.kv import CorruptRecord, Store
from lakebed.kv.records import Records
from tests.auth.kit import NO_ADDRESS, QUICKSTART, READ, WRITE, allow, deny, equip, may, service

# Setup


def test_an_installation_is_set_up_once(auth: AuthService) -> None:
    assert not auth.is_set_up()
    new = auth.setup("admin", QUICKSTART, email="admin@example.com")
    assert auth.is_set_up()
    assert (new.access_key_id, new.secret_access_key) == (
        QUICKSTART.access_key_id,
        QUICKSTART.secret_access_key,
    )
    identity = auth.authenticate(new.access_key_id, new.secret_access_key)
    assert (identity.user_id, identity.committer) == ("admin", "admin@example.com")
    for action in Action:
        auth.authorize(identity, NO_ADDRESS, Permission(action, "*"))
    with pytest.raises(AlreadySetUp):
        auth.setup("mallory")
    assert [user.id for user in auth.users.list().items] == ["admin"]


def test_groups_and_policies_are_there_from_the_start(auth: AuthService) -> None:
    auth.setup("admin")
    groups = [group.id for group in auth.groups.list().items]
    assert groups == ["Admins", "Developers", "SuperUsers", "Viewers"]
    assert [policy.id for policy in auth.policies.list().items] == [
        "AuthFullAccess",
        "AuthManageOwnCredentials",
        "CatalogReadAll",
        "CatalogReadWriteAll",
        "FSFullAccess",
        "FSReadAll",
        "FSReadWriteAll",
        "PRReadWriteAll",
        "RepoManagementFullAccess",
        "RepoManagementReadAll",
    ]


@pytest.mark.parametrize(
    ("user", "given"),
    [
        ("a/b", None),
        ("", None),
        ("admin", KeyPair(access_key_id="no spaces", secret_access_key="long enough")),
        ("admin", KeyPair(access_key_id="AKIA", secret_access_key="short")),
        ("admin", KeyPair(access_key_id="AKIA", secret_access_key="ä" * 20)),
    ],
)
def test_a_setup_that_makes_no_sense_does_nothing(
    auth: AuthService, store: Store, user: str, given: KeyPair | None
) -> None:
    with pytest.raises(AuthInvalid):
        auth.setup(user, given)
    assert list(store.scan(AUTH)) == []


# Who makes a request?


def test_a_wrong_secret_and_an_unknown_key_are_the_same_error(auth: AuthService) -> None:
    new = auth.setup("admin")
    answers = set()
    for key, secret in (
        (new.access_key_id, "wrong"),
        (new.access_key_id, new.secret_access_key + "x"),
        (new.access_key_id, new.secret_access_key.upper()),
        (new.access_key_id, ""),
        (new.access_key_id, "\ud800 ü"),
        ("AKIAJUNKNOWNUNKNOWNQ", new.secret_access_key),
        ("", new.secret_access_key),
        ("a/b\x00c\ud800", new.secret_access_key),
        ("A" * 100_000, new.secret_access_key),
        (new.access_key_id.lower(), new.secret_access_key),
    ):
        with pytest.raises(AuthenticationFailed) as error:
            auth.authenticate(key, secret)
        answers.add((type(error.value), str(error.value)))
        with pytest.raises(AuthenticationFailed):
            auth.login(key, secret)
    assert answers == {(AuthenticationFailed, str(AuthenticationFailed()))}


def test_failures_of_unknown_keys_have_room_of_their_own(auth: AuthService) -> None:
    """Else invented keys would push out the failures of a key that exists."""
    key = auth.setup("admin").access_key_id
    for tried in (key, "AKIAJINVENTED"):
        with pytest.raises(AuthenticationFailed):
            auth.authenticate(tried, "wrong", client="10.0.0.1")
    throttle = auth._throttle
    assert [len(buckets) for buckets in (throttle._known, throttle._unknown)] == [1, 1]
    assert throttle._known.get((key, "10.0.0.1")) is not None


def test_keys_look_as_clients_expect(auth: AuthService) -> None:
    auth.users.create("jane")
    new = auth.credentials.create("jane")
    assert re.fullmatch("AKIAJ[A-Z2-7]{14}Q", new.access_key_id)
    assert re.fullmatch("[A-Za-z0-9+/]{40}", new.secret_access_key)
    assert new.secret_access_key not in repr(new)
    assert auth.secret_for(new.access_key_id)[1] == new.secret_access_key


def test_secrets_are_encrypted_and_open_only_where_they_were_put(
    auth: AuthService, store: Store
) -> None:
    auth.setup("admin", QUICKSTART)
    auth.users.create("jane")
    new, _ = equip(auth, "jane")
    for entry in store.scan(AUTH):
        assert new.secret_access_key.encode() not in entry.value
    records = Records(store, CREDENTIALS, AUTH)
    mine = records.get(new.access_key_id.encode()).message
    admins = records.get(QUICKSTART.access_key_id.encode()).message
    # My ciphertext in the record of another key; my own key given to another user.
    moved = pb.Credential()
    moved.CopyFrom(admins)
    moved.secret = mine.secret
    records.set(QUICKSTART.access_key_id.encode(), moved)
    stolen = pb.Credential()
    stolen.CopyFrom(mine)
    stolen.user, stolen.user_unique_id = admins.user, admins.user_unique_id
    records.set(new.access_key_id.encode(), stolen)
    fresh = service(store)
    for key in (QUICKSTART.access_key_id, new.access_key_id):
        with pytest.raises(AuthenticationFailed):
            fresh.authenticate(key, new.secret_access_key)


def test_another_server_secret_opens_nothing(auth: AuthService, store: Store) -> None:
    new = auth.setup("admin")
    token, _ = auth.login(new.access_key_id, new.secret_access_key)
    keys = ServerKeys.derive(b"the secret of another server")
    assert keys == ServerKeys.derive(b"the secret of another server")
    assert keys != ServerKeys.derive(b"the secret of another serve1")
    other = service(store, keys=keys)
    with pytest.raises(AuthenticationFailed):
        other.authenticate(new.access_key_id, new.secret_access_key)
    with pytest.raises(AuthenticationFailed):
        other.authenticate_token(token)
    with pytest.raises(AuthInvalid):
        ServerKeys.derive(b"short")


def test_a_deleted_key_opens_nothing(auth: AuthService) -> None:
    auth.users.create("jane")
    auth.users.create("joe")
    new, identity = equip(auth, "jane")
    assert auth.credentials.get("jane", new.access_key_id).created_us == new.created_us
    for stranger in ("joe", "nobody"):
        with pytest.raises(AuthNotFound):
            auth.credentials.delete(stranger, new.access_key_id)
        with pytest.raises(AuthNotFound):
            auth.credentials.get(stranger, new.access_key_id)
    auth.credentials.delete("jane", new.access_key_id)
    with pytest.raises(CredentialNotFound):
        auth.credentials.delete("jane", new.access_key_id)
    with pytest.raises(AuthenticationFailed):
        auth.authenticate(new.access_key_id, new.secret_access_key)
    assert identity.access_key_id == new.access_key_id


def test_a_given_key_is_taken_until_its_user_is_gone(auth: AuthService) -> None:
    auth.users.create("jane")
    auth.users.create("joe")
    auth.credentials.create("jane", QUICKSTART)
    for user in ("jane", "joe"):
        with pytest.raises(AlreadyExists):
            auth.credentials.create(user, QUICKSTART)
    assert auth.credentials.list("joe").items == ()
    auth.users.delete("jane")
    auth.credentials.create("joe", QUICKSTART)
    assert auth.secret_for(QUICKSTART.access_key_id)[0].user_id == "joe"


def test_a_key_left_by_a_dead_user_is_free_and_its_line_is_healed(
    auth: AuthService, store: Store
) -> None:
    auth.users.create("jane")
    auth.users.create("joe")
    credential = pb.Credential(user="jane", user_unique_id="of an earlier jane", secret=b"?" * 40)
    Records(store, CREDENTIALS, AUTH).set(QUICKSTART.access_key_id.encode(), credential)
    line = pb.UserCredential(user_unique_id="of an earlier jane")
    store.set(
        AUTH,
        b"user_credentials/jane\x00" + QUICKSTART.access_key_id.encode(),
        line.SerializeToString(),
    )
    with pytest.raises(CredentialNotFound):
        auth.credentials.get("jane", QUICKSTART.access_key_id)
    auth.credentials.create("joe", QUICKSTART)
    Records(store, CREDENTIALS, AUTH).set(b"AKIAOTHER", credential)
    with pytest.raises(AuthenticationFailed):
        auth.secret_for("AKIAOTHER")
    assert Records(store, CREDENTIALS, AUTH).find(b"AKIAOTHER") is None, "healed"
    assert auth.credentials.list("jane").items == ()
    assert not list(auth.credentials._index.scan(prefix=b"jane")), "healed"
    assert auth.secret_for(QUICKSTART.access_key_id)[0].user_id == "joe"


# Again under an old name


def test_a_recreated_user_inherits_nothing(auth: AuthService) -> None:
    auth.setup("admin")
    auth.users.create("jane")
    auth.policies.create("all", [allow("*")])
    auth.memberships.add("jane", "Admins")
    auth.user_policies.add("jane", "all")
    new, identity = equip(auth, "jane")
    token, _ = auth.login(new.access_key_id, new.secret_access_key)
    assert auth.authenticate_token(token).user_id == "jane"
    auth.users.delete("jane")
    again = auth.users.create("jane")
    assert again.unique_id != identity.unique_id
    with pytest.raises(AuthenticationFailed):
        auth.authenticate_token(token)
    with pytest.raises(AuthenticationFailed):
        auth.authenticate(new.access_key_id, new.secret_access_key)
    assert auth.effective_policies("jane").items == ()
    assert auth.memberships.targets_of("jane").items == ()
    assert [user.id for user in auth.memberships.sources_of("Admins").items] == ["admin"]
    _, reborn = equip(auth, "jane")
    assert not may(auth, reborn, READ)
    assert not may(auth, identity, READ), "nor may the user she was before"


def test_a_group_and_a_policy_made_again_are_nobodys(auth: AuthService) -> None:
    auth.users.create("jane")
    _, jane = equip(auth, "jane")
    auth.groups.create("readers")
    auth.policies.create("read", [allow("fs:Read*")])
    auth.memberships.add("jane", "readers")
    auth.group_policies.add("readers", "read")
    assert may(auth, jane, READ)
    auth.policies.delete("read")
    auth.policies.create("read", [allow("fs:Read*")])
    assert not may(auth, jane, READ)
    auth.group_policies.add("readers", "read")
    assert may(auth, jane, READ)
    auth.groups.delete("readers")
    auth.groups.create("readers")
    auth.group_policies.add("readers", "read")
    assert not may(auth, jane, READ)
    assert auth.memberships.sources_of("readers").items == ()


# May they?


def test_a_viewer_reads_and_does_not_write(auth: AuthService) -> None:
    auth.setup("admin")
    auth.users.create("jane", email="jane@example.com")
    _, jane = equip(auth, "jane")
    assert jane.committer == "jane@example.com"
    assert not may(auth, jane, READ)
    auth.memberships.add("jane", "Viewers")
    assert may(auth, jane, READ)
    assert may(auth, jane, Permission(Action.CREATE_CREDENTIALS, user_arn("jane")))
    assert not may(auth, jane, Permission(Action.CREATE_CREDENTIALS, user_arn("admin")))
    with pytest.raises(Denied, match="fs:WriteObject on arn:lakefs:fs:::repository/lake"):
        auth.authorize(jane, NO_ADDRESS, WRITE)
    auth.memberships.remove("jane", "Viewers")
    assert not may(auth, jane, READ)


def test_every_permission_that_a_request_needs_must_be_granted(auth: AuthService) -> None:
    auth.users.create("jane")
    _, jane = equip(auth, "jane")
    auth.policies.create("read", [allow("fs:Read*")])
    auth.user_policies.add("jane", "read")
    auth.authorize(jane, NO_ADDRESS, READ, READ)
    for needed in ((READ, WRITE), (WRITE, READ)):
        with pytest.raises(Denied) as error:
            auth.authorize(jane, NO_ADDRESS, *needed)
        assert (error.value.action, error.value.resource) == (WRITE.action, WRITE.resource)


def test_a_policy_is_kept_as_it_was_given(auth: AuthService) -> None:
    statements = (
        Statement(
            effect=Effect.DENY,
            actions=("fs:Read*", "auth:*"),
            resource=json.dumps(["*", "arn:lakefs:auth:::user/${user}"]),
            condition={"IpAddress": {"SourceIp": ("10.0.0.0/8", "::1")}},
        ),
        allow("*"),
    )
    created = auth.policies.create("mixed", statements)
    assert auth.policies.get("mixed") == created
    assert created.statements == statements
    updated = auth.policies.update("mixed", statements[:1])
    assert auth.policies.get("mixed") == updated
    assert (updated.unique_id, updated.created_us) == (created.unique_id, created.created_us)
    with pytest.raises(InvalidPolicy):
        auth.policies.update("mixed", [])
    with pytest.raises(PolicyNotFound):
        auth.policies.update("other", statements)


def test_conditions_reach_from_the_request_to_the_policy(auth: AuthService) -> None:
    auth.users.create("jane")
    _, jane = equip(auth, "jane")
    inside = {"IpAddress": {"SourceIp": ("10.0.0.0/8",)}}
    statement = Statement(effect=Effect.ALLOW, actions=("fs:*",), resource="*", condition=inside)
    auth.policies.create("inside", [statement])
    auth.user_policies.add("jane", "inside")
    auth.authorize(jane, Context(source_ip="10.1.1.1"), READ)
    with pytest.raises(Denied):
        auth.authorize(jane, Context(source_ip="11.1.1.1"), READ)
    assert not may(auth, jane, READ)


def test_policies_of_a_newer_version_allow_nothing(auth: AuthService, store: Store) -> None:
    auth.users.create("jane")
    _, jane = equip(auth, "jane")
    auth.policies.create("odd", [allow("*")])
    auth.user_policies.add("jane", "odd")
    records = Records(store, POLICIES, AUTH)
    message = records.get(b"odd").message
    message.statements[0].effect = 7  # type: ignore[assignment]
    records.set(b"odd", message)
    assert not may(service(store), jane, READ)
    message.statements[0].effect = pb.POLICY_EFFECT_ALLOW
    message.statements[0].conditions.add(operator="MoonPhase", field="Phase", values=["full"])
    records.set(b"odd", message)
    with pytest.raises(InvalidPolicy):
        service(store).authorize(jane, NO_ADDRESS, READ)
    store.set(AUTH, b"policies/odd", b"\xff\xff")
    with pytest.raises(CorruptRecord):
        service(store).authorize(jane, NO_ADDRESS, READ)


def test_deny_reaches_through_groups(auth: AuthService) -> None:
    auth.setup("admin")
    auth.users.create("jane")
    _, jane = equip(auth, "jane")
    auth.memberships.add("jane", "SuperUsers")
    assert may(auth, jane, WRITE)
    auth.policies.create("no-writes", [deny("fs:Write*")])
    auth.groups.create("frozen")
    auth.group_policies.add("frozen", "no-writes")
    auth.memberships.add("jane", "frozen")
    assert not may(auth, jane, WRITE)
    assert may(auth, jane, READ)
    auth.group_policies.remove("frozen", "no-writes")
    assert may(auth, jane, WRITE)
