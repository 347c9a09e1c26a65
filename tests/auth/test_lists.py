"""Names, and lists in pages."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from lakebed.auth import (
    AlreadyExists,
    AuthNotFound,
    AuthPage,
    AuthService,
    CredentialNotFound,
    GroupNotFound,
    InvalidName,
    PolicyNotFound,
    UserNotFound,
)
from lakebed.base.runtime import ThreadRuntime
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.auth.kit import allow, service

ResultT = TypeVar("ResultT")


@pytest.mark.parametrize(
    "name",
    ["", " a", "a ", "a/b", "a*", "a?", "${user}", "a\x00b", "a\n", "\ud800", "..", "ä" * 128],
)
def test_a_name_that_would_mean_something_else_is_refused(auth: AuthService, name: str) -> None:
    auth.users.create("a")
    auth.groups.create("g")
    with pytest.raises(InvalidName):
        auth.users.create(name)
    with pytest.raises(InvalidName):
        auth.groups.create(name)
    with pytest.raises(InvalidName):
        auth.policies.create(name, [allow("*")])
    asked: list[Callable[[], object]] = [
        lambda: auth.users.get(name),
        lambda: auth.groups.delete(name),
        lambda: auth.policies.delete(name),
        lambda: auth.memberships.add(name, "g"),
        lambda: auth.memberships.add("a", name),
        lambda: auth.memberships.remove(name, "g"),
        lambda: auth.memberships.sources_of(name),
        lambda: auth.memberships.targets_of(name),
        lambda: auth.credentials.create(name),
        lambda: auth.credentials.get("a", name),
        lambda: auth.effective_policies(name),
    ]
    for ask in asked:
        with pytest.raises(AuthNotFound):
            ask()


@pytest.mark.parametrize("name", ["jane.doe@example.com", "Jané Doe", "a:b,c;d%2F#", "漢字", "-"])
def test_names_of_people_are_fine(auth: AuthService, name: str) -> None:
    auth.users.create(name)
    auth.groups.create(name)
    auth.memberships.add(name, name)
    assert auth.memberships.targets_of(name).items[0].id == name
    with pytest.raises(AlreadyExists):
        auth.users.create(name)


NAMES = ["a", "a b", "a!", "a-b", "a.b", "a0", "ab", "b", "ä"]


def all_pages(listing: Callable[[str], AuthPage[str]]) -> list[str]:
    found: list[str] = []
    for _ in range(100):
        items, has_more = listing(found[-1] if found else "")
        found.extend(items)
        if not has_more:
            return found
        assert len(items) == 2
    raise AssertionError("the listing never ends")


def test_every_list_comes_in_pages_in_order_of_names(auth: AuthService) -> None:
    auth.groups.create("all")
    auth.users.create("one")
    for name in NAMES:
        auth.users.create(name)
        auth.groups.create(name)
        auth.policies.create(name, [allow("*")])
        auth.memberships.add(name, "all")
        auth.memberships.add("one", name)
        auth.user_policies.add("one", name)
        auth.group_policies.add("all", name)

    def ids(page: AuthPage[object]) -> AuthPage[str]:
        return AuthPage(tuple(item.id for item in page.items), page.has_more)  # type: ignore[attr-defined]

    lists: list[Callable[..., AuthPage[object]]] = [
        auth.policies.list,
        lambda **bounds: auth.memberships.sources_of("all", **bounds),
        lambda **bounds: auth.memberships.targets_of("one", **bounds),
        lambda **bounds: auth.user_policies.targets_of("one", **bounds),
        lambda **bounds: auth.group_policies.targets_of("all", **bounds),
        lambda **bounds: auth.effective_policies("one", **bounds),
    ]
    for listing in lists:

        def page(after: str, listing: Callable[..., AuthPage[object]] = listing) -> AuthPage[str]:
            return ids(listing(after=after, amount=2))

        assert all_pages(page) == NAMES
        assert list(ids(listing()).items) == NAMES
        some = ids(listing(prefix="a"))
        assert (list(some.items), some.has_more) == (NAMES[:7], False)
        assert ids(listing(prefix="a", after="ab")).items == ()
        assert ids(listing(prefix="b", after="a")).items == ("b",)
        assert ids(listing(amount=9)) == (tuple(NAMES), False)
        assert ids(listing(amount=8)) == (tuple(NAMES[:8]), True)
        assert ids(listing(amount=0)) == ((), True)


def test_keys_come_in_pages(auth: AuthService) -> None:
    auth.users.create("jane")
    auth.users.create("jane b")
    keys = sorted(auth.credentials.create("jane").access_key_id for _ in range(5))
    auth.credentials.create("jane b")

    def page(after: str) -> AuthPage[str]:
        items, has_more = auth.credentials.list("jane", after=after, amount=2)
        return AuthPage(tuple(item.access_key_id for item in items), has_more)

    assert all_pages(page) == keys
    assert auth.credentials.list("jane", prefix=keys[2]).items[0].access_key_id == keys[2]


def test_what_is_not_there_is_not_found(auth: AuthService) -> None:
    auth.users.create("jane")
    for ask, error in (
        (lambda: auth.users.get("x"), UserNotFound),
        (lambda: auth.users.delete("x"), UserNotFound),
        (lambda: auth.groups.get("x"), GroupNotFound),
        (lambda: auth.groups.delete("x"), GroupNotFound),
        (lambda: auth.policies.get("x"), PolicyNotFound),
        (lambda: auth.memberships.add("jane", "x"), GroupNotFound),
        (lambda: auth.memberships.remove("x", "x"), UserNotFound),
        (lambda: auth.user_policies.add("jane", "x"), PolicyNotFound),
        (lambda: auth.credentials.get("jane", "AKIA"), CredentialNotFound),
    ):
        with pytest.raises(error, match=r"not found: \S+$"):
            ask()
    assert issubclass(AuthNotFound, KeyError)


def test_a_listing_of_many_makes_few_calls() -> None:
    calls: list[StoreCall] = []

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        calls.append(call)
        return apply()

    auth = service(FaultyStore(MemoryStore(ThreadRuntime()), intercept))
    auth.groups.create("all")
    for number in range(300):
        auth.users.create(f"user-{number:03}")
        auth.memberships.add(f"user-{number:03}", "all")
    calls.clear()
    assert len(auth.memberships.sources_of("all", amount=300).items) == 300
    assert len(calls) < 15
