"""What is remembered, for how long, and that it shows only in speed."""

import timeit
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from lakebed.auth import (
    AlreadySetUp,
    AuthCacheSettings,
    AuthenticationFailed,
    AuthService,
    Identity,
    KeyPair,
)
from lakebed.auth.cache import ExpiringCache
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from tests.auth.kit import NO_ADDRESS, READ, Clockwork, allow, deny, equip, may, service


def test_changes_by_another_process_apply_within_the_bound(store: Store) -> None:
    clock = Clockwork()
    here = service(store, clock, settings=AuthCacheSettings(cache_seconds=5.0))
    there = service(store, clock)
    there.setup("admin")
    there.users.create("jane")
    there.memberships.add("jane", "Viewers")
    new, jane = equip(here, "jane")
    token, _ = here.login(new.access_key_id, new.secret_access_key)
    assert may(here, jane, READ)
    assert here.authenticate_token(token) == Identity(
        user_id=jane.user_id,
        unique_id=jane.unique_id,
        committer=jane.committer,
        access_key_id=None,
    )
    there.users.delete("jane")
    clock.sleep(4.9)
    assert may(here, jane, READ)
    assert here.authenticate(new.access_key_id, new.secret_access_key) == jane
    clock.sleep(0.2)
    assert not may(here, jane, READ)
    with pytest.raises(AuthenticationFailed):
        here.authenticate(new.access_key_id, new.secret_access_key)
    with pytest.raises(AuthenticationFailed):
        here.authenticate_token(token)


def test_every_change_through_the_same_process_counts_at_once() -> None:
    auth = service(MemoryStore(Clockwork()), settings=AuthCacheSettings(cache_seconds=1e9))
    auth.users.create("jane")
    new, jane = equip(auth, "jane")
    token, _ = auth.login(new.access_key_id, new.secret_access_key)
    auth.groups.create("g")
    auth.policies.create("p", [allow("fs:*")])
    auth.policies.create("q", [allow("fs:*")])
    changes: list[tuple[Callable[[], object], bool]] = [
        (lambda: auth.user_policies.add("jane", "p"), True),
        (lambda: auth.policies.update("p", [deny("fs:*")]), False),
        (lambda: auth.policies.update("p", [allow("fs:*")]), True),
        (lambda: auth.user_policies.remove("jane", "p"), False),
        (lambda: auth.memberships.add("jane", "g"), False),
        (lambda: auth.group_policies.add("g", "p"), True),
        (lambda: auth.group_policies.remove("g", "p"), False),
        (lambda: auth.group_policies.add("g", "p"), True),
        (lambda: auth.memberships.remove("jane", "g"), False),
        (lambda: auth.memberships.add("jane", "g"), True),
        (lambda: auth.policies.delete("p"), False),
        (lambda: auth.group_policies.add("g", "q"), True),
        (lambda: auth.groups.delete("g"), False),
    ]
    for change, allowed in changes:
        change()
        assert may(auth, jane, READ) is allowed
    other, _ = auth.login(new.access_key_id, new.secret_access_key)
    for each in (token, other):
        assert auth.authenticate_token(each).user_id == "jane"
    auth.logout(token)
    with pytest.raises(AuthenticationFailed):
        auth.authenticate_token(token)
    assert auth.authenticate_token(other).user_id == "jane"
    auth.credentials.delete("jane", new.access_key_id)
    with pytest.raises(AuthenticationFailed):
        auth.authenticate(new.access_key_id, new.secret_access_key)
    with pytest.raises(AuthenticationFailed):
        auth.authenticate_token(other)


def test_a_hit_is_fast_and_asks_no_store(auth: AuthService, store: Store) -> None:
    new = auth.setup("admin")
    token, _ = auth.login(new.access_key_id, new.secret_access_key)

    def by_key() -> None:
        identity = auth.authenticate(new.access_key_id, new.secret_access_key)
        auth.authorize(identity, NO_ADDRESS, READ)

    def by_token() -> None:
        auth.authorize(auth.authenticate_token(token), NO_ADDRESS, READ)

    by_key()
    by_token()
    store.close()
    for ask in (by_key, by_token):
        # 5 us on a quiet machine; the best of many, since this one may not be.
        assert min(timeit.repeat(ask, number=100, repeat=50)) / 100 < 50e-6


