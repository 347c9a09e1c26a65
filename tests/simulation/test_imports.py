"""Imports under the simulator: every seed holds, a death at any step, broken rules."""

from functools import partial

import pytest

from lakebed.engine.commits.publish import Publisher
from lakebed.engine.committed import Interval
from lakebed.engine.model import Branch, Commit, CommitID, Repository, StagingToken
from lakebed.kv import PredicateFailed
from lakebed.kv.records import Record
from lakebed.lake import records_pb2 as pb
from lakebed.lake.imports.run import Edit, ImportRun, LeasedImport
from lakebed.lake.imports.runner import ImportRunner
from lakebed.lake.keys import copy_of
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import imports
from tests.simulation.imports import begin, bring_to_end, check, run_imports
from tests.simulation.kills import KillsAt
from tests.simulation.objects import CatalogWorld


@pytest.mark.parametrize("scenario", ["imports", "duels"])
def test_every_seed_holds(scenario: str) -> None:
    seeds = range(rounds(25, long=3_000, fast=5))
    assert first_failure(f"tests.simulation.imports:{scenario}", seeds) is None


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    runs = [imports.imports_hold(seed) for seed in range(30)]
    statuses = [run.status(message) for run in runs for message in run.ids]
    assert sum(status.completed for status in statuses) > 15
    assert sum(len(run.canceled) for run in runs) > 2
    assert sum(run.too_late for run in runs) > 2
    assert sum(len(run.acknowledged) for run in runs) > 25


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_import_whose_process_dies_at_any_step(*, after: bool) -> None:
    deaths = 0
    for at in range(1, 400, 5):
        simulation = KillsAt(at, after=after)
        importing = begin(CatalogWorld(simulation))
        process = importing.world.process("victim")
        process.actor.start(partial(run_imports, importing, process))
        simulation.run()
        check(importing)
        bring_to_end(importing)
        check(importing)
        assert all(importing.status(message).completed for message in importing.ids)
        if simulation.calls < at:
            break
        deaths += 1
    assert 10 < deaths < 79


# Broken rules


def fails(scenario: str = "imports", *, seeds: int = 300, first: int = 0) -> bool:
    """Whether a seed fails; of what is rarely found, `first` says where to begin."""
    found = first_failure(f"tests.simulation.imports:{scenario}", range(first, first + seeds))
    assert found is None or "AssertionError" in found.error, "found by a check, not by a crash"
    return found is not None


def test_an_interval_that_is_off_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(prefix: bytes) -> Interval:
        return Interval(prefix, prefix[:-1] + b"0\x00")

    monkeypatch.setattr(Interval, "of_prefix", too_long)
    assert fails()


def test_publishing_over_a_head_that_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    def publish(
        self: Publisher,
        repository: Repository,
        branch: Branch,
        commit: Commit,
        tokens: tuple[StagingToken, ...],
    ) -> Branch | None:
        del tokens
        for _ in range(10):
            try:
                self._branches.change(repository, branch, commit_id=commit.id)
            except PredicateFailed:
                branch = self.reread(repository, branch)
            else:
                return None
        return branch

    monkeypatch.setattr(Publisher, "publish", publish)
    assert fails()


def test_a_cancel_that_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def overwrite(self: LeasedImport, edit: Edit) -> None:
        changed = copy_of(self._record.message)
        edit(changed)
        version = self._records.set(self._record.name, changed)
        self._record = Record(self._record.name, changed, version)

    monkeypatch.setattr(LeasedImport, "change", overwrite)
    assert fails()


def test_an_import_that_two_processes_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lost an import to another, which does not wait for it to die, goes on as before."""

    def adopt(self: LeasedImport) -> None:
        found = self._records.get(self._record.name)
        if found.message.state == pb.IMPORT_STATE_RUNNING:
            self._record = found

    monkeypatch.setattr(ImportRunner, "_is_due", lambda _self, _record: True)
    assert not fails(seeds=10)  # it is safe not to wait
    monkeypatch.setattr(LeasedImport, "_read_again", adopt)
    assert fails()


def test_commits_that_are_not_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes over does not know that the import was published."""

    def forget(self: ImportRun, branch: Branch) -> CommitID | None:
        del self, branch
        return None

    monkeypatch.setattr(ImportRun, "_find_published", forget)
    assert fails()


@pytest.mark.slow
def test_looking_without_touching_the_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swap of the branch that is still on its way lands after whoever takes over has looked."""
    monkeypatch.setattr(Publisher, "_touch", Publisher.reread)
    assert fails("duels", first=100)
