"""The whole life of objects under the simulator: every seed holds, and broken rules are found."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakebed.engine.expiry_marks import ExpiryMarks
from lakebed.lake.purge_marks import PurgeMarks
from lakebed.reclaim import expirer
from lakebed.reclaim import retention as keeping
from lakebed.reclaim.collector import columns, job
from lakebed.reclaim.prepare import GCPreparation, StagedWalk
from lakebed.reclaim.references import PurgeSearch
from lakebed.reclaim.retention import RetentionRecords
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import lifecycle
from tests.simulation.engine_mutants import Plant

SCENARIO = "tests.simulation.lifecycle:life"


def test_every_seed_holds() -> None:
    seeds = range(rounds(8, long=3_000, fast=1))
    assert first_failure(SCENARIO, seeds) is None


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    told: Counter[str] = Counter()
    for seed in range(25):
        told += lifecycle.life_holds(seed).told
    parts = ("runs", "deleted", "ended", "purged", "rules were off", "restored", "Purged")
    for what in (*lifecycle.WEIGHTS, *parts, "expired after a restore", "CommitExpired"):
        assert told[what], f"{what}: {told}"


# Broken rules


def delete_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job deletes at its first look, whatever the age."""
    look = job._observation_times

    def look_without_age(*arguments: Any) -> Any:
        found = look(*arguments)
        return replace(found, cutoff_us=found.ended_us)

    monkeypatch.setattr(job, "_observation_times", look_without_age)
    monkeypatch.setattr(columns, "is_due", lambda judged, _look: columns.is_candidate(judged))


def leave_out_what_is_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preparation of a run writes down no staged entries."""
    monkeypatch.setattr(StagedWalk, "_addresses", lambda *_args: [])


def judge_without_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preparation of a run leaves commits out that no branch has as its head."""
    write = GCPreparation._write_commits

    def write_heads(self: Any, repository: Any, files: Any, kind: Any, is_meant: Any) -> Any:
        heads = {each.commit_id for each in self._engine.branches.list(repository)}
        return write(self, repository, files, kind, lambda each: each in heads and is_meant(each))

    monkeypatch.setattr(GCPreparation, "_write_commits", write_heads)


def expire_whatever_the_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits stay if refs name them, and not because of their age."""
    monkeypatch.setattr(keeping, "kept_by_age", lambda *_args: {})
    monkeypatch.setattr(keeping, "FLOOR_US", 0)
    monkeypatch.setattr(expirer, "FLOOR_US", 0)


def go_by_the_old_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass reads the rules once, and those who change them leave its marks alone."""
    monkeypatch.setattr(RetentionRecords, "_begin_again", lambda *_args: None)
    first: dict[int, Any] = {}

    def by_the_first(rules: Any, scan: Any) -> Any:
        return keeping.kept_commits(first.setdefault(id(scan), rules), scan)

    monkeypatch.setattr(expirer, "kept_commits", by_the_first)


def name_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """New refs and moves do not look at the mark of a commit."""
    monkeypatch.setattr(ExpiryMarks, "admit_ref", lambda *_args: None)


def purge_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PurgeMarks, "add", lambda *_args: True)


def purge_what_is_committed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_search: PurgeSearch) -> Iterator[pa.Table]:
        return iter(())

    monkeypatch.setattr(PurgeSearch, "_staged", nothing)


# Each with what the failure says, and a seed to begin with: one in dozens tells, of some.
MUTANTS: list[tuple[Plant, str, int]] = [
    (delete_at_once, "is gone", 0),
    (leave_out_what_is_staged, "is gone", 8),
    (judge_without_commits, "is gone", 0),
    (expire_whatever_the_age, "s old", 0),
    (go_by_the_old_rules, "expired by rules that were deleted", 15),
    (name_without_a_look, "has expired", 10),
    (purge_without_marks, "is gone", 0),
    (purge_what_is_committed_only, "was not purged", 0),
]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("plant", "told", "first_seed"), MUTANTS, ids=[each.__name__ for each, *_ in MUTANTS]
)
def test_a_broken_rule_is_found_out(
    plant: Plant, told: str, first_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    failure = first_failure(SCENARIO, range(first_seed, first_seed + 150))
    assert failure is not None, "nobody noticed"
    assert told in failure.error