def test_many_threads_share_one_service(auth: AuthService) -> None:
    auth.setup("admin")
    auth.users.create("jane")
    new, jane = equip(auth, "jane")

    def work(number: int) -> None:
        if number % 4 == 0:
            auth.memberships.add("jane", "Viewers")
            assert auth.memberships.targets_of("jane").items
        elif number % 4 == 1:
            auth.users.create(f"user-{number}")
            auth.users.delete(f"user-{number}")
        else:
            assert auth.authenticate(new.access_key_id, new.secret_access_key) == jane
            may(auth, jane, READ)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert may(auth, jane, READ)
    assert [user.id for user in auth.users.list().items] == ["admin", "jane"]


# The cache itself


def test_it_is_kept_from_before_it_was_read() -> None:
    clock = Clockwork()

    def load(key: str) -> float:
        clock.sleep(3)
        return clock.now()

    cache = ExpiringCache(load, clock, AuthCacheSettings(cache_seconds=5.0))
    first = cache.get("a")
    clock.sleep(1.9)
    assert cache.get("a") == first
    clock.sleep(0.2)
    assert cache.get("a") > first


def test_a_value_changed_during_its_read_is_not_cached() -> None:
    values = iter(["old", "new"])

    def load(key: str) -> str:
        value = next(values)
        if value == "old":
            cache.clear()  # the change comes after the read, and before it is kept
        return value

    cache = ExpiringCache(load, Clockwork(), AuthCacheSettings())
    assert cache.get("a") == "old"
    assert cache.get("a") == "new"
    assert cache.get("a") == "new"


def test_it_is_bounded_and_forgets_the_oldest() -> None:
    loaded: list[int] = []

    def load(key: int) -> int:
        loaded.append(key)
        return key

    cache = ExpiringCache(load, Clockwork(), AuthCacheSettings(cache_entries_max=3))
    for key in (1, 2, 3, 1, 4, 2):
        assert cache.get(key) == key
    assert loaded == [1, 2, 3, 4]
    assert cache.get(1) == 1
    assert loaded == [1, 2, 3, 4, 1]
    assert len(cache._entries) == 3


def test_failures_are_not_kept() -> None:
    answers: list[object] = [AuthenticationFailed(), "found"]

    def load(key: str) -> object:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    cache = ExpiringCache(load, Clockwork(), AuthCacheSettings())
    with pytest.raises(AuthenticationFailed):
        cache.get("a")
    assert cache.get("a") == "found"


def test_failures_of_authentication_are_kept_where_that_is_asked_for() -> None:
    clock = Clockwork()
    loaded: list[str] = []

    def load(key: str) -> str:
        loaded.append(key)
        if key.startswith("invented"):
            raise AuthenticationFailed(f"no {key}")
        return key

    settings = AuthCacheSettings(cache_seconds=5.0, cache_entries_max=3)
    cache = ExpiringCache(load, clock, settings, caches_failures=True)
    cache.get("known")
    for key in ["invented1", "invented1", *(f"invented{each}" for each in range(2, 6))]:
        with pytest.raises(AuthenticationFailed) as caught:
            cache.get(key)
        assert caught.value.reason == f"no {key}"
    assert loaded == ["known", *(f"invented{each}" for each in range(1, 6))]
    assert len(cache._failures) == 3
    assert cache.get("known") == "known"
    assert loaded[-1] == "invented5", "failures have room of their own"
    clock.sleep(5.1)
    with pytest.raises(AuthenticationFailed):
        cache.get("invented5")
    cache.clear()
    with pytest.raises(AuthenticationFailed):
        cache.get("invented5")
    assert loaded[6:] == ["invented5", "invented5"]


def test_an_unknown_key_costs_the_store_one_read(store: Store) -> None:
    auth = service(store)
    auth.setup("admin")
    with pytest.raises(AuthenticationFailed):
        auth.authenticate("AKIAINVENTED", "secret", client="10.0.0.1")
    with pytest.raises(AuthenticationFailed):
        auth.secret_for("x" * 1_000_000)
    store.close()
    for _ in range(2):
        with pytest.raises(AuthenticationFailed):
            auth.authenticate("AKIAINVENTED", "secret", client="10.0.0.1")
        with pytest.raises(AuthenticationFailed):
            auth.secret_for("x" * 1_000_000)
    assert all(len(key) < 100 for key in auth._known._failures)


