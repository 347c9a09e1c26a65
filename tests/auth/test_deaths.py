"""A process dies at every single call of every operation, before it was applied or after.

Whatever the moment: others see what was before or what is after and nothing between, doing it again
brings what is after, and who is made again under an old name inherits nothing.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

import pytest

from lakebed.auth import (
    AlreadyExists,
    AlreadySetUp,
    AuthenticationFailed,
    AuthNotFound,
    AuthService,
    Identity,
    UserNotFound,
)
from lakebed.auth.entities.keys import AUTH
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.faults import FaultyStore, StoreCall, lost
from tests.auth.kit import (
    NO_ADDRESS,
    QUICKSTART,
    READ,
    UNCACHED,
    Clockwork,
    allow,
    deny,
    may,
    service,
)

ResultT = TypeVar("ResultT")


class DeathError(BaseException):
    """The process is no more."""


class Mortal:
    """A store for a process that dies at one of its calls."""

    def __init__(self, inner: Store, at: int, *, after: bool, writes: bool = False) -> None:
        self.store = FaultyStore(inner, self._intercept)
        self.calls = 0
        self._at = at
        self._after = after
        self._writes = writes

    def _intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if self._writes and not call.writes and self.calls < self._at:
            return apply()  # only writes are counted
        self.calls += 1
        if self.calls > self._at:
            raise DeathError  # the process is dead
        if self.calls < self._at:
            return apply()
        if self._after:
            apply()
        raise DeathError


def furnish(store: Store) -> AuthService:
    """A small installation: ann may read by her group, and not by a policy of her own."""
    auth = service(store, settings=UNCACHED)
    auth.users.create("ann")
    auth.users.create("bob")
    auth.groups.create("readers")
    auth.policies.create("read", [allow("fs:Read*")])
    auth.policies.create("not-read", [deny("fs:Read*")])
    auth.memberships.add("ann", "readers")
    auth.memberships.add("bob", "readers")
    auth.group_policies.add("readers", "read")
    auth.user_policies.add("ann", "not-read")
    auth.credentials.create("ann", QUICKSTART)
    return auth


def may_read(auth: AuthService, user: str) -> bool:
    found = auth.users.get(user)
    identity = Identity(
        user_id=found.id, unique_id=found.unique_id, committer="", access_key_id=None
    )
    return may(auth, identity, READ)


def seen(store: Store) -> object:
    """All that anyone can see."""
    auth = service(store, settings=UNCACHED)
    users = [user.id for user in auth.users.list().items]
    groups = [group.id for group in auth.groups.list().items]
    works = True
    try:
        owner = auth.authenticate(QUICKSTART.access_key_id, QUICKSTART.secret_access_key)
    except AuthenticationFailed:
        works = False
    else:
        assert owner.user_id in users
    return (
        {policy.id: policy.statements for policy in auth.policies.list().items},
        {user: [policy.id for policy in auth.effective_policies(user).items] for user in users},
        {user: may_read(auth, user) for user in users},
        {group: [user.id for user in auth.memberships.sources_of(group).items] for group in groups},
        works,
    )


@dataclass(frozen=True)
class Operation:
    """Something to die in, and what it says if it was done before."""

    act: Callable[[AuthService], object]
    done: type[Exception] | None = None


OPERATIONS: Final = {
    "delete user": Operation(lambda auth: auth.users.delete("ann"), AuthNotFound),
    "delete group": Operation(lambda auth: auth.groups.delete("readers"), AuthNotFound),
    "delete policy": Operation(lambda auth: auth.policies.delete("read"), AuthNotFound),
    "delete denying policy": Operation(lambda auth: auth.policies.delete("not-read"), AuthNotFound),
    "create user": Operation(lambda auth: auth.users.create("cay"), AlreadyExists),
    "create group": Operation(lambda auth: auth.groups.create("writers"), AlreadyExists),
    "create policy": Operation(
        lambda auth: auth.policies.create("write", [allow("fs:*")]), AlreadyExists
    ),
    "update policy": Operation(lambda auth: auth.policies.update("read", [allow("auth:*")])),
    "remove member": Operation(lambda auth: auth.memberships.remove("ann", "readers")),
    "attach": Operation(lambda auth: auth.user_policies.add("bob", "not-read")),
    "detach": Operation(lambda auth: auth.user_policies.remove("ann", "not-read")),
    "delete credential": Operation(
        lambda auth: auth.credentials.delete("ann", QUICKSTART.access_key_id), AuthNotFound
    ),
}


def outcome_of(operation: Operation) -> tuple[object, object, int]:
    """What is seen before and after an operation, and how many calls it takes."""
    inner = MemoryStore(ThreadRuntime())
    furnish(inner)
    before = seen(inner)
    counted = Mortal(inner, 1 << 30, after=False)
    operation.act(service(counted.store, settings=UNCACHED))
    return before, seen(inner), counted.calls


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_death_at_any_call_leaves_all_or_nothing(name: str, *, after: bool) -> None:
    operation = OPERATIONS[name]
    before, expected, calls = outcome_of(operation)
    assert before != expected
    for at in range(1, calls + 1):
        inner = MemoryStore(ThreadRuntime())
        furnish(inner)
        mortal = Mortal(inner, at, after=after)
        with pytest.raises(DeathError):
            operation.act(service(mortal.store, settings=UNCACHED))
        assert seen(inner) in (before, expected), f"half of it was seen after call {at}"
        with suppress(*([operation.done] if operation.done else [])):
            operation.act(service(inner, settings=UNCACHED))
        assert seen(inner) == expected
        assert_nothing_is_inherited(inner)


def assert_nothing_is_inherited(store: Store) -> None:
    """Make everything again under its old name, one after another, and then tear all down."""
    auth = service(store, settings=UNCACHED)
    for entities in (auth.users, auth.groups, auth.policies):
        for name in [entity.id for entity in entities.list().items]:
            entities.delete(name)
    left = [entry.key for entry in store.scan(AUTH)]
    assert left == [], "keys are left though all entities are deleted"
    auth.users.create("ann")
    assert not may_read(auth, "ann")
    assert auth.credentials.list("ann").items == ()
    with pytest.raises(AuthenticationFailed):
        auth.secret_for(QUICKSTART.access_key_id)


@pytest.mark.parametrize("name", ["delete user", "delete group", "delete policy"])
def test_deleting_a_user_leaves_no_records(name: str) -> None:
    inner = MemoryStore(ThreadRuntime())
    OPERATIONS[name].act(furnish(inner))
    key = QUICKSTART.access_key_id.encode()
    gone = {"user": [b"ann", key], "group": [b"readers"], "policy": [b"read"]}[name.split()[1]]
    for entry in inner.scan(AUTH):
        assert not set(gone) & set(entry.key.partition(b"/")[2].split(b"\x00"))


def test_a_partly_deleted_user_is_not_found() -> None:
    inner = MemoryStore(ThreadRuntime())
    furnish(inner)
    for name in ("delete user", "delete group", "delete policy"):
        with pytest.raises(DeathError):
            OPERATIONS[name].act(service(Mortal(inner, 2, after=True).store, settings=UNCACHED))
    assert len(list(inner.scan(AUTH))) == 11, "only the marks were written"
    auth = service(inner, settings=UNCACHED)
    asked: list[Callable[[], object]] = [
        lambda: auth.users.get("ann"),
        lambda: auth.groups.get("readers"),
        lambda: auth.policies.get("read"),
        lambda: auth.policies.update("read", [allow("fs:*")]),
        lambda: auth.memberships.add("ann", "readers"),
        lambda: auth.memberships.add("bob", "readers"),
        lambda: auth.memberships.remove("bob", "readers"),
        lambda: auth.memberships.sources_of("readers"),
        lambda: auth.memberships.targets_of("ann"),
        lambda: auth.user_policies.add("bob", "read"),
        lambda: auth.credentials.create("ann"),
        lambda: auth.credentials.list("ann"),
        lambda: auth.credentials.get("ann", QUICKSTART.access_key_id),
        lambda: auth.effective_policies("ann"),
    ]
    for ask in asked:
        with pytest.raises(AuthNotFound):
            ask()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_reused_name_after_a_crash_inherits_nothing(*, after: bool) -> None:
    _, _, calls = outcome_of(OPERATIONS["delete user"])
    for at in range(2, calls + 1):
        inner = MemoryStore(ThreadRuntime())
        old = furnish(inner)
        token, _ = old.login(QUICKSTART.access_key_id, QUICKSTART.secret_access_key)
        mortal = Mortal(inner, at, after=after)
        with pytest.raises(DeathError):
            service(mortal.store, settings=UNCACHED).users.delete("ann")
        auth = service(inner, settings=UNCACHED)
        try:
            auth.users.create("ann")
        except AlreadyExists:
            assert at == 2, "only before the mark it is still there"
            assert not after
            continue
        assert auth.effective_policies("ann").items == ()
        assert auth.credentials.list("ann").items == ()
        assert [user.id for user in auth.memberships.sources_of("readers").items] == ["bob"]
        with pytest.raises(AuthenticationFailed):
            auth.secret_for(QUICKSTART.access_key_id)
        with pytest.raises(AuthenticationFailed):
            auth.authenticate_token(token)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_key_whose_making_died_opens_nothing_or_all_and_can_be_deleted(*, after: bool) -> None:
    for at in range(1, 20):
        inner = MemoryStore(ThreadRuntime())
        furnish(inner)
        mortal = Mortal(inner, at, after=after)
        try:
            service(mortal.store, settings=UNCACHED).credentials.create("bob")
            break
        except DeathError:
            pass
        auth = service(inner, settings=UNCACHED)
        for credential in auth.credentials.list("bob").items:
            auth.credentials.delete("bob", credential.access_key_id)
        assert auth.credentials.list("bob").items == ()
        working = [entry.key for entry in inner.scan(AUTH, b"credentials/", limit=2)]
        assert working[0] == b"credentials/" + QUICKSTART.access_key_id.encode()
        assert not working[1].startswith(b"credentials/")
    assert 3 < at < 19


# Setup


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_setup_that_died_anywhere_is_finished_by_the_next(*, after: bool) -> None:
    deaths = 0
    for at in range(1, 1000):
        inner = MemoryStore(ThreadRuntime())
        mortal = Mortal(inner, at, after=after)
        try:
            service(mortal.store, Clockwork()).setup("first", QUICKSTART)
            break
        except DeathError:
            deaths += 1
        check_next_setup(inner, ["first"])
    assert deaths > 90


def test_a_setup_that_died_twice_is_finished_by_the_third() -> None:
    """Each as it had made its user, and the second also as it had only just begun."""
    for second in (1, 2, 3, 36, 38):
        inner = MemoryStore(ThreadRuntime())
        for name, at in (("first", 36), ("second", second)):
            mortal = Mortal(inner, at, after=True, writes=True)
            with pytest.raises(DeathError):
                service(mortal.store, Clockwork()).setup(name, QUICKSTART)
        check_next_setup(inner, ["first", "second"])


def check_next_setup(inner: Store, victims: list[str]) -> None:
    auth = service(inner, Clockwork(), settings=UNCACHED)
    try:
        won = auth.setup("next", QUICKSTART)
    except AlreadySetUp:
        # Only the last write of a setup sets the installation up.
        assert [user.id for user in auth.users.list().items] == victims[-1:]
        return
    assert [user.id for user in auth.users.list().items] == ["next"]
    identity = auth.authenticate(won.access_key_id, won.secret_access_key)
    auth.authorize(identity, NO_ADDRESS, READ)
    assert [user.id for user in auth.memberships.sources_of("Admins").items] == ["next"]
    for victim in victims:
        with pytest.raises(UserNotFound):
            auth.users.get(victim)
    keys = [entry.key for entry in inner.scan(AUTH)]
    assert not [key for key in keys if any(victim.encode() in key for victim in victims)]


# Lost replies


def losing_the_reply_to(inner: Store, operation: str, prefix: bytes) -> AuthService:
    """A service that never hears that a certain write was applied."""
    heard = {"lost": False}

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        result = apply()
        wanted = call.operation == operation and call.key.startswith(prefix)
        if wanted and not heard["lost"]:
            heard["lost"] = True
            raise lost(call, known=False)
        return result

    return service(FaultyStore(inner, intercept), Clockwork(), settings=UNCACHED)


def test_a_change_with_a_lost_reply_is_reported_as_done() -> None:
    inner = MemoryStore(ThreadRuntime())
    furnish(inner)
    assert losing_the_reply_to(inner, "set_if", b"users/").users.create("cay").id == "cay"
    new = losing_the_reply_to(inner, "set_if", b"credentials/").credentials.create("cay")
    truth = service(inner)
    assert truth.authenticate(new.access_key_id, new.secret_access_key).user_id == "cay"


@pytest.mark.parametrize(
    "prefix", [b"setup", b"policies/", b"groups/", b"users/", b"user_groups/", b"credentials/"]
)
def test_a_setup_survives_a_lost_reply(prefix: bytes) -> None:
    inner = MemoryStore(ThreadRuntime())
    won = losing_the_reply_to(inner, "set_if", prefix).setup("admin")
    auth = service(inner)
    winner = auth.authenticate(won.access_key_id, won.secret_access_key)
    auth.authorize(winner, NO_ADDRESS, READ)


def test_a_setup_survives_a_lost_reply_to_its_last_word() -> None:
    inner = MemoryStore(ThreadRuntime())
    claims = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        result = apply()
        if call.writes and call.key == b"setup":
            claims.append(call)
            if len(claims) == 2:
                raise lost(call, known=False)
        return result

    won = service(FaultyStore(inner, intercept)).setup("admin")
    identity = service(inner).authenticate(won.access_key_id, won.secret_access_key)
    assert identity.user_id == "admin"
