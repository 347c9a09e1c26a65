"""Purges under the simulator: every seed holds, and broken rules show."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakebed.engine.model import CommitID
from lakebed.reclaim.purges import Purges, _SearchResult
from lakebed.reclaim.references import PurgeSearch
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import purges


def fails(seeds: int = 120) -> bool:
    try:
        for seed in range(seeds):
            purges.purged_hold(seed, purges.SLEEPERS)
    except AssertionError:
        return True
    return False


def test_every_seed_holds() -> None:
    seeds = range(rounds(60, long=4_000, fast=4))
    assert first_failure("tests.simulation.purges:purged", seeds) is None


@pytest.mark.slow
def test_copies_hold_beside_those_who_sleep() -> None:
    assert not fails()


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    purgers = [purges.purged_hold(seed, purges.SLEEPERS) for seed in range(20)]
    assert sum(purger.done for purger in purgers) > 10
    assert sum(purger.deleted for purger in purgers) > 40


def test_a_purge_that_searches_once(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Purges._search

    def look_once(
        self: Purges, repository: object, query: object, known: object, **until: int
    ) -> _SearchResult:
        if known:
            return _SearchResult()
        return look(self, repository, query, known, **until)  # type: ignore[arg-type]

    monkeypatch.setattr(Purges, "_search", look_once)
    assert fails()


@pytest.mark.slow
def test_a_purge_that_searches_only_what_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that nobody published may be picked up by whoever was told its id."""

    def published(self: PurgeSearch) -> Iterator[pa.Table]:
        engine, repository = self._engine, self._repository
        found: set[CommitID] = set()
        left = [branch.commit_id for branch in engine.branches.list(repository)]
        while left:
            commit_id = left.pop()
            if commit_id not in found:
                found.add(commit_id)
                left += engine.commits.get(repository, commit_id).parents
        commits = engine.commits.get_all(repository, sorted(found))
        return engine.committed(repository).scan_all(commit.metarange_id for commit in commits)

    monkeypatch.setattr(PurgeSearch, "_committed", published)
    assert fails()


def test_a_purge_that_does_not_wait_for_commits_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the two passes, the second is left out."""
    make = Purges._pass

    def once(self: Purges, *arguments: object) -> _SearchResult:
        if arguments[-1]:
            return _SearchResult()
        return make(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Purges, "_pass", once)
    assert fails()
