"""Who must wait after wrong secrets, and who must not."""

import pytest

from lakebed.auth import TooManyLogins
from lakebed.auth.throttle import (
    CLIENT_FAILURES,
    CLIENT_SECONDS,
    KEY_FAILURES,
    KEY_SECONDS,
    Throttle,
)
from tests.auth.kit import Clockwork

CLOCK = Clockwork()


@pytest.fixture
def throttle() -> Throttle:
    return Throttle(CLOCK)


def wait(throttle: Throttle, key: str, client: str) -> int:
    """In how many seconds one may try."""
    try:
        throttle.check(key, client)
    except TooManyLogins as error:
        return error.retry_seconds
    return 0


def fail(throttle: Throttle, key: str, client: str, times: int) -> None:
    for _ in range(times):
        assert wait(throttle, key, client) == 0
        throttle.note_failure(key, client)


def test_a_key_can_be_tried_so_often_from_one_address(throttle: Throttle) -> None:
    fail(throttle, "key", "10.0.0.1", KEY_FAILURES)
    assert wait(throttle, "key", "10.0.0.1") == KEY_SECONDS
    for key, client in (("key", "10.0.0.2"), ("other", "10.0.0.1")):
        assert wait(throttle, key, client) == 0
    CLOCK.sleep(KEY_SECONDS - 1)
    assert wait(throttle, "key", "10.0.0.1") == 1
    CLOCK.sleep(1)
    fail(throttle, "key", "10.0.0.1", 1)
    assert wait(throttle, "key", "10.0.0.1") == KEY_SECONDS


def test_an_address_can_try_so_many_keys(throttle: Throttle) -> None:
    throttle.note_success("neighbour", "10.0.0.1")
    for number in range(CLIENT_FAILURES):
        fail(throttle, f"key{number}", "10.0.0.1", 1)
    assert 0 < wait(throttle, "another", "10.0.0.1") <= CLIENT_SECONDS
    assert wait(throttle, "another", "10.0.0.2") == 0
    assert wait(throttle, "neighbour", "10.0.0.1") == 0, "it was right before"
    CLOCK.sleep(CLIENT_SECONDS)
    assert wait(throttle, "another", "10.0.0.1") == 0


def test_who_was_right_before_may_still_not_guess(throttle: Throttle) -> None:
    throttle.note_success("key", "10.0.0.1")
    fail(throttle, "key", "10.0.0.1", KEY_FAILURES)
    assert wait(throttle, "key", "10.0.0.1") > 0


def test_addresses_of_one_ipv6_network_are_one(throttle: Throttle) -> None:
    fail(throttle, "key", "2001:db8:1:2::1", KEY_FAILURES)
    assert wait(throttle, "key", "2001:db8:1:2:ffff::9") > 0
    assert wait(throttle, "key", "2001:db8:1:3::1") == 0
    fail(throttle, "key", "::ffff:10.0.0.9", KEY_FAILURES)
    assert wait(throttle, "key", "10.0.0.9") > 0


@pytest.mark.slow
def test_what_is_remembered_is_bounded(throttle: Throttle) -> None:
    for number in range(20_000):
        throttle.note_failure(f"key{number}", f"client{number}")
    assert len(throttle._keys) == len(throttle._clients) == 10_000


def test_a_key_of_megabytes_is_not_remembered(throttle: Throttle) -> None:
    for number in range(KEY_FAILURES):
        throttle.note_failure(f"{number}" + "x" * 1_000_000, "10.0.0.1")
    assert wait(throttle, "y" * 1_000_000, "10.0.0.1") > 0, "what is no id shares a bucket"
    assert sum(len(key) for key, _ in throttle._keys._held) == 0
