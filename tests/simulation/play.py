"""Plays mixes: processes that do all kinds of things at once, while calls fail and processes die.

A run is followed by the `Monitor` and the `Truth`, which see every write as it is applied; every
answer is compared with them and with what others were told; and at the end, what is left must be
in order (`checks`).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.base.errors import LakebedError
from lakebed.block import Namespace
from lakebed.engine.model import RepositoryID
from lakebed.testing.simulation.explore import Scenario
from lakebed.testing.simulation.simulator import NO_FAULTS, Faults, Simulation
from tests.simulation import names
from tests.simulation.checks import check_end
from tests.simulation.requests import REQUESTS
from tests.simulation.worker import Worker
from tests.simulation.world import DEV, MAIN, Body, Parts, Process, World

ON_DEV: Final = {"recreate", "fork"}
"""What cannot be done with the default branch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What actors do, how often, and under which faults."""

    requests: Mapping[str, int]
    """How often each is made, relative to the others."""
    faults: Faults
    names: tuple[str, ...] = ("lake",)
    namespaces: tuple[str, ...] = ("lake",)
    begin_with: int = 1
    """How many of the repositories exist at the start."""
    commits_before: int = 0
    """How many commits there are on each of their branches, so that there is something to move."""
    processes: tuple[int, int] = (2, 4)
    """The least and the greatest number of processes."""
    tasks: int = 2
    """How many tasks each process has."""
    each: int = 6
    """How many requests each task makes."""
    cleaners: int = 0
    passes: int = 8
    """How often each of the Cleaners runs."""
    pause_seconds: float = 0.0
    """How long a task waits between two requests, at most."""
    retrying: float = 1.0


def play(seed: int, mix: Mix, parts: Parts | None = None) -> World:
    """Run a mix; raise if something was wrong during the run or at its end."""
    world = begin(Simulation(seed, steps_max=200_000), mix, parts or Parts())
    world.simulation.faults = mix.faults
    names, weights = list(mix.requests), list(mix.requests.values())
    bodies: dict[str, list[Body]] = {}
    for number in range(world.random.randint(*mix.processes)):
        todo = [world.random.choices(names, weights, k=mix.each) for _ in range(mix.tasks)]
        bodies[f"actor{number}"] = [partial(work, mix, each) for each in todo]
    for number in range(mix.cleaners):
        bodies[f"cleaner{number}"] = [partial(clean, mix)]
    world.run(bodies)
    world.simulation.faults = NO_FAULTS
    check_end(world)
    return world


def begin(simulation: Simulation, mix: Mix, parts: Parts) -> World:
    """Make the first repositories and commits, without faults."""
    world = World(
        simulation,
        [RepositoryID(name) for name in mix.names],
        [Namespace.parse(f"mem://bucket/{path}") for path in mix.namespaces],
        parts,
        unbatched=simulation.random.random() < 0.25,
        retrying=mix.retrying,
        is_calm=not (mix.faults.fail_before or mix.faults.fail_after or mix.faults.kill),
    )
    world.begin(mix.begin_with)
    for name in world.names[: mix.begin_with]:
        for worker in (Worker(world, world.onlooker, name, branch) for branch in (MAIN, DEV)):
            for _ in range(mix.commits_before):
                worker.put()
                worker.commit()
    return world


def work(mix: Mix, todo: list[str], world: World, process: Process) -> None:
    """Do one thing after another, each with a repository and a branch drawn anew."""
    for request in todo:
        if mix.pause_seconds:
            process.runtime.sleep(world.random.random() ** 3 * mix.pause_seconds)
        if request in REQUESTS:
            REQUESTS[request](world, process)
        elif request in names.REQUESTS:
            names.REQUESTS[request](world, process)
        else:
            name = world.random.choice(world.names)
            branch = DEV if request in ON_DEV else world.random.choice([MAIN, MAIN, DEV])
            getattr(Worker(world, process, name, branch), request)()


def clean(mix: Mix, world: World, process: Process) -> None:
    """Clean up beside the others, and go on when something fails."""
    for _ in range(mix.passes):
        process.runtime.sleep(world.random.random() * world.parts.grace_seconds / 2)
        with suppress(LakebedError):
            process.cleaner.run_once()


def scenarios(
    mixes: Mapping[str, Mix], parts: Callable[[int], Parts] = lambda _seed: Parts()
) -> dict[str, Scenario]:
    """Make a scenario of each mix; the parts may depend on the seed."""

    def scenario(mix: Mix, seed: int) -> None:
        play(seed, mix, parts(seed))

    return {name: partial(scenario, mix) for name, mix in mixes.items()}
