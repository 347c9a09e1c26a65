"""The actor: its value, and how other threads get it."""

from dataclasses import replace

import msgspec
import pytest

from lakebed.base.actor import Actor, EntryPoint, acting_as, current_actor
from lakebed.base.runtime import Runtime, ThreadRuntime, UniqueID
from lakebed.testing.simulation.simulator import Simulation

BEA = Actor(
    user="bea",
    unique_id=UniqueID("u1"),
    groups=("Editors", "Viewers"),
    access_key_id="AKIABEA",
    address="192.0.2.1",
    request_id="id-1",
    entry_point=EntryPoint.API,
    force=True,
    skips_hooks=True,
    hook_depth=2,
)


def test_an_actor_is_in_force_within_its_block() -> None:
    assert current_actor() == Actor()
    with acting_as(BEA):
        with acting_as(replace(BEA, force=False)):
            assert not current_actor().force
        assert current_actor() is BEA
    assert current_actor() == Actor()


@pytest.mark.parametrize("actor", [BEA, Actor()])
def test_an_actor_is_read_as_it_was_written(actor: Actor) -> None:
    """A task may store its actor in a record, and run in another process."""
    assert msgspec.json.decode(msgspec.json.encode(actor), type=Actor) == actor


def test_an_actor_of_a_later_version_is_read() -> None:
    assert msgspec.json.decode(b'{"user":"bea","later":1}', type=Actor) == Actor(user="bea")


def seen_by_helpers(runtime: Runtime) -> list[Actor]:
    """Return the actors seen by parallel calls."""
    begun, both = list[int](), runtime.event()

    def look(number: int) -> Actor:
        begun.append(number)
        if len(begun) == 2:
            both.set()
        assert both.wait(60), "the calls run side by side"
        return current_actor()

    with acting_as(BEA):
        found = runtime.map_parallel(look, range(2), limit=2)
    assert runtime.map_parallel(lambda _: current_actor(), range(2), limit=2) == [Actor()] * 2
    return found


def test_helper_threads_act_as_their_caller() -> None:
    assert seen_by_helpers(ThreadRuntime()) == [BEA, BEA]


def test_simulated_helpers_act_as_their_caller() -> None:
    simulation = Simulation(seed=1)
    process = simulation.actor("server")
    found: list[Actor] = []
    process.start(lambda: found.extend(seen_by_helpers(process.runtime)))
    simulation.run()
    assert found == [BEA, BEA]
