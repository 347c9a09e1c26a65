"""Runs simulated scenarios over many seeds, or replays a single seed.

A scenario is a function of a seed that raises on a violation. A module lists its scenarios in a
dict ``SCENARIOS``. A dict ``SHARES`` may give scenarios a larger share of the runs.

    python -m lakebed.testing.simulation.explore my.scenarios --seeds 10000     # 10,000 runs
    python -m lakebed.testing.simulation.explore my.scenarios:counter --seed 7  # one, traced
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate, pairwise, repeat

from lakebed.testing.simulation.simulator import Simulation

Scenario = Callable[[int], None]

_CHUNK = 250


@dataclass(frozen=True, slots=True)
class FailingSeed:
    """A seed for which a scenario failed, and the command to replay it."""

    scenario: str
    seed: int
    error: str

    def __str__(self) -> str:
        return (
            f"{self.scenario} failed with seed {self.seed}: {self.error}\n"
            "replay: python -m lakebed.testing.simulation.explore"
            f" {self.scenario} --seed {self.seed}"
        )


def load(name: str) -> dict[str, Scenario]:
    """Return the scenarios of ``module`` or ``module:scenario``, by full name."""
    module, _, only = name.partition(":")
    scenarios: dict[str, Scenario] = import_module(module).SCENARIOS
    if only and only not in scenarios:
        raise SystemExit(f"{module} has no scenario {only}; available: {', '.join(scenarios)}")
    chosen = {only: scenarios[only]} if only else scenarios
    return {f"{module}:{key}": scenario for key, scenario in chosen.items()}


def first_failure(name: str, seeds: Iterable[int]) -> FailingSeed | None:
    """Run the scenario ``module:scenario`` over seeds until the first failure."""
    (scenario,) = load(name).values()
    for seed in seeds:
        try:
            scenario(seed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
            return FailingSeed(name, seed, repr(error))
    return None


def spread(names: Iterable[str], runs: int, *, first: int = 0) -> dict[str, range]:
    """Distribute runs over scenarios by their shares; each gets seeds from `first` on."""
    shares = {name: _share(name) for name in names}
    whole = sum(shares.values())
    ends = [runs * upto // whole for upto in accumulate(shares.values())]
    counts = (end - start for start, end in pairwise([0, *ends]))
    return {name: range(first, first + count) for name, count in zip(shares, counts, strict=True)}


def _share(name: str) -> int:
    module, _, scenario = name.partition(":")
    shares: dict[str, int] = getattr(import_module(module), "SHARES", {})
    return shares.get(scenario, 1)


def explore(
    plan: Mapping[str, range], *, processes: int | None = None
) -> Iterator[tuple[str, FailingSeed | None]]:
    """Run scenarios over seeds, on all cores; yield each with its first failure, or None."""
    # Injected faults log thousands of warnings, which would hide the failure.
    quiet = partial(logging.disable, logging.CRITICAL)
    with ProcessPoolExecutor(processes or os.cpu_count(), initializer=quiet) as pool:
        for name, seeds in plan.items():
            chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
            failures = pool.map(first_failure, repeat(name), chunks)
            yield name, next((failure for failure in failures if failure), None)


def replay(name: str, seed: int) -> int:
    """Run a scenario with one seed and print its trace; return 1 if it failed."""
    failure = first_failure(name, [seed])
    if Simulation.latest is not None:
        for line in Simulation.latest.trace:
            print(*line)
    print(failure or f"{name} passed with seed {seed}")
    return 1 if failure else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a scenario failed."""
    parser = argparse.ArgumentParser(prog="python -m lakebed.testing.simulation.explore")
    parser.add_argument("scenarios", nargs="+", help="Modules, or module:scenario")
    parser.add_argument("--seeds", type=int, default=10_000, help="Total number of runs")
    parser.add_argument("--first", type=int, default=0, help="First seed of each scenario")
    parser.add_argument("--seed", type=int, help="Replay this seed and print its trace")
    parser.add_argument("--processes", type=int, help="Parallel processes (default: one per core)")
    chosen = parser.parse_args(arguments)
    # Do not print the warnings caused by injected faults.
    logging.getLogger("lakebed").addHandler(logging.NullHandler())
    names = [name for scenarios in chosen.scenarios for name in load(scenarios)]
    if chosen.seed is not None:
        return max(replay(name, chosen.seed) for name in names)
    plan = spread(names, chosen.seeds, first=chosen.first)
    passed = failed = 0
    for name, failure in explore(plan, processes=chosen.processes):
        print(failure or f"{name}: {len(plan[name])} histories passed", flush=True)
        failed += failure is not None
        passed += 0 if failure else len(plan[name])
    print(f"{passed} histories passed; {failed} of {len(plan)} scenarios failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
