"""Nothing that was answered is lost while a store is copied, and each rule of that is needed."""

from collections.abc import Sequence
from functools import partial

import pytest

from lakebed.kv.managed import HaltCheck
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import fails_within, rounds
from tests.simulation.copying import SCENARIOS, nothing_answered_is_lost

SEEDS = rounds(100, long=50_000, fast=40)


@pytest.mark.parametrize("name", SCENARIOS)
def test_acknowledged_writes_are_not_lost(name: str) -> None:
    assert first_failure(f"tests.simulation.copying:{name}", range(SEEDS)) is None


class NeverLooks(HaltCheck):
    """Writes whatever the mark says."""

    def check(self, places: Sequence[tuple[bytes, bytes]]) -> None:
        pass


class LooksOnce(HaltCheck):
    """Takes the first look for good."""

    def check(self, places: Sequence[tuple[bytes, bytes]]) -> None:
        if self._checked_at < 0:
            super().check(places)


@pytest.mark.parametrize("mutant", [NeverLooks, LooksOnce])
def test_writers_must_look_at_the_mark(mutant: type[HaltCheck]) -> None:
    assert fails_within(partial(nothing_answered_is_lost, halting=mutant), seeds=100)


def test_the_stores_must_not_be_compared_early() -> None:
    assert fails_within(partial(nothing_answered_is_lost, settle_seconds=0.0), seeds=100)
