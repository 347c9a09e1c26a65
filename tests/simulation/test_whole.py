"""The whole engine under simulation: every seed holds, every mutant is caught."""

from collections import Counter
from functools import partial

import pytest

from lakebed.engine.staging.cells import encode
from lakebed.lake.commits import HeadChanges
from lakebed.testing.simulation.explore import first_failure
from lakebed.testing.simulation.simulator import Simulation
from tests.kit.rounds import rounds
from tests.simulation import engine_mutants, whole_mutants
from tests.simulation.checks import check_quiet
from tests.simulation.engine_mutants import Plant
from tests.simulation.play import begin, play
from tests.simulation.whole import ALL, MIXES, SCENARIOS, SLEEPERS
from tests.simulation.world import MAIN, SURELY_PAST_GRACE_SECONDS, Parts, Process, World, entry

# In portions, which can run beside each other.
PORTION = rounds(40, long=1_500, fast=3)


# Of some broken rules, one seed in hundreds tells: where to begin, so as not to look for long.
RARELY_FOUND: dict[Plant, int] = {engine_mutants.no_second_read: 1200}


@pytest.mark.parametrize("portion", range(3))
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_seed_holds(name: str, portion: int) -> None:
    seeds = range(portion * PORTION, (portion + 1) * PORTION)
    assert first_failure(f"tests.simulation.whole:{name}", seeds) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario"),
    [
        (whole_mutants.remember_repositories, "all"),
        (whole_mutants.trust_the_branch, "all"),
        (whole_mutants.trust_the_repository, "all"),
        (whole_mutants.dump_commits_first, "dumps"),
        (whole_mutants.dump_what_is_deleted, "dumps"),
        (engine_mutants.no_second_read, "all"),
        (engine_mutants.acknowledge_own_entry, "all"),
        (engine_mutants.drop_before_publishing, "all"),
        (engine_mutants.publish_a_stale_build, "all"),
        (engine_mutants.edit_a_sealed_token, "all"),
    ],
)
def test_a_broken_rule_is_found_out(
    plant: Plant, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    begin_at = RARELY_FOUND.get(plant, 0)
    failure = first_failure(f"tests.simulation.whole:{scenario}", range(begin_at, begin_at + 400))
    assert failure is not None
    # A dump that cannot be restored is one that lacks something, and says so by itself.
    checks = ("AssertionError", "DamagedFile") if scenario == "dumps" else ("AssertionError",)
    assert any(check in failure.error for check in checks), "found by a check, not by a crash"


@pytest.mark.slow
def test_the_scenarios_reach_what_they_are_about() -> None:
    """Everything is done, refused, interrupted and lost, and seen by someone."""
    told: Counter[str] = Counter()
    unpublished = 0
    for seed in range(80):
        world = play(seed, ALL if seed % 2 else SLEEPERS)
        told += world.told
        unpublished += world.unpublished
    assert told.keys() >= {
        "put", "create", "delete", "a read", "a listing", "commit", "taken along", "no changes",
        "merge", "revert", "reset", "reset of a key", "reset of a prefix", "hard reset",
        "delete branch", "create branch", "create tag", "dump", "created", "deleted", "recreated",
        "DirtyBranch", "MergeConflict", "PreconditionFailed", "BranchNotFound",
        "RepositoryNotFound", "Deleting", "OutcomeUnknown", "StorageUnavailable",
    }  # fmt: skip
    assert unpublished


def write_late(passes: int, world: World, process: Process) -> None:
    """Stage something under a token that was dropped a while ago."""
    repository = process.lake.repositories.get(world.names[0])
    token = process.lake.branches.get(repository, MAIN).staging_token
    HeadChanges(process.lake).reset(world.names[0], MAIN)
    for _ in range(passes):
        process.cleaner.run_once()
        process.runtime.sleep(SURELY_PAST_GRACE_SECONDS)
    process.store.set(token.encode(), b"key/a", encode(entry(b"a", "w1")))


@pytest.mark.parametrize(("passes", "strays"), [(0, 0), (1, 0), (5, 1)])
def test_only_what_comes_later_than_any_request_may_stay_behind(passes: int, strays: int) -> None:
    world = begin(Simulation(0), ALL, Parts())
    world.run({"slow": [partial(write_late, passes)]})
    check_quiet(world)
    assert world.strays == strays


def test_unreferenced_objects_are_found() -> None:
    world = begin(Simulation(0), ALL, Parts())
    world.monitor.store.set(b"apples-main:unknown", b"key/a", encode(entry(b"a", "w1")))
    with pytest.raises(AssertionError, match="b'key/a' in b'apples-main:unknown' was written"):
        check_quiet(world)


@pytest.mark.parametrize("name", MIXES)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    def trace() -> list[tuple[object, ...]]:
        play(5, MIXES[name], Parts(real_files=True))
        assert Simulation.latest is not None
        return Simulation.latest.trace

    assert trace() == trace()
