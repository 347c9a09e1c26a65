"""Repeats of conditional uploads under the simulator: every seed holds, and broken rules show."""

from dataclasses import replace

import pytest

from lakebed.formats import Entry
from lakebed.lake import repeats as rules
from lakebed.lake import uploads
from lakebed.lake.entry_metadata import for_requests, requests_of
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import fails_within, rounds
from tests.simulation import repeats


def test_every_seed_holds() -> None:
    seeds = range(rounds(40, long=6_000, fast=10))
    assert first_failure("tests.simulation.repeats:counted", seeds) is None


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    runs = [repeats.counted_holds(seed) for seed in range(30)]
    assert sum(len(run.acknowledged) for run in runs) > 100
    assert sum(run.repeated for run in runs) > 10


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.slow
def test_digests_that_are_not_kept_or_not_taken_along_show(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr(rules, "KEPT", kept)
    assert fails_within(repeats.counted, seeds=300)


@pytest.mark.slow
def test_digests_of_another_entry_than_the_one_that_is_replaced_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are those of the entry that the attempt before met, of whatever client."""
    met: list[list[str]] = [[]]

    class OneBehind(rules.Attempt):
        def __call__(self, found: Entry | None) -> Entry | None:
            staged = super().__call__(found)
            before = met[-1]
            met.append(requests_of(found))
            if staged is not None:
                requests = for_requests([*self._own, *before][: rules.KEPT])
                self.staged = staged = replace(staged, metadata={**staged.metadata, **requests})
            return staged

    monkeypatch.setattr(uploads, "Attempt", OneBehind)
    assert fails_within(repeats.counted, seeds=2000)
