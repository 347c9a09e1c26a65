"""The fence holds for every seed, and each of its rules is needed."""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial

import pytest

from lakebed.kv import Version
from lakebed.kv.fenced import Cell, FencedStore, Seen, _Fate, _lives
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
        self, partition: bytes, key: bytes, seen: Seen | None, lost: Cell, begun: float
    ) -> _Fate:
        there = self._cells.read(partition, key)
        fate = self._judge(there, seen, lost, set())
        return _Fate.NEVER if fate is None else fate


class NoTombstone(FencedStore):
    """Takes an absent key for a sign that a lost create was not applied."""

    def _judge(
        self, there: Cell | None, seen: Seen | None, lost: Cell, touches: AbstractSet[bytes]
    ) -> _Fate | None:
        if there is None and seen is None:
            return _Fate.NEVER
        return super()._judge(there, seen, lost, touches)


class TrustsOldTombstones(FencedStore):
    """Takes any tombstone for a fence against a lost create, though it may go at once."""

    def _judge(
        self, there: Cell | None, seen: Seen | None, lost: Cell, touches: AbstractSet[bytes]
    ) -> _Fate | None:
        if there is not None and not _lives(there) and seen is None:
            return _Fate.NEVER if there.version in touches else _Fate.UNKNOWN
        return super()._judge(there, seen, lost, touches)


class TrustsAbsence(FencedStore):
    """Believes after a long sleep, too, that a key which is absent was absent all the time."""

    def _may_have_gone(self, begun: float) -> bool:
        return False


class TouchesChangeVersions(FencedStore):
    """Makes a write of each touch."""

    def _touched(self, there: Cell | None) -> Cell:
        touched = super()._touched(there)
        return replace(touched, version=Version(touched.stamp))


class RaisesUnfenced(FencedStore):
    """Raises when the fence takes too long."""

    def _fence(
        self, partition: bytes, key: bytes, seen: Seen | None, lost: Cell, begun: float
    ) -> _Fate:
        return _Fate.UNKNOWN


class ShortPages(FencedStore):
    """Gives a page that tombstones have shortened."""

    def _living(
        self, partition: bytes, start: bytes, limit: int, end: bytes | None = None
    ) -> list[tuple[bytes, Cell]]:
        page, _ = self._cells.page(partition, start, limit)
        return [(key, cell) for key, cell in page if _lives(cell) and (end is None or key < end)]


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
            there = None if _lives(cell) else self._cells.read(partition, key)
            if there is not None:
                self._cells.erase(partition, key, there.stamp)
        return after


@pytest.mark.parametrize("mutant", [ErasesAllCells, ErasesByKey])
def test_only_a_tombstone_that_was_seen_is_erased(mutant: type[FencedStore]) -> None:
    assert fails_within(partial(only_tombstones_go, fence=mutant), seeds=100)
