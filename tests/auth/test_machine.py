"""Users, groups, policies, relations, credentials and tokens against a model of plain dicts.

Any call to the store may be the one that fails, or the last of its process; then the operation is
done again. A cache that never expires must not show: all changes go through the same process.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakebed.auth import (
    AlreadyExists,
    AuthCacheSettings,
    AuthenticationFailed,
    AuthNotFound,
    AuthService,
    Denied,
    Identity,
    NewCredential,
    Permission,
    Statement,
)
from lakebed.auth.entities.keys import AUTH
from lakebed.auth.policy.actions import repository_arn
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv import OutcomeUnknown, StoreUnavailable
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.faults import FaultyStore, StoreCall, lost
from tests.auth.kit import NO_ADDRESS, allow, deny, service

ResultT = TypeVar("ResultT")

USERS = ["ann", "ann b", "zoe"]
GROUPS = ["g", "g-1"]
POLICIES = ["p", "p.q", "q"]
FOREVER = AuthCacheSettings(cache_seconds=1e9)


@dataclass
class FaultPlan:
    """Which of the calls to come fails, and how."""

    at: int
    how: str

    def intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        self.at -= 1
        if self.how == "death" and self.at <= 0:
            raise StoreUnavailable("dead")
        if self.at == 0 and self.how == "lost there":
            raise lost(call, known=False)
        result = apply()
        if self.at == 0 and self.how == "lost back":
            raise lost(call, known=False)
        return result


def without_faults(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
    return apply()


fault_plans = st.builds(
    FaultPlan, st.integers(1, 15), st.sampled_from(["lost there", "lost back", "death"])
)
# Mostly none: only without faults can all keys in the store be compared with the model.
faults = st.integers(0, 9).flatmap(lambda draw: st.none() if draw else fault_plans)


@dataclass
class ModelUser:
    """A user of the model, with what it has."""

    groups: set[str] = field(default_factory=set)
    policies: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)


class AuthMachine(RuleBasedStateMachine):
    """Does the same to the service and to the model, and compares."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = MemoryStore(ThreadRuntime())
        self.failed = False
        self.users: dict[str, ModelUser] = {}
        self.groups: dict[str, set[str]] = {}
        """Each with its policies."""
        self.policies: dict[str, bool] = {}
        """Each with whether it denies."""
        self.keys: dict[str, NewCredential] = {}
        """All that ever were."""
        self.tokens: dict[str, NewCredential] = {}
        """All that ever were, each with the access key of its login."""
        self.ended: set[str] = set()
        """Tokens that someone logged out with."""
        self.start_process()

    def start_process(self) -> None:
        self.store = FaultyStore(self.inner, without_faults)
        self.auth: AuthService = service(self.store, settings=FOREVER)

    def do(
        self,
        act: Callable[[], ResultT],
        plan: FaultPlan | None,
        *,
        refused: bool,
        done: type[Exception] | None = None,
    ) -> ResultT | None:
        """Do something, again if the store failed; `done` is what it says if it was done before."""
        if plan is not None:
            self.store._intercept = plan.intercept
        try:
            result = act()
        except OutcomeUnknown:
            self.failed = True
            if plan is not None and plan.how == "death":
                self.start_process()
        except (AuthNotFound, AlreadyExists):
            assert refused
            return None
        else:
            assert not refused
            return result
        finally:
            self.store._intercept = without_faults
        try:
            result = act()
        except (AuthNotFound, AlreadyExists) as error:
            if refused or (done is not None and isinstance(error, done)):
                return None
            raise
        assert not refused
        return result

    # Entities

    @rule(name=st.sampled_from(USERS), plan=faults)
    def create_user(self, name: str, plan: FaultPlan | None) -> None:
        refused = name in self.users
        self.do(lambda: self.auth.users.create(name), plan, refused=refused, done=AlreadyExists)
        if not refused:
            self.users[name] = ModelUser()

    @rule(name=st.sampled_from(USERS), plan=faults)
    def delete_user(self, name: str, plan: FaultPlan | None) -> None:
        refused = name not in self.users
        self.do(lambda: self.auth.users.delete(name), plan, refused=refused, done=AuthNotFound)
        self.users.pop(name, None)

    @rule(name=st.sampled_from(GROUPS), plan=faults)
    def create_group(self, name: str, plan: FaultPlan | None) -> None:
        refused = name in self.groups
        self.do(lambda: self.auth.groups.create(name), plan, refused=refused, done=AlreadyExists)
        self.groups.setdefault(name, set())

    @rule(name=st.sampled_from(GROUPS), plan=faults)
    def delete_group(self, name: str, plan: FaultPlan | None) -> None:
        refused = name not in self.groups
        self.do(lambda: self.auth.groups.delete(name), plan, refused=refused, done=AuthNotFound)
        self.groups.pop(name, None)
        for user in self.users.values():
            user.groups.discard(name)

    @rule(name=st.sampled_from(POLICIES), denies=st.booleans(), plan=faults)
    def create_policy(self, name: str, *, denies: bool, plan: FaultPlan | None) -> None:
        refused = name in self.policies
        statement = statement_of(name, denies=denies)
        self.do(
            lambda: self.auth.policies.create(name, [statement]),
            plan,
            refused=refused,
            done=AlreadyExists,
        )
        self.policies.setdefault(name, denies)

    @rule(name=st.sampled_from(POLICIES), denies=st.booleans(), plan=faults)
    def update_policy(self, name: str, *, denies: bool, plan: FaultPlan | None) -> None:
        refused = name not in self.policies
        statement = statement_of(name, denies=denies)
        self.do(lambda: self.auth.policies.update(name, [statement]), plan, refused=refused)
        if not refused:
            self.policies[name] = denies

    @rule(name=st.sampled_from(POLICIES), plan=faults)
    def delete_policy(self, name: str, plan: FaultPlan | None) -> None:
        refused = name not in self.policies
        self.do(lambda: self.auth.policies.delete(name), plan, refused=refused, done=AuthNotFound)
        self.policies.pop(name, None)
        for user in self.users.values():
            user.policies.discard(name)
        for attached in self.groups.values():
            attached.discard(name)

    # Relations

    @rule(user=st.sampled_from(USERS), group=st.sampled_from(GROUPS), plan=faults)
    def add_member(self, user: str, group: str, plan: FaultPlan | None) -> None:
        refused = user not in self.users or group not in self.groups
        self.do(lambda: self.auth.memberships.add(user, group), plan, refused=refused)
        if not refused:
            self.users[user].groups.add(group)

    @rule(user=st.sampled_from(USERS), group=st.sampled_from(GROUPS), plan=faults)
    def remove_member(self, user: str, group: str, plan: FaultPlan | None) -> None:
        refused = user not in self.users or group not in self.groups
        self.do(lambda: self.auth.memberships.remove(user, group), plan, refused=refused)
        if not refused:
            self.users[user].groups.discard(group)

    @rule(
        user=st.sampled_from(USERS),
        policy=st.sampled_from(POLICIES),
        attach=st.booleans(),
        plan=faults,
    )
    def policy_of_user(
        self, user: str, policy: str, *, attach: bool, plan: FaultPlan | None
    ) -> None:
        refused = user not in self.users or policy not in self.policies

        def act() -> None:
            relations = self.auth.user_policies
            (relations.add if attach else relations.remove)(user, policy)

        self.do(act, plan, refused=refused)
        if not refused:
            attached = self.users[user].policies
            (attached.add if attach else attached.discard)(policy)

    @rule(
        group=st.sampled_from(GROUPS),
        policy=st.sampled_from(POLICIES),
        attach=st.booleans(),
        plan=faults,
    )
    def policy_of_group(
        self, group: str, policy: str, *, attach: bool, plan: FaultPlan | None
    ) -> None:
        refused = group not in self.groups or policy not in self.policies

        def act() -> None:
            relations = self.auth.group_policies
            (relations.add if attach else relations.remove)(group, policy)

        self.do(act, plan, refused=refused)
        if not refused:
            attached = self.groups[group]
            (attached.add if attach else attached.discard)(policy)

    # Credentials and tokens

    @rule(user=st.sampled_from(USERS), plan=faults)
    def create_key(self, user: str, plan: FaultPlan | None) -> None:
        refused = user not in self.users
        new = self.do(lambda: self.auth.credentials.create(user), plan, refused=refused)
        if new is not None:
            self.keys[new.access_key_id] = new
            self.users[user].keys.add(new.access_key_id)
        if not refused:
            # What a failed try left is listed, and can be deleted.
            for found in self.auth.credentials.list(user).items:
                if found.access_key_id not in self.users[user].keys:
                    assert self.failed
                    self.auth.credentials.delete(user, found.access_key_id)

    @precondition(lambda self: self.keys)
    @rule(data=st.data(), user=st.sampled_from(USERS), plan=faults)
    def delete_key(self, data: st.DataObject, user: str, plan: FaultPlan | None) -> None:
        key = data.draw(st.sampled_from(sorted(self.keys)))
        refused = user not in self.users or key not in self.users[user].keys
        self.do(
            lambda: self.auth.credentials.delete(user, key),
            plan,
            refused=refused,
            done=AuthNotFound,
        )
        if not refused:
            self.users[user].keys.discard(key)

    @precondition(lambda self: self.keys)
    @rule(data=st.data())
    def login(self, data: st.DataObject) -> None:
        new = self.keys[data.draw(st.sampled_from(sorted(self.keys)))]
        owner = self.users.get(new.user_id)
        if owner is not None and new.access_key_id in owner.keys:
            token, _ = self.auth.login(new.access_key_id, new.secret_access_key)
            self.tokens[token] = new

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), plan=faults)
    def logout(self, data: st.DataObject, plan: FaultPlan | None) -> None:
        token = data.draw(st.sampled_from(sorted(self.tokens)))
        self.do(lambda: self.auth.logout(token), plan, refused=False)
        self.ended.add(token)

    # What must be seen

    @invariant()
    def lists_are_those_of_the_model(self) -> None:
        auth = self.auth
        assert [user.id for user in auth.users.list().items] == sorted(self.users)
        assert [group.id for group in auth.groups.list().items] == sorted(self.groups)
        assert [policy.id for policy in auth.policies.list().items] == sorted(self.policies)
        for name, user in self.users.items():
            groups = [group.id for group in auth.memberships.targets_of(name).items]
            assert groups == sorted(user.groups)
            attached = [policy.id for policy in auth.user_policies.targets_of(name).items]
            assert attached == sorted(user.policies)
            keys = [key.access_key_id for key in auth.credentials.list(name).items]
            assert keys == sorted(user.keys)
        for name, policies in self.groups.items():
            attached = [policy.id for policy in auth.group_policies.targets_of(name).items]
            assert attached == sorted(policies)
            members = [user.id for user in auth.memberships.sources_of(name).items]
            assert members == sorted(
                user for user, model in self.users.items() if name in model.groups
            )

    @invariant()
    def keys_and_tokens_are_worth_what_the_model_says(self) -> None:
        for new in self.keys.values():
            owner = self.users.get(new.user_id)
            works = owner is not None and new.access_key_id in owner.keys
            pair = new.access_key_id, new.secret_access_key
            found = self.authenticates(partial(self.auth.authenticate, *pair))
            assert found == (new.user_id if works else None)
        for token, new in self.tokens.items():
            owner = self.users.get(new.user_id)
            works = (
                owner is not None and new.access_key_id in owner.keys and token not in self.ended
            )
            found = self.authenticates(partial(self.auth.authenticate_token, token))
            assert found == (new.user_id if works else None)

    def authenticates(self, act: Callable[[], Identity]) -> str | None:
        try:
            identity = act()
        except AuthenticationFailed:
            return None
        self.may_what_the_model_says(identity)
        return identity.user_id

    def may_what_the_model_says(self, identity: Identity) -> None:
        user = self.users[identity.user_id]
        policies = user.policies.union(*(self.groups[group] for group in user.groups))
        effective = self.auth.effective_policies(identity.user_id).items
        assert [policy.id for policy in effective] == sorted(policies)
        denied = any(self.policies[policy] for policy in policies)
        for policy in POLICIES:
            try:
                read = Permission("fs:ReadObject", repository_arn(policy))
                self.auth.authorize(identity, NO_ADDRESS, read)
            except Denied:
                assert denied or policy not in policies
            else:
                assert not denied
                assert policy in policies

    def teardown(self) -> None:
        if not self.failed:
            relations = sum(len(user.groups | user.policies) for user in self.users.values())
            relations += sum(len(policies) for policies in self.groups.values())
            keys = sum(len(user.keys) for user in self.users.values())
            entities = len(self.users) + len(self.groups) + len(self.policies)
            found = len(list(self.inner.scan(AUTH)))
            assert found == entities + relations + 2 * keys + len(self.ended)


def statement_of(policy: str, *, denies: bool) -> Statement:
    """A policy allows what bears its name, or denies everything."""
    return (
        deny("fs:*", resource=repository_arn("*"))
        if denies
        else allow("fs:*", resource=repository_arn(policy))
    )


TestAuthMachine = AuthMachine.TestCase