def test_a_key_that_is_made_after_it_was_tried_works_at_once() -> None:
    auth = service(MemoryStore(Clockwork()))
    with pytest.raises(AuthenticationFailed):
        auth.authenticate("AKIALATER", "s" * 40)
    auth.setup("admin", KeyPair(access_key_id="AKIALATER", secret_access_key="s" * 40))
    assert auth.authenticate("AKIALATER", "s" * 40).user_id == "admin"


def test_strangers_who_set_up_what_is_set_up_do_not_make_the_server_forget() -> None:
    clock = Clockwork()
    store = MemoryStore(clock)
    here, there = service(store, clock), service(store, clock)
    new = there.setup("admin")
    admin = here.authenticate(new.access_key_id, new.secret_access_key)
    there.credentials.delete("admin", new.access_key_id)
    with pytest.raises(AlreadySetUp):
        here.setup("stranger")
    assert here.authenticate(new.access_key_id, new.secret_access_key) == admin


def test_a_token_ends_on_time_though_it_is_remembered() -> None:
    clock = Clockwork()
    auth = service(MemoryStore(clock), clock, settings=AuthCacheSettings(cache_seconds=1e9))
    new = auth.setup("admin")
    token, expires_at = auth.login(new.access_key_id, new.secret_access_key)
    clock.seconds = expires_at - 1
    auth.authenticate_token(token)
    clock.seconds = expires_at
    with pytest.raises(AuthenticationFailed):
        auth.authenticate_token(token)


def test_another_process_accepts_an_ended_token_no_longer_than_it_remembers() -> None:
    clock = Clockwork()
    store = MemoryStore(clock)
    here, there = service(store, clock), service(store, clock)
    new = here.setup("admin")
    token, expires_at = here.login(new.access_key_id, new.secret_access_key)
    there.authenticate_token(token)
    here.logout(token)
    with pytest.raises(AuthenticationFailed):
        here.authenticate_token(token)
    clock.sleep(AuthCacheSettings().cache_seconds)
    with pytest.raises(AuthenticationFailed):
        there.authenticate_token(token)
    # The record stays for as long as the token would have been good, and no longer.
    assert here.clean_logouts() == 0
    with pytest.raises(AuthenticationFailed):
        here.authenticate_token(token)
    clock.sleep(expires_at - clock.now() + 1)
    assert (here.clean_logouts(), here.clean_logouts()) == (1, 0)


def test_one_memory_does_not_prolong_another() -> None:
    """A token that is seen late must not live on what was read about its key long ago."""
    clock = Clockwork()
    store = MemoryStore(clock)
    here, there = service(store, clock), service(store, clock)
    new = here.setup("admin")
    token, _ = here.login(new.access_key_id, new.secret_access_key)
    there.authenticate(new.access_key_id, new.secret_access_key)
    here.credentials.delete("admin", new.access_key_id)
    seconds = AuthCacheSettings().cache_seconds
    clock.sleep(seconds * 0.9)
    with suppress(AuthenticationFailed):
        there.authenticate_token(token)
    clock.sleep(seconds * 0.2)
    with pytest.raises(AuthenticationFailed):
        there.authenticate_token(token)


def test_the_groups_of_a_user_are_as_old_as_other_records(store: Store) -> None:
    clock = Clockwork()
    here = service(store, clock, settings=AuthCacheSettings(cache_seconds=5.0))
    there = service(store, clock)
    there.setup("admin")
    there.users.create("jane")
    _, jane = equip(here, "jane")
    assert here.groups_of((jane.user_id, jane.unique_id)) == ()
    there.memberships.add("jane", "Viewers")
    assert here.groups_of((jane.user_id, jane.unique_id)) == ()
    clock.sleep(5.1)
    assert here.groups_of((jane.user_id, jane.unique_id)) == ("Viewers",)
    here.memberships.add("jane", "Developers")
    assert here.groups_of((jane.user_id, jane.unique_id)) == ("Developers", "Viewers"), (
        "a change by this process"
    )
