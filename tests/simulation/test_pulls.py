"""Pull requests under the simulator: every seed holds, a death at any step, broken rules."""

from functools import partial

import pytest

from lakebed.engine.commits.publish import Publisher
from lakebed.engine.model import Commit, Repository
from lakebed.kv.records import Record
from lakebed.lake import records_pb2 as pb
from lakebed.lake.pulls.merging import LeasedPull, PullMerger
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import pulls
from tests.simulation.kills import KillsAt
from tests.simulation.objects import CatalogWorld
from tests.simulation.pulls import begin, bring_to_end, check, merge


@pytest.mark.parametrize("scenario", ["pulls", "duels"])
def test_every_seed_holds(scenario: str) -> None:
    seeds = range(rounds(60, long=10_000, fast=15))
    assert first_failure(f"tests.simulation.pulls:{scenario}", seeds) is None


@pytest.mark.slow
def test_the_scenarios_reach_what_they_are_about() -> None:
    runs = [pulls.pulls_hold(seed) for seed in range(40)]
    states = [run.record.state for run in runs]
    assert states.count(pb.PULL_STATE_MERGED) > 10
    assert states.count(pb.PULL_STATE_OPEN) > 3
    assert sum(run.told_closed for run in runs) > 3
    assert sum(len(run.acknowledged) for run in runs) > 20
    duels = [pulls.duels_hold(seed) for seed in range(40)]
    assert sum(run.busy for run in duels) > 40
    assert sum(bool(run.told_merged) for run in duels) > 20


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_merge_whose_process_dies_at_any_step(*, after: bool) -> None:
    deaths, merged = 0, 0
    for at in range(1, 200):
        simulation = KillsAt(at, after=after)
        pulling = begin(CatalogWorld(simulation))
        process = pulling.world.process("victim")
        process.actor.start(partial(merge, pulling, process))
        simulation.run()
        check(pulling)
        bring_to_end(pulling)
        check(pulling)
        if simulation.calls < at:
            break
        deaths += 1
        merged += pulling.record.state == pb.PULL_STATE_MERGED
    assert 5 < deaths < 199
    assert 0 < merged < deaths


# Broken rules


def fails() -> bool:
    return first_failure("tests.simulation.pulls:duels", range(1000)) is not None


@pytest.mark.slow
def test_looking_without_touching_the_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap of the branch that is still on its way lands after the pull request was reopened."""
    monkeypatch.setattr(Publisher, "_touch", Publisher.reread)
    assert fails()


@pytest.mark.slow
def test_commits_that_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: LeasedPull, commit: Commit) -> None:
        del commit
        self.change(lambda _message: None)

    monkeypatch.setattr(LeasedPull, "note", forget)
    assert fails()


@pytest.mark.slow
def test_a_status_that_is_set_before_the_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_early(self: LeasedPull, commit: Commit) -> None:
        self.end(commit.id)

    monkeypatch.setattr(LeasedPull, "note", end_early)
    assert fails()


@pytest.mark.slow
def test_a_merge_that_goes_on_after_it_was_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without marks, whoever lost a merge to another takes the other's for its own."""
    monkeypatch.setattr(LeasedPull, "_is_ours", LeasedPull._is_running)
    assert fails()


@pytest.mark.slow
def test_an_announcement_that_is_removed_under_a_merge(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop(
        self: PullMerger,
        repository: Repository,
        announced: Record[pb.PullMerging],
        record: Record[pb.PullRequest] | None,
    ) -> None:
        del record
        self._announced(repository).delete_if(announced.name, announced.predicate)

    monkeypatch.setattr(PullMerger, "_drop", drop)
    assert fails()
