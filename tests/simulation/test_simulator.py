"""The simulator itself: its clock, its locks, its kills."""

import pytest

from lakebed.base.runtime import Runtime, ThreadRuntime
from lakebed.kv import Store, StoreUnavailable
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.simulation.scheduler import (
    ActorKilledError,
    SimulationStuckError,
    TaskFailedError,
)
from lakebed.testing.simulation.simulator import Faults, Simulation
from lakebed.testing.simulation.store import SimulatedStore


def share(simulation: Simulation) -> SimulatedStore:
    return SimulatedStore(simulation, MemoryStore(ThreadRuntime()))


def test_minutes_cost_nothing() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    woke: list[float] = []

    def body() -> None:
        actor.runtime.sleep(3600)
        woke.append(actor.runtime.monotonic())

    actor.start(body)
    simulation.run()
    assert woke
    assert woke[0] >= 3600


def test_clocks_differ_between_actors() -> None:
    simulation = Simulation(0, Faults(skew_seconds=100))
    clocks = [simulation.actor(name).runtime.now() for name in "abc"]
    assert len(set(clocks)) == 3
    assert max(clocks) - min(clocks) <= 200


def test_a_lock_excludes() -> None:
    for seed in range(50):
        simulation = Simulation(seed)
        actor = simulation.actor("ann")
        lock = actor.runtime.lock()
        inside: list[int] = []
        most: list[int] = []

        def enter(
            runtime: Runtime = actor.runtime,
            inside: list[int] = inside,
            most: list[int] = most,
            lock: object = lock,
        ) -> None:
            with lock:  # type: ignore[attr-defined]
                inside.append(1)
                runtime.sleep(1)
                most.append(len(inside))
                inside.pop()

        for _ in range(4):
            actor.start(enter)
        simulation.run()
        assert most == [1] * 4


def test_an_event_wakes_or_times_out() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    event = actor.runtime.event()
    answers: dict[str, bool] = {}

    def wait(name: str, timeout: float | None) -> None:
        answers[name] = event.wait(timeout)

    def raise_flag() -> None:
        actor.runtime.sleep(10)
        event.set()

    actor.start(lambda: wait("patient", None))
    actor.start(lambda: wait("long enough", 20))
    actor.start(lambda: wait("too short", 5))
    actor.start(raise_flag)
    simulation.run()
    assert answers == {"patient": True, "long enough": True, "too short": False}
    assert event.is_set()


def test_tasks_that_wait_for_nothing_are_named() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    actor.start(actor.runtime.event().wait)
    with pytest.raises(SimulationStuckError, match="ann"):
        simulation.run()


def test_a_run_without_end_is_stopped() -> None:
    simulation = Simulation(0, steps_max=100)
    actor = simulation.actor("ann")

    def spin() -> None:
        while True:
            actor.runtime.sleep(1)

    actor.start(spin)
    with pytest.raises(SimulationStuckError, match="100 steps"):
        simulation.run()


def test_an_unexpected_error_is_reported() -> None:
    simulation = Simulation(0)
    store = share(simulation).handle(simulation.actor("ann"))
    actor = simulation.actor("bob")
    actor.start(lambda: store.get(b"p", b"k"))
    with pytest.raises(TaskFailedError, match="handle of ann"):
        simulation.run()


def test_map_parallel_keeps_order_and_bounds() -> None:
    for seed in range(30):
        simulation = Simulation(seed)
        actor = simulation.actor("ann")
        results: list[list[int]] = []
        running: list[int] = []
        most: list[int] = [0]

        def work(
            item: int,
            runtime: Runtime = actor.runtime,
            running: list[int] = running,
            most: list[int] = most,
        ) -> int:
            running.append(item)
            most[0] = max(most[0], len(running))
            runtime.sleep(runtime.random())
            running.remove(item)
            return item * 2

        def body(runtime: Runtime = actor.runtime, results: list[list[int]] = results) -> None:
            results.append(runtime.map_parallel(work, range(10), limit=3))
            results.append(runtime.map_parallel(work, [], limit=3))

        actor.start(body)
        simulation.run()
        assert results == [[item * 2 for item in range(10)], []]
        assert most == [3]


def test_map_parallel_raises_the_first_error_and_starts_no_more() -> None:
    simulation = Simulation(0)
    actor = simulation.actor("ann")
    begun: list[int] = []

    def fail(item: int) -> None:
        begun.append(item)
        if item >= 1:
            raise StoreUnavailable(f"item {item}")

    def body() -> None:
        with pytest.raises(StoreUnavailable, match="item 1"):
            actor.runtime.map_parallel(fail, range(10), limit=2)

    actor.start(body)
    simulation.run()
    assert len(begun) < 10


def test_nothing_of_a_killed_actor_reaches_the_store() -> None:
    refused: list[bool] = []
    for seed in range(200):
        simulation = Simulation(seed, Faults(kill=0.2))
        shared = share(simulation)
        actor = simulation.actor("bob")
        bobs = shared.handle(actor)
        after_death: list[str] = []

        def write(bobs: Store = bobs, after_death: list[str] = after_death) -> None:
            try:
                for number in range(5):
                    bobs.set(b"p", b"%d" % number, b"value")
            finally:
                try:
                    bobs.set(b"p", b"last wish", b"value")
                except ActorKilledError:
                    after_death.append("refused")
                    raise

        actor.start(write)
        actor.start(write)
        simulation.run()
        wished = any(write.key == b"last wish" for write in shared.applied)
        if not actor.alive:
            refused.append(bool(after_death))
        else:
            assert wished
    assert refused
    assert all(refused)
