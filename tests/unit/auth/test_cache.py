"""What is remembered, for how long, and that it shows only in speed."""

import timeit
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.auth import (
    AuthenticationFailed,
    AuthService,
    AuthSettings,
    Identity,
)
from lakebed.kv import Store
from tests.unit.auth.kit import READ, Clockwork, equip, may, service


def test_what_another_process_changes_counts_within_the_bound(store: Store) -> None:
    clock = Clockwork()
    here = service(store, clock, settings=AuthSettings(cache_seconds=5.0))
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


def test_a_hit_is_fast_and_asks_no_store(auth: AuthService, store: Store) -> None:
    new = auth.setup("admin")
    token, _ = auth.login(new.access_key_id, new.secret_access_key)

    def by_key() -> None:
        identity = auth.authenticate(new.access_key_id, new.secret_access_key)
        auth.authorize(identity, READ)

    def by_token() -> None:
        auth.authorize(auth.authenticate_token(token), READ)

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
            assert auth.memberships.rights_of("jane").items
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
