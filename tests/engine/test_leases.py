"""Leases: one holder at a time; a failure at any step leads to a free or a dead lease."""

from collections.abc import Callable
from typing import Final

import pytest

from lakebed.base.leases import FORGOTTEN_SECONDS, Lease, with_heartbeat
from lakebed.base.runtime import ResultT, ThreadRuntime
from lakebed.engine.keys import LEASES
from lakebed.engine.leases import LeaseRecords
from lakebed.kv import KeyNotFound, OutcomeUnknown, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.records import Records
from lakebed.kv.schema import METADATA_PARTITION
from lakebed.testing.faults import FaultyStore, StoreCall

SECONDS: Final = 60.0


class HandTurnedClock(ThreadRuntime):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.ahead = 0.0
        """Of the wall clock alone."""

    def now(self) -> float:
        return 1_700_000_000 + self.seconds + self.ahead

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandTurnedClock:
    return HandTurnedClock()


@pytest.fixture
def store(clock: HandTurnedClock) -> MemoryStore:
    return MemoryStore(clock)


def table(store: Store, clock: HandTurnedClock) -> LeaseRecords:
    return LeaseRecords(store, clock, b"work", SECONDS)


def lease(store: Store, clock: HandTurnedClock) -> Lease:
    return Lease(table(store, clock), clock)


def holder(store: Store) -> str:
    return Records(store, LEASES, METADATA_PARTITION).get(b"work").message.holder


class Disturbed:
    """A store with a fault at one write."""

    def __init__(self, inner: Store, how: Callable[[Callable[[], object]], None]) -> None:
        self.left = 1
        self._how = how
        self.store = FaultyStore(inner, self._intercept)

    def _intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.writes and self.left:
            self.left -= 1
            self._how(apply)
        return apply()


def lost_before(_apply: Callable[[], object]) -> None:
    raise OutcomeUnknown("the request was lost")


def lost_after(apply: Callable[[], object]) -> None:
    apply()
    raise OutcomeUnknown("the reply was lost")


LOST: Final = pytest.mark.parametrize("how", [lost_before, lost_after])


def test_of_two_that_take_a_free_lease_one_has_it(
    store: MemoryStore, clock: HandTurnedClock
) -> None:
    other = lease(store, clock)

    def take_first(_apply: Callable[[], object]) -> None:
        assert other.acquire()

    disturbed = Disturbed(store, take_first)
    assert not lease(disturbed.store, clock).acquire()
    assert holder(store) == other.holder


def test_of_two_that_take_a_dead_lease_one_has_it(
    store: MemoryStore, clock: HandTurnedClock
) -> None:
    dead, other = lease(store, clock), lease(store, clock)
    assert dead.acquire()
    disturbed = Disturbed(store, lambda _apply: assert_takes(other))
    late = lease(disturbed.store, clock)
    assert (late.acquire(), other.acquire()) == (False, False)
    clock.seconds += SECONDS
    assert not late.acquire()
    assert holder(store) == other.holder
    assert not dead.renew()
    assert other.renew()


def assert_takes(other: Lease) -> None:
    assert other.acquire()


@LOST
def test_a_take_whose_reply_is_lost_is_a_take(
    store: MemoryStore, clock: HandTurnedClock, how: Callable[[Callable[[], object]], None]
) -> None:
    one = lease(Disturbed(store, how).store, clock)
    assert one.acquire()
    assert holder(store) == one.holder
    assert not lease(store, clock).acquire()


@LOST
def test_a_renewal_whose_reply_is_lost_is_a_renewal(
    store: MemoryStore, clock: HandTurnedClock, how: Callable[[Callable[[], object]], None]
) -> None:
    disturbed = Disturbed(store, how)
    disturbed.left = 0
    one, other = lease(disturbed.store, clock), lease(store, clock)
    assert one.acquire()
    assert not other.acquire()
    clock.seconds += SECONDS - 1
    disturbed.left = 1
    assert one.keep()
    clock.seconds += SECONDS - 1
    assert not other.acquire()


@LOST
def test_a_release_whose_reply_is_lost_leaves_a_free_or_a_dead_lease(
    store: MemoryStore, clock: HandTurnedClock, how: Callable[[Callable[[], object]], None]
) -> None:
    disturbed = Disturbed(store, how)
    disturbed.left = 0
    records, other = table(disturbed.store, clock), lease(store, clock)
    one = Lease(records, clock)
    assert one.acquire()
    disturbed.left = 1
    records.release_lease(one.holder)
    assert other.acquire() == (how is lost_after)
    clock.seconds += SECONDS
    assert other.acquire()


def test_a_former_holder_changes_nothing(store: MemoryStore, clock: HandTurnedClock) -> None:
    records = table(store, clock)
    former, other = Lease(records, clock), lease(store, clock)
    assert former.acquire()
    assert not other.acquire()
    clock.seconds += SECONDS
    assert other.acquire()
    assert not former.keep()
    records.release_lease(former.holder)
    assert other.renew()


def test_a_dead_lease_is_taken_by_the_clock_of_the_observer(
    store: MemoryStore, clock: HandTurnedClock
) -> None:
    died, other = lease(store, clock), lease(store, clock)
    clock.ahead = 600  # the clock of the process that died
    assert died.acquire()
    clock.ahead = -600
    assert not other.acquire()
    clock.seconds += SECONDS - 1
    assert not other.acquire()
    clock.seconds += 1
    assert other.acquire()


def test_a_heartbeat_begins_the_observation_anew(
    store: MemoryStore, clock: HandTurnedClock
) -> None:
    one, other = lease(store, clock), lease(store, clock)
    assert one.acquire()
    for _ in range(5):
        assert not other.acquire()
        clock.seconds += SECONDS - 1
        assert one.renew()


def test_a_forgotten_lease_needs_no_observation(store: MemoryStore, clock: HandTurnedClock) -> None:
    died = lease(store, clock)
    assert died.acquire()
    clock.seconds += FORGOTTEN_SECONDS
    assert not lease(store, clock).acquire()
    clock.seconds += 1
    assert lease(store, clock).acquire()


def test_it_is_renewed_when_a_third_of_its_life_is_over(
    store: MemoryStore, clock: HandTurnedClock
) -> None:
    writes = 0

    def count(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        nonlocal writes
        writes += call.writes
        return apply()

    one = lease(FaultyStore(store, count), clock)
    assert one.acquire()
    clock.seconds += SECONDS / 3 - 1
    assert one.keep()
    assert writes == 1
    clock.seconds += 1
    assert one.keep()
    assert writes == 2


def test_a_released_lease_leaves_no_record(store: MemoryStore, clock: HandTurnedClock) -> None:
    records = table(store, clock)
    one = Lease(records, clock)
    assert one.acquire()
    records.release_lease(one.holder)
    with pytest.raises(KeyNotFound):
        holder(store)


def test_heartbeats_end_with_the_work_even_if_it_fails() -> None:
    runtime = ThreadRuntime()
    beats, has_beaten = 0, runtime.event()

    def beat() -> bool:
        nonlocal beats
        beats += 1
        has_beaten.set()
        return beats < 2

    def work() -> None:
        assert has_beaten.wait(60)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with_heartbeat(runtime, work, beat, every_seconds=0.001)
    assert 1 <= beats <= 2


def test_a_lease_that_was_lost_is_not_kept(store: MemoryStore, clock: HandTurnedClock) -> None:
    first, second = lease(store, clock), lease(store, clock)
    assert first.acquire()
    assert not second.acquire()
    clock.seconds += SECONDS
    assert second.acquire()
    assert not first.keep()
    assert not first.keep()
    assert second.keep()
