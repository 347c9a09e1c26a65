"""The leader/followers pool: a thread about to wait releases leadership."""

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from lakebed.httpd.leader import LeaderPool
from tests.kit.served import PATIENCE_SECONDS, eventually

Work = Callable[[], None]


class Bench:
    """A pool that executes a queue of small functions."""

    def __init__(self, most: int = 8) -> None:
        self._queue: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._works: list[Work] = []
        self.done: list[tuple[int, int]] = []
        """Thread and piece of work, in order of completion."""
        self.beats = 0
        self.pool = LeaderPool(self._queue.get, self._do, threads_max=most, heartbeat=self._beat)
        self.gates: list[threading.Event] = []

    def add(self, work: Work) -> int:
        """Give the threads a piece of work; return its number."""
        self._works.append(work)
        number = len(self._works) - 1
        self._queue.put(number)
        return number

    def add_gate(self, *, says_so: bool) -> threading.Event:
        """Give the threads a piece of work that waits; return the function that ends the wait."""
        gate = threading.Event()
        self.gates.append(gate)

        def wait() -> None:
            if says_so:
                self.pool.release()
            gate.wait(PATIENCE_SECONDS)

        self.add(wait)
        return gate

    def wait_for(self, count: int) -> None:
        """Wait until `count` pieces are done."""
        eventually(lambda: len(self.done) >= count)

    def threads_of_last(self, count: int) -> set[int]:
        """Return the threads of the last pieces."""
        return {thread for thread, _ in self.done[-count:]}

    def _beat(self) -> None:
        self.beats += 1

    def _do(self, number: int) -> None:
        self._works[number]()
        self.done.append((threading.get_ident(), number))


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.pool.start()
    yield made
    for gate in made.gates:
        gate.set()


def nothing() -> None:
    """Work that ends at once."""


def test_work_without_waits_is_done_by_one_thread(bench: Bench) -> None:
    for _ in range(500):
        bench.add(nothing)
    bench.wait_for(500)
    # A slow machine may replace a leader that had no CPU.
    assert len(bench.threads_of_last(500)) == bench.pool.count <= 3


@pytest.mark.parametrize("says_so", [True, False])
def test_others_work_while_one_waits(bench: Bench, *, says_so: bool) -> None:
    gates = [bench.add_gate(says_so=says_so) for _ in range(3)]
    for _ in range(50):
        bench.add(nothing)
    bench.wait_for(50)
    assert [number for _, number in bench.done] == list(range(3, 53))
    for gate in gates:
        gate.set()
    bench.wait_for(53)


def test_a_leader_releases_leadership_before_it_waits(bench: Bench) -> None:
    seen = threading.Event()

    def wait() -> None:
        bench.pool.release()
        assert seen.wait(PATIENCE_SECONDS)

    # The second piece of work ends the wait of the first: in another thread.
    bench.add(wait)
    bench.add(seen.set)
    bench.wait_for(2)
    assert len(bench.threads_of_last(2)) == 2


def test_when_all_wait_the_first_that_ends_takes_the_turn() -> None:
    bench = Bench(most=2)
    bench.pool.start()
    gates = [bench.add_gate(says_so=True) for _ in range(2)]
    bench.add(nothing)
    eventually(lambda: bench.pool._is_vacant)
    assert not bench.done
    gates[1].set()
    bench.wait_for(2)
    assert {number for _, number in bench.done} == {1, 2}
    assert len(bench.threads_of_last(2)) == 1
    gates[0].set()
    bench.wait_for(3)


def test_it_goes_on_when_the_system_gives_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.pool.start()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    gate = bench.add_gate(says_so=True)
    bench.add(nothing)
    eventually(lambda: bench.pool._is_vacant)
    assert not bench.done
    gate.set()
    bench.wait_for(2)
    assert bench.pool.count == 1


def test_a_worker_whose_threads_are_all_at_work_beats() -> None:
    bench = Bench(most=2)
    bench.pool.start()
    gates = [bench.add_gate(says_so=True) for _ in range(2)]
    eventually(lambda: bench.beats >= 3)
    for gate in gates:
        gate.set()
    bench.wait_for(2)
    eventually(lambda: not bench.pool._is_vacant)


def test_it_beats_while_the_system_gives_no_threads_and_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.pool.start()

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        gate = bench.add_gate(says_so=True)
        bench.add(nothing)
        eventually(lambda: bench.beats >= 3)
        assert not bench.done
    bench.wait_for(1)  # though the first is still at work
    eventually(lambda: bench.pool.count == 2)
    gate.set()
    bench.wait_for(2)


def test_threads_that_are_not_needed_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.httpd.leader._SLEEP_SECONDS", 0.05)
    bench = Bench()
    bench.pool.start()
    gates = [bench.add_gate(says_so=True) for _ in range(4)]
    eventually(lambda: bench.pool.count == 5)
    for gate in gates:
        gate.set()
    eventually(lambda: bench.pool.count == 1)
    bench.add(nothing)
    bench.wait_for(5)


def test_only_the_thread_that_has_the_turn_gives_it_away(bench: Bench) -> None:
    bench.pool.release()
    bench.add(nothing)
    bench.wait_for(1)
    assert bench.pool.count == 1


def test_a_thread_that_something_fails_in_does_not_take_the_turn_along(bench: Bench) -> None:
    def fail() -> None:
        raise MemoryError

    for _ in range(3):
        bench.add(fail)
    bench.add(nothing)
    bench.wait_for(1)
    assert bench.pool.count == 1
