"""The simulator shows its worth: right code passes every seed, wrong code is found out."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from lakebed.base.runtime import Runtime
from lakebed.kv import Store
from lakebed.kv.managed import ManagedStore
from lakebed.kv.store import Item, Predicate, Version
from lakebed.testing.simulation.explore import first_failure, load, spread
from lakebed.testing.simulation.simulator import Simulation
from tests.kit.rounds import rounds
from tests.simulation.scenarios import BROKEN, SCENARIOS, outcomes_hold

SEEDS = rounds(300, long=100_000, fast=100)


@pytest.mark.parametrize("name", SCENARIOS)
def test_correct_stores_pass_every_seed(name: str) -> None:
    assert first_failure(f"tests.simulation.scenarios:{name}", range(SEEDS)) is None


@pytest.mark.parametrize("name", BROKEN)
def test_mutants_are_found_within_a_few_seeds(name: str) -> None:
    assert fails_within(BROKEN[name], seeds=10)


def fails_within(scenario: Callable[[int], None], *, seeds: int) -> bool:
    for seed in range(seeds):
        try:
            scenario(seed)
        except AssertionError:
            return True
    return False


# Mutants of the store that retries, each with one rule of its contract broken


class RepeatsBlindly(ManagedStore):
    """Takes a lost reply for a failure and writes again."""

    def _was_applied(
        self, predicate: Predicate, version: Version | None, there: Item | None
    ) -> bool | None:
        return super()._was_applied(predicate, version, there) if version is None else False


class TakesAbsenceForNotApplied(ManagedStore):
    """Writes again if the key is absent, though its write may have been applied and deleted."""

    def _was_applied(
        self, predicate: Predicate, version: Version | None, there: Item | None
    ) -> bool | None:
        if version is not None and there is None:
            return False
        return super()._was_applied(predicate, version, there)


class TakesAnyAnswerForSuccess(ManagedStore):
    """Reports success without looking for its own version."""

    def _was_applied(
        self, predicate: Predicate, version: Version | None, there: Item | None
    ) -> bool | None:
        return super()._was_applied(predicate, version, there) if version is None else True


class DeletesBlindly(ManagedStore):
    """Repeats a conditional delete whose reply was lost."""

    def _was_applied(
        self, predicate: Predicate, version: Version | None, there: Item | None
    ) -> bool | None:
        if version is None and isinstance(predicate, bytes):
            return False
        return super()._was_applied(predicate, version, there)


@pytest.mark.parametrize(
    "mutant",
    [RepeatsBlindly, TakesAbsenceForNotApplied, TakesAnyAnswerForSuccess, DeletesBlindly],
)
def test_the_checker_bites(mutant: Callable[[Store, Runtime], Store]) -> None:
    assert fails_within(lambda seed: outcomes_hold(seed, mutant), seeds=500)


def test_what_follows_a_write_must_not_deny_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a later step of a call changed nothing does not say that the call changed nothing."""
    monkeypatch.setattr(
        "lakebed.kv.store.applied_before", lambda *, any_step: nullcontext(any_step)
    )
    assert fails_within(lambda seed: outcomes_hold(seed, ManagedStore), seeds=500)


def test_the_same_seed_gives_the_same_run() -> None:
    def trace() -> list[tuple[object, ...]]:
        SCENARIOS["three_outcomes"](11)
        assert Simulation.latest is not None
        return Simulation.latest.trace

    assert trace() == trace()


def test_a_replay_does_not_depend_on_the_process() -> None:
    # Another hash seed: an order that came from a set or from addresses would differ.
    command = [sys.executable, "-m", "lakebed.testing.simulation.explore"]
    command += ["tests.simulation.scenarios:append_under_faults", "--seed", "5"]
    outputs = {
        subprocess.run(
            command,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    (output,) = outputs
    assert "append_under_faults passed with seed 5" in output


def test_a_failure_says_how_to_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCENARIOS, "naive_counter", BROKEN["naive_counter"])
    failure = first_failure("tests.simulation.scenarios:naive_counter", range(10))
    assert failure is not None
    assert str(failure).endswith(
        "replay: python -m lakebed.testing.simulation.explore"
        f" tests.simulation.scenarios:naive_counter --seed {failure.seed}"
    )


def test_runs_are_spread_over_scenarios_by_their_shares() -> None:
    names = [*load("tests.simulation.scenarios"), "tests.simulation.whole:all"]
    plan = spread(names, 1000, first=7)
    assert sum(len(seeds) for seeds in plan.values()) == 1000
    assert {len(plan[name]) for name in names[:3]} <= {142, 143}
    assert len(plan["tests.simulation.whole:all"]) in {571, 572}
    assert all(seeds.start == 7 for seeds in plan.values())
