"""Who must wait after wrong secrets, and who must not."""

import pytest

from lakebed.auth import TooManyLogins
from lakebed.auth.secrets import KEY_FAILURES, KEY_SECONDS, Throttle
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


def fail(throttle: Throttle, key: str, client: str, times: int, *, is_known: bool = True) -> None:
    for _ in range(times):
        assert wait(throttle, key, client) == 0
        throttle.note_failure(key, client, is_known=is_known)


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


@pytest.mark.parametrize("is_known", [True, False])
def test_failures_of_other_keys_do_not_count(throttle: Throttle, is_known: bool) -> None:
    for number in range(1000):
        fail(throttle, f"key{number}", "10.0.0.1", KEY_FAILURES, is_known=is_known)
    assert wait(throttle, "neighbour", "10.0.0.1") == 0
    fail(throttle, "neighbour", "10.0.0.1", KEY_FAILURES)


def test_a_key_that_does_not_exist_is_answered_like_one_that_does(throttle: Throttle) -> None:
    fail(throttle, "invented", "10.0.0.1", KEY_FAILURES, is_known=False)
    assert wait(throttle, "invented", "10.0.0.1") == KEY_SECONDS
    assert wait(throttle, "invented", "10.0.0.2") == 0


def test_addresses_of_one_ipv6_network_are_one(throttle: Throttle) -> None:
    fail(throttle, "key", "2001:db8:1:2::1", KEY_FAILURES)
    assert wait(throttle, "key", "2001:db8:1:2:ffff::9") > 0
    assert wait(throttle, "key", "2001:db8:1:3::1") == 0
    fail(throttle, "key", "::ffff:10.0.0.9", KEY_FAILURES)
    assert wait(throttle, "key", "10.0.0.9") > 0


@pytest.mark.slow
def test_the_memory_of_failures_is_bounded(throttle: Throttle) -> None:
    for number in range(20_000):
        for is_known in (True, False):
            throttle.note_failure(f"key{number}", f"client{number}", is_known=is_known)
    assert len(throttle._known) == len(throttle._unknown) == 10_000


@pytest.mark.slow
def test_invented_keys_do_not_push_out_failures_of_a_known_one(throttle: Throttle) -> None:
    fail(throttle, "key", "10.0.0.1", KEY_FAILURES)
    for number in range(20_000):
        throttle.note_failure(f"invented{number}", "10.0.0.1", is_known=False)
    assert wait(throttle, "key", "10.0.0.1") == KEY_SECONDS


def test_a_key_of_megabytes_is_not_remembered(throttle: Throttle) -> None:
    for number in range(KEY_FAILURES):
        throttle.note_failure(f"{number}" + "x" * 1_000_000, "10.0.0.1", is_known=False)
    assert wait(throttle, "y" * 1_000_000, "10.0.0.1") > 0, "what is no id shares a bucket"
    assert sum(len(key) for key, _ in throttle._unknown._entries) == 0
