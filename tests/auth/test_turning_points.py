"""Someone else acts at the worst moment: what chance finds rarely, with mutants for it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from lakebed.auth import (
    AlreadyExists,
    AuthenticationFailed,
    AuthPage,
    AuthService,
    Identity,
    User,
    UserNotFound,
)
from lakebed.auth import records_pb2 as pb
from lakebed.auth.entities.keys import (
    AUTH,
    CREDENTIALS,
    GROUP_POLICIES,
    USER_CREDENTIALS,
    USER_GROUPS,
    pair,
    pair_prefix,
)
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Record, Records
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.auth.kit import QUICKSTART, READ, allow, deny, equip, may
from tests.auth.scenarios import Memberships, Open, open_right, with_memberships

ResultT = TypeVar("ResultT")


class Meanwhile:
    """A store whose caller is slow once: before its first call of a kind, others act."""

    def __init__(self, inner: Store) -> None:
        self.store = FaultyStore(inner, self._intercept)
        self._when: tuple[str, bytes] | None = None
        self._act: Callable[[], object] = list

    def before(self, operation: str, prefix: bytes, act: Callable[[], object]) -> None:
        self._when, self._act = (operation, prefix), act

    def _intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if self._when is not None:
            operation, prefix = self._when
            if call.operation.startswith(operation) and call.key.startswith(prefix):
                self._when = None
                self._act()
        return apply()

    @property
    def happened(self) -> bool:
        return self._when is None


def world(open_service: Open = open_right) -> tuple[AuthService, AuthService, Meanwhile]:
    """A slow caller, another one, and what makes the first slow."""
    inner = MemoryStore(ThreadRuntime())
    meanwhile = Meanwhile(inner)
    slow = open_service(meanwhile.store, ThreadRuntime())
    other = open_right(inner, ThreadRuntime())
    other.users.create("ann")
    other.groups.create("g")
    return slow, other, meanwhile


def born_again(auth: AuthService, *, member: bool = True) -> None:
    auth.users.delete("ann")
    auth.users.create("ann")
    if member:
        auth.memberships.add("ann", "g")


def is_member(auth: AuthService) -> bool:
    return bool(auth.memberships.targets_of("ann").items)


def a_slow_add_replaces_nothing_newer(open_service: Open) -> None:
    slow, other, meanwhile = world(open_service)
    meanwhile.before("set", USER_GROUPS.prefix, lambda: born_again(other))
    slow.memberships.add("ann", "g")
    assert meanwhile.happened
    assert is_member(other)


def a_slow_healer_removes_nothing_newer(open_service: Open) -> None:
    slow, other, meanwhile = world(open_service)
    dead = pb.Relation(source_unique_id="gone", target_unique_id="gone")
    Records(meanwhile.store, USER_GROUPS, AUTH).set(pair("ann", "g"), dead)
    meanwhile.before("delete", USER_GROUPS.prefix, lambda: other.memberships.add("ann", "g"))
    slow.memberships.sources_of("g")
    assert meanwhile.happened
    assert is_member(other)


def a_slow_reader_takes_nothing_newer_for_dead(open_service: Open) -> None:
    slow, other, meanwhile = world(open_service)
    meanwhile.before("scan_page", USER_GROUPS.prefix, lambda: born_again(other))
    slow.memberships.sources_of("g")
    assert meanwhile.happened
    assert is_member(other)


class AddsBlindly(Memberships):
    """Writes over whatever others wrote meanwhile."""

    def add(self, left: str, right: str) -> None:
        relation = pb.Relation(
            source_unique_id=self._source.live(left).message.unique_id,
            target_unique_id=self._target.live(right).message.unique_id,
        )
        self._records.set(pair(left, right), relation)


class RemovesBlindly(Memberships):
    """Removes what is dead without looking whether it still is what was read."""

    def _remove(self, record: Record[pb.Relation]) -> None:
        self._records.delete(record.name)


class ReadsEndsFirst(Memberships):
    """Looks at the user before it looks at the relation, and takes what is newer for dead."""

    early: dict[str, pb.User] | None = None

    def sources_of(
        self, right: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> AuthPage[User]:
        self.early = self._source.live_messages(["ann"])
        return super().sources_of(right, prefix=prefix, after=after, amount=amount)

    def _ends(
        self, chunk: Sequence[Record[pb.Relation]]
    ) -> tuple[dict[str, pb.User], dict[str, pb.Group]]:
        lefts, rights = super()._ends(chunk)
        return self.early or lefts, rights


TURNING_POINTS: list[tuple[Callable[[Open], None], type[Memberships]]] = [
    (a_slow_add_replaces_nothing_newer, AddsBlindly),
    (a_slow_healer_removes_nothing_newer, RemovesBlindly),
    (a_slow_reader_takes_nothing_newer_for_dead, ReadsEndsFirst),
]


@pytest.mark.parametrize(("holds", "mutant"), TURNING_POINTS)
def test_nothing_newer_is_lost(holds: Callable[[Open], None], mutant: type[Memberships]) -> None:
    holds(open_right)
    with pytest.raises(AssertionError):
        holds(with_memberships(mutant))


def test_a_relation_with_who_is_deleted_meanwhile_counts_for_nothing() -> None:
    slow, other, meanwhile = world()
    meanwhile.before("set", USER_GROUPS.prefix, lambda: other.users.delete("ann"))
    slow.memberships.add("ann", "g")  # it was added, and then ann was deleted
    assert meanwhile.happened
    assert other.memberships.sources_of("g").items == ()
    other.users.create("ann")
    assert not is_member(other)
    assert list(Records(meanwhile.store, USER_GROUPS, AUTH).scan()) == [], "healed"


def test_a_relation_with_a_group_made_again_meanwhile_counts_for_nothing() -> None:
    slow, other, meanwhile = world()

    def again() -> None:
        other.groups.delete("g")
        other.groups.create("g")

    meanwhile.before("set", USER_GROUPS.prefix, again)
    slow.memberships.add("ann", "g")
    assert meanwhile.happened
    assert not is_member(other)
    assert other.memberships.sources_of("g").items == ()
    assert list(Records(meanwhile.store, USER_GROUPS, AUTH).scan()) == [], "healed"


@pytest.mark.parametrize("prefix", [USER_CREDENTIALS.prefix, CREDENTIALS.prefix])
def test_a_key_for_who_is_deleted_meanwhile_is_taken_back(prefix: bytes) -> None:
    slow, other, meanwhile = world()
    meanwhile.before("set", prefix, lambda: born_again(other, member=False))
    with pytest.raises(UserNotFound):
        slow.credentials.create("ann", QUICKSTART)
    assert meanwhile.happened
    with pytest.raises(AuthenticationFailed):
        other.secret_for(QUICKSTART.access_key_id)
    assert list(Records(meanwhile.store, USER_CREDENTIALS, AUTH).scan()) == []
    assert list(Records(meanwhile.store, CREDENTIALS, AUTH).scan()) == []


def test_a_key_that_another_user_takes_meanwhile_stays_theirs() -> None:
    slow, other, meanwhile = world()
    other.users.create("bob")
    meanwhile.before("set", CREDENTIALS.prefix, lambda: other.credentials.create("bob", QUICKSTART))
    with pytest.raises(AlreadyExists):
        slow.credentials.create("ann", QUICKSTART)
    assert meanwhile.happened
    assert other.secret_for(QUICKSTART.access_key_id)[0].user_id == "bob"
    assert other.credentials.list("ann").items == ()
    assert len(other.credentials.list("bob").items) == 1


def test_a_slow_deletion_of_who_is_born_again_touches_nobody_new() -> None:
    slow, other, meanwhile = world()
    other.memberships.add("ann", "g")

    def again() -> None:
        other.users.create("ann")
        other.memberships.add("ann", "g")
        other.credentials.create("ann", QUICKSTART)

    # Between the mark and the pruning: whoever creates the name anew does the pruning itself.
    meanwhile.before("scan_page", USER_CREDENTIALS.prefix, again)
    slow.users.delete("ann")
    assert meanwhile.happened
    assert is_member(other)
    assert other.secret_for(QUICKSTART.access_key_id)[0].user_id == "ann"


def test_an_update_of_a_policy_that_is_made_again_is_not_lost() -> None:
    slow, other, meanwhile = world()
    other.policies.create("p", [allow("fs:ReadObject")])

    def again() -> None:
        other.policies.delete("p")
        other.policies.create("p", [allow("fs:WriteObject")])

    meanwhile.before("set", b"policies/", again)
    updated = slow.policies.update("p", [allow("fs:DeleteObject")])
    assert meanwhile.happened
    assert other.policies.get("p") == updated


def test_a_denial_that_is_moved_from_group_to_group_is_never_missed() -> None:
    slow, other, meanwhile = world()
    other.groups.create("h")
    other.policies.create("allow", [allow("fs:*")])
    other.policies.create("deny", [deny("fs:*")])
    other.user_policies.add("ann", "allow")
    other.memberships.add("ann", "g")
    other.memberships.add("ann", "h")
    other.group_policies.add("h", "deny")
    ann = other.users.get("ann")
    identity = Identity(user_id=ann.id, unique_id=ann.unique_id, committer="", access_key_id=None)

    def move() -> None:
        other.group_policies.add("g", "deny")
        other.group_policies.remove("h", "deny")

    # The policies of g were read, those of h are not yet.
    meanwhile.before("scan_page", GROUP_POLICIES.prefix + b"h", move)
    assert not may(slow, identity, READ)
    assert meanwhile.happened


def test_a_policy_that_moves_between_groups_is_not_missed() -> None:
    """It denies, and is moved to a group whose policies were read from one that comes next."""
    slow, other, meanwhile = world()
    _, ann = equip(other, "ann")
    other.policies.create("all", [allow("fs:*")])
    other.policies.create("none", [deny("fs:*")])
    other.user_policies.add("ann", "all")
    for group in ("first", "second"):
        other.groups.create(group)
        other.memberships.add("ann", group)
    other.group_policies.add("second", "none")

    def move() -> None:
        other.group_policies.add("first", "none")
        other.group_policies.remove("second", "none")

    meanwhile.before("scan", GROUP_POLICIES.prefix + pair_prefix("second"), move)
    assert not may(slow, ann, READ)
    assert meanwhile.happened
