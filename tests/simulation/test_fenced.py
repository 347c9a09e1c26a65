"""The fence holds for every seed, and each of its rules is needed."""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

import pytest

from lakebed.kv import Version
from lakebed.kv.fenced import Cell, Expected, FencedStore, _is_live, _Outcome
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import fails_within, rounds
from tests.simulation.fenced import (
    SCENARIOS,
    erased_keys_stay_erased,
    only_tombstones_go,
    outcomes_hold,
    scans_see_steady_keys,
)

SEEDS = rounds(300, long=100_000, fast=60)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_fence_holds(name: str) -> None:
    assert first_failure(f"tests.simulation.fenced:{name}", range(SEEDS)) is None


class NoTouch(FencedStore):
    """Takes the stamp that a lost request expects for a sign that it was not applied."""

    def _fence(
        self, partition: bytes, key: bytes, expected: Expected | None, lost: Cell, begun: float
    ) -> _Outcome:
        current = self._cells.read(partition, key)
        outcome = self._determine_outcome(current, expected, lost, set())
        return _Outcome.NEVER if outcome is None else outcome


class NoTombstone(FencedStore):
    """Takes an absent key for a sign that a lost create was not applied."""

    def _determine_outcome(
        self,
        current: Cell | None,
        expected: Expected | None,
        lost: Cell,
        touches: AbstractSet[bytes],
    ) -> _Outcome | None:
        if current is None and expected is None:
            return _Outcome.NEVER
        return super()._determine_outcome(current, expected, lost, touches)


class TrustsOldTombstones(FencedStore):
    """Takes any tombstone for a fence against a lost create, though it may go at once."""

    def _determine_outcome(
        self,
        current: Cell | None,
        expected: Expected | None,
        lost: Cell,
        touches: AbstractSet[bytes],
    ) -> _Outcome | None:
        if current is not None and not _is_live(current) and expected is None:
            return _Outcome.NEVER if current.version in touches else _Outcome.UNKNOWN
        return super()._determine_outcome(current, expected, lost, touches)


class TrustsAbsence(FencedStore):
    """Believes after a long sleep, too, that a key which is absent was absent all the time."""

    def _tombstone_may_have_expired(self, begun: float) -> bool:
        return False


class TouchesChangeVersions(FencedStore):
    """Makes a write of each touch."""

    def _touched(self, current: Cell | None) -> Cell:
        touched = super()._touched(current)
        return replace(touched, version=Version(touched.stamp))


class RaisesUnfenced(FencedStore):
    """Raises when the fence takes too long."""

    def _fence(
        self, partition: bytes, key: bytes, expected: Expected | None, lost: Cell, begun: float
    ) -> _Outcome:
        return _Outcome.UNKNOWN


class ShortPages(FencedStore):
    """Gives a page that tombstones have shortened."""

    def _living(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[tuple[bytes, Cell]]:
        page, _ = self._cells.page(partition, start, limit)
        return [(key, cell) for key, cell in page if _is_live(cell) and (end is None or key < end)]


@pytest.mark.parametrize(
    ("mutant", "seeds"),
    [
        (NoTouch, 200),
        (NoTombstone, 200),
        (TrustsOldTombstones, 8000),
        (TrustsAbsence, 8000),
        (TouchesChangeVersions, 400),
        (RaisesUnfenced, 200),
    ],
)
def test_each_rule_of_the_fence_is_needed(mutant: type[FencedStore], seeds: int) -> None:
    assert fails_within(partial(outcomes_hold, fence=mutant), seeds=seeds)


def test_tombstones_must_not_go_early() -> None:
    assert fails_within(partial(outcomes_hold, tombstone_seconds=0.5), seeds=400)


def test_a_short_page_loses_keys() -> None:
    assert fails_within(partial(scans_see_steady_keys, fence=ShortPages), seeds=20)


def test_tombstones_of_a_dropped_partition_must_not_be_erased_before_the_grace_period() -> None:
    assert fails_within(partial(erased_keys_stay_erased, grace_seconds=0.0), seeds=400)


class ErasesAllCells(FencedStore):
    """Erases what it lists, whether it is a tombstone or a key that lives."""

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        page, after = self._cells.page(partition, start, limit)
        for key, cell in page:
            self._cells.erase(partition, key, cell.stamp)
        return after


class ErasesByKey(FencedStore):
    """Erases what is under the keys of tombstones that it has listed."""

    def drop_tombstones(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> bytes | None:
        page, after = self._cells.page(partition, start, limit)
        for key, cell in page:
            current = None if _is_live(cell) else self._cells.read(partition, key)
            if current is not None:
                self._cells.erase(partition, key, current.stamp)
        return after


@pytest.mark.parametrize("mutant", [ErasesAllCells, ErasesByKey])
def test_only_a_tombstone_that_was_seen_is_erased(mutant: type[FencedStore]) -> None:
    assert fails_within(partial(only_tombstones_go, fence=mutant), seeds=100)
