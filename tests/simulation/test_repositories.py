"""Repositories and the Cleaner under the simulator: every seed holds, every mutant is caught."""

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from lakebed.engine.errors import NamespaceTaken
from lakebed.testing.simulation.explore import first_failure
from lakebed.testing.simulation.scheduler import TaskFailedError
from lakebed.testing.simulation.simulator import Simulation
from tests.kit import staging
from tests.kit.rounds import rounds
from tests.simulation.checks import check_quiet
from tests.simulation.kills import KillsAt
from tests.simulation.play import Mix, begin, play
from tests.simulation.repositories import BROKEN, MIXES, PLACES, SCENARIOS
from tests.simulation.world import (
    MAIN,
    SURELY_PAST_GRACE_SECONDS,
    Body,
    Parts,
    Process,
    World,
    entry,
)

SEEDS = rounds(50, long=5_000, fast=5)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_seed_holds(name: str) -> None:
    assert first_failure(f"tests.simulation.repositories:{name}", range(SEEDS)) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_out(name: str) -> None:
    mix, parts = BROKEN[name]
    for seed in range(400):
        try:
            play(seed, mix, parts)
        except AssertionError as error:
            found = error.__cause__ if isinstance(error, TaskFailedError) else error
            assert type(found) is AssertionError, "found by a check, not by a crash"
            return
    pytest.fail(f"{name} was not found out")


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_the_scenarios_reach_what_they_are_about(mix: Mix) -> None:
    """A scenario in which nothing is ever created, refused or uncertain proves nothing."""
    told: Counter[str] = Counter()
    for seed in range(20):
        told += play(seed, mix).told
    assert told.keys() >= {"created", "deleted", "not found", "NotUnique", "StoreUnavailable"}


def test_of_nested_namespaces_that_are_asked_for_at_once_one_is_had() -> None:
    """All see the claims of the others, and not all of them give way."""
    for seed in range(SEEDS):
        world = begin(Simulation(seed), replace(PLACES, begin_with=0), Parts())
        made: list[str] = []

        def create(number: int, world: World, process: Process, made: list[str] = made) -> None:
            place = world.namespaces[number]
            with suppress(NamespaceTaken):
                process.lake.repositories.create(world.names[number], place, committer="ann")
                made.append(str(place))

        world.run({f"actor{number}": [partial(create, number)] for number in range(3)})
        assert len(made) == 1, f"seed {seed}: {made}"
        check_quiet(world)


# One death at every step: of a creation, of a deletion, of a pass of the Cleaner


def create_one(world: World, process: Process) -> None:
    process.lake.repositories.create("apples", world.namespaces[0], committer="victim")


def delete_one(world: World, process: Process) -> None:
    world.monitor.deletes_under_way["apples"] += 1
    process.lake.repositories.delete(world.names[0])


def clean_all(world: World, process: Process) -> None:
    """Delete a repository in use, and clean up after it."""
    staging.put(process.lake, world.names[0], MAIN, entry(b"a", "w1"))
    delete_one(world, process)
    for _ in range(5):
        process.cleaner.run_once()
        process.runtime.sleep(SURELY_PAST_GRACE_SECONDS)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("body", "begin_with"), [(create_one, 0), (delete_one, 1), (clean_all, 1)])
def test_a_death_at_any_step_blocks_nothing_and_leaves_nothing(
    body: Body, begin_with: int, *, after: bool
) -> None:
    deaths = 0
    for at in range(1, 200):
        simulation = KillsAt(at, after=after)
        world = begin(simulation, replace(PLACES, begin_with=begin_with), Parts())
        world.run({"victim": [body]})
        check_quiet(world)
        if simulation.calls < at:
            break  # it was over before it could die
        deaths += 1
    assert 5 < deaths < 199


def test_the_same_seed_gives_the_same_run() -> None:
    def trace() -> list[tuple[object, ...]]:
        SCENARIOS["places"](7)
        assert Simulation.latest is not None
        return Simulation.latest.trace

    assert trace() == trace()
