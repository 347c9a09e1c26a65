"""Pools that requests share: who gets something, who waits, and in which order they are served."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.server.http.admission import ANONYMOUS, FairPool, Holder, WaitLimit, share_of
from tests.kit.served import eventually

ADA, BOB, EVE, ZOE = (((name, ""),) for name in ("ada", "bob", "eve", "zoe"))


def stranger(number: int) -> Holder:
    return ("", f"192.0.2.{number}"), ANONYMOUS


STRANGER = stranger(1)


class Refused(Exception):
    pass


@dataclass
class Scene:
    """A pool, with requests that wait for it in threads."""

    capacity: int = 4
    seats: int = 100
    seconds: float = 60.0
    served: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = WaitLimit(self.seats, self.seconds)
        self.pool = FairPool(self.capacity, "slots", self.room, refusal=Refused)
        self.threads = ThreadPoolExecutor(50)

    def waiting(self) -> int:
        with self.room.lock:
            return self.room._taken

    def start(self, name: str, act: Callable[[], None]) -> Future[None]:
        """Begin something that has to wait; return when it does."""
        before = self.waiting()

        def run() -> None:
            act()
            self.served.append(name)

        future = self.threads.submit(run)
        eventually(lambda: self.waiting() == before + 1)
        return future

    def take_later(self, name: str, holder: Holder, amount: int = 1) -> Future[None]:
        return self.start(name, lambda: self.pool.take(amount, holder))

    def give_back(self, holder: Holder, amount: int = 1, *, serves: int = 0) -> None:
        """Give something back, and wait until those who get it have it."""
        expected = len(self.served) + serves
        self.pool.give_back(amount, holder)
        eventually(lambda: len(self.served) >= expected)


@contextmanager
def scene(**options: float) -> Iterator[Scene]:
    made = Scene(**options)  # type: ignore[arg-type] # the types of its fields
    yield made
    made.threads.shutdown()


def test_a_share_is_three_quarters() -> None:
    assert [share_of(count) for count in (1, 2, 4, 8, 64)] == [1, 2, 3, 6, 48]


def test_clients_take_turns() -> None:
    with scene(capacity=1) as it:
        it.pool.take(1, ZOE)
        for name in ("ada 1", "ada 2", "ada 3"):
            it.take_later(name, ADA)
        it.take_later("bob 1", BOB)
        it.take_later("eve 1", EVE)
        it.give_back(ZOE, serves=1)
        for holder in (ADA, BOB, EVE, ADA, ADA):
            it.give_back(holder, serves=int(holder != ADA or len(it.served) < 5))
        assert it.served == ["ada 1", "bob 1", "eve 1", "ada 2", "ada 3"]


def test_a_client_with_a_full_share_does_not_block_others() -> None:
    with scene(capacity=4) as it:
        for _ in range(share_of(4)):
            it.pool.take(1, ADA)
        it.take_later("ada", ADA)
        it.pool.take(1, BOB)  # at once
        it.give_back(BOB)
        assert it.served == []
        it.give_back(ADA, serves=1)
        assert it.served == ["ada"]


def test_a_large_request_is_not_overtaken_by_small_ones() -> None:
    with scene(capacity=10) as it:
        it.pool.take(5, ADA)
        it.pool.take(3, BOB)
        it.take_later("eve", EVE, amount=6)
        it.take_later("bob", BOB)  # there is room for it, but eve was first
        assert it.served == []
        it.give_back(ADA, 5, serves=2)
        assert sorted(it.served) == ["bob", "eve"]


def test_more_than_there_is_can_be_taken_alone() -> None:
    with scene(capacity=10) as it:
        it.pool.take(50, ADA)
        it.take_later("bob", BOB)
        it.give_back(ADA, 50, serves=1)


def test_a_request_that_waited_for_long_is_refused_and_is_served_no_more() -> None:
    with scene(capacity=1, seconds=0.05) as it:
        it.pool.take(1, ADA)
        with pytest.raises(Refused, match=r"1 of 1 slots are in use.*waited 0.05 seconds"):
            it.pool.take(1, BOB)
        assert it.waiting() == 0
        it.pool.give_back(1, ADA)
        it.pool.take(1, EVE)


def test_no_time_to_wait_means_a_refusal_at_once() -> None:
    with scene(capacity=4, seconds=0) as it:
        for _ in range(share_of(4)):
            it.pool.take(1, ADA)
        with pytest.raises(Refused, match="requests of yours, which hold 3 of 4 slots"):
            it.pool.take(1, ADA)


def test_the_waiting_room_has_seats_for_others() -> None:
    with scene(capacity=1, seats=4) as it:
        it.pool.take(1, BOB)
        for number in range(share_of(4)):
            it.take_later(f"ada {number}", ADA)
        with pytest.raises(Refused):
            it.pool.take(1, ADA)
        it.take_later("eve", EVE)
        with pytest.raises(Refused):
            it.pool.take(1, ZOE)  # it is full
        it.give_back(BOB, serves=1)
        for holder in (ADA, EVE, ADA):
            it.give_back(holder, serves=1)
        assert it.waiting() == 0


def test_strangers_of_many_addresses_do_not_get_all_seats() -> None:
    with scene(capacity=1, seats=4) as it:
        it.pool.take(1, BOB)
        for number in range(share_of(4)):
            it.take_later(str(number), stranger(number))
        with pytest.raises(Refused):
            it.pool.take(1, stranger(99))
        it.take_later("eve", EVE)
        it.give_back(BOB, serves=1)
        for number in range(share_of(4)):
            it.give_back(stranger(number), serves=1)


@given(st.lists(st.tuples(st.sampled_from([ADA, BOB, EVE, STRANGER]), st.integers(1, 5))))
def test_all_units_return_and_no_waiter_is_left(wishes: list[tuple[Holder, int]]) -> None:
    """Requests of many threads that take and give back: in the end, all is as before."""
    room = WaitLimit(1000, 60.0)
    pool = FairPool(6, "slots", room, refusal=Refused)
    used: list[int] = []
    too_much: list[bool] = []

    def use(holder: Holder, amount: int) -> None:
        pool.take(amount, holder)
        used.append(amount)
        too_much.append(sum(used) > 6)
        used.remove(amount)
        pool.give_back(amount, holder)

    threads = [threading.Thread(target=use, args=wish) for wish in wishes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "it waits for ever"
    assert len(too_much) == len(wishes)
    assert not any(too_much)
    assert pool.used == 0
    assert (room._taken, pool.used, dict(pool._in_use)) == (0, 0, {})
