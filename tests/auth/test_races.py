"""Users and permissions under the simulator: every seed holds, every mutant is caught."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pytest
from google.protobuf.message import Message

from lakebed.auth import (
    AccessKeyID,
    AuthenticationFailed,
    AuthService,
    Group,
    Identity,
    NewCredential,
    UniqueID,
    UserID,
)
from lakebed.auth import records_pb2 as pb
from lakebed.auth.cache import ExpiringCache
from lakebed.auth.entities.credentials import AccessKeys
from lakebed.auth.entities.keys import AUTH, SETUP_NAME, pair_prefix, split_pair
from lakebed.auth.secrets import SecretBox
from lakebed.auth.setup import Setup, _Attempt
from lakebed.base.runtime import Runtime, new_unique_id
from lakebed.kv import Store
from lakebed.kv.records import Record, RecordKind, Records
from lakebed.testing.simulation.explore import first_failure
from tests.auth.kit import KEYS, UNCACHED
from tests.auth.scenarios import (
    SCENARIOS,
    Memberships,
    open_right,
    people_hold,
    setup_holds,
    with_memberships,
)
from tests.kit.rounds import rounds

MessageT = TypeVar("MessageT", bound=Message)

SEEDS = rounds(60, long=10_000, fast=10)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_seed_holds(name: str) -> None:
    assert first_failure(f"tests.auth.scenarios:{name}", range(SEEDS)) is None


@pytest.mark.slow
def test_the_scenarios_reach_what_they_are_about() -> None:
    replaced = Counter[bool]()

    class Counting(Setup):
        def _carry_out(self, attempt: _Attempt) -> None:
            replaced[bool(attempt.message.replaced)] += 1
            super()._carry_out(attempt)

    for seed in range(40):
        setup_holds(seed, with_setup(Counting))
    assert replaced[False] > 30
    assert replaced[True] > 10
    assert sum(people_hold(seed) for seed in range(100)) > 20


# Mutants of setup


def with_setup(kind: type[Setup]) -> Callable[[Store, Runtime], AuthService]:
    def open_service(store: Store, runtime: Runtime) -> AuthService:
        auth = open_right(store, runtime)
        auth._setup = kind(store, runtime, auth.users, auth.credentials)
        return auth

    return open_service


class ClaimsBlindly(Setup):
    """Does not look whether someone else claimed first."""

    def _claim(
        self, found: Record[pb.Setup] | None, user: str, email: str, credential: NewCredential
    ) -> _Attempt | None:
        message = pb.Setup(
            attempt_id=new_unique_id(self._runtime),
            user=pb.FirstUser(user=user, unique_id=new_unique_id(self._runtime)),
        )
        version = self._record.set(SETUP_NAME, message)
        return _Attempt(message=message, version=version, email=email, credential=credential)


class FinishesBlindly(Setup):
    """Does not look whether its claim still stands when it finishes."""

    def _finish(self, attempt: _Attempt) -> None:
        attempt.message.finished = True
        self._record.set(SETUP_NAME, attempt.message)


class WritesWithoutFence(Setup):
    """Does not look whether its claim still stands before each write."""

    def _replace(
        self, attempt: _Attempt, kind: RecordKind[MessageT], name: bytes, message: MessageT
    ) -> None:
        Records(self._store, kind, AUTH).set(name, message)


class ChecksBeforeItReads(Setup):
    """Looks at its claim first and at what it replaces afterwards."""

    def _replace(
        self, attempt: _Attempt, kind: RecordKind[MessageT], name: bytes, message: MessageT
    ) -> None:
        if self._record.get(SETUP_NAME).predicate == attempt.version:
            Records(self._store, kind, AUTH).set(name, message)
        else:
            super()._replace(attempt, kind, name, message)


SETUP_MUTANTS = [ClaimsBlindly, FinishesBlindly, WritesWithoutFence, ChecksBeforeItReads]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SETUP_MUTANTS)
def test_a_broken_setup_is_found_out(mutant: type[Setup]) -> None:
    assert found_out(lambda seed: setup_holds(seed, with_setup(mutant)))


def found_out(scenario: Callable[[int], object]) -> bool:
    for seed in range(400):
        try:
            scenario(seed)
        except (AssertionError, ValueError):
            return True
    return False


# Mutants of what people have


class TrustsNames(Memberships):
    """Takes a relation for alive if there is someone of that name."""

    def _ends(
        self, chunk: Sequence[Record[pb.Relation]]
    ) -> tuple[dict[str, pb.User], dict[str, pb.Group]]:
        lefts, rights = super()._ends(chunk)
        for record in chunk:
            left, right = split_pair(record.name)
            if left in lefts and right in rights:
                lefts[left].unique_id = record.message.source_unique_id
                rights[right].unique_id = record.message.target_unique_id
        return lefts, rights

    def all_targets_of(
        self, left: str, unique_id: UniqueID, *, prefix: str = "", after: str = ""
    ) -> Iterator[Group]:
        for record, _, message in self._alive(self._records.scan(prefix=pair_prefix(left))):
            yield self._target.entity(split_pair(record.name)[1], message)

    def prune_source(self, left: str, unique_id: UniqueID) -> None:
        """It dies before."""


def test_memberships_by_name_alone_are_found_out() -> None:
    assert found_out(lambda seed: people_hold(seed, with_memberships(TrustsNames)))


class TrustsOwners(AccessKeys):
    """Takes a key for good if there is someone of the name of its user; prunes nothing."""

    def lookup(self, access_key_id: str) -> tuple[Identity, str]:
        record = self._find(access_key_id)
        if record is None or not self._users.live_messages([record.message.user]):
            raise AuthenticationFailed
        return super_lookup(self, record)

    def prune(self, user: str, unique_id: UniqueID) -> None:
        """It dies before."""


def super_lookup(credentials: AccessKeys, record: Record[pb.Credential]) -> tuple[Identity, str]:
    owner, key = UniqueID(record.message.user_unique_id), AccessKeyID(record.name.decode())
    identity = Identity(
        user_id=UserID(record.message.user), unique_id=owner, committer="", access_key_id=key
    )
    return identity, credentials._box.open(record.message.secret, key, owner)


def test_broken_credentials_are_found_out() -> None:
    def open_service(store: Store, runtime: Runtime) -> AuthService:
        auth = open_right(store, runtime)
        auth.credentials = TrustsOwners(
            store, runtime, auth.users, SecretBox(KEYS, runtime), changed=auth._forget
        )
        auth._known = ExpiringCache(auth.credentials.lookup, runtime, UNCACHED)
        return auth

    assert found_out(lambda seed: people_hold(seed, open_service))
