"""Objects under the simulator: every seed holds, a death at any step, and broken rules show."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import pytest
from google.protobuf.message import Message

from lakebed.base.runtime import now_us
from lakebed.formats.gc_files import GCManifest
from lakebed.formats.object_paths import ObjectPath
from lakebed.kv import Predicate, Version
from lakebed.kv.records import Records
from lakebed.lake import records_pb2 as pb
from lakebed.lake.etag_pins import ETagPins
from lakebed.lake.links import Links, _LinkIsValid
from lakebed.lake.uploads import Freshness
from lakebed.reclaim import prepare
from lakebed.reclaim.prepare import StagedWalk
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import objects
from tests.simulation.kills import KillsAt
from tests.simulation.objects import CatalogWorld, Collector, Race, check_link, give_out, link

ResultT = TypeVar("ResultT")


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        ("links", rounds(100, long=6_000, fast=10)),
        ("ended", rounds(100, long=6_000, fast=10)),
        ("first_reads", rounds(100, long=6_000, fast=10)),
        ("collected", rounds(8, long=1_200, fast=2)),
        ("collected_on_conditions", rounds(8, long=1_200, fast=2)),
    ],
)
def test_every_seed_holds(name: str, seeds: int) -> None:
    assert first_failure(f"tests.simulation.objects:{name}", range(seeds)) is None


@pytest.mark.slow
def test_the_scenarios_reach_what_they_are_about() -> None:
    races = [objects.links_hold(seed) for seed in range(30)]
    assert sum(len(race.told) for race in races) > 20
    assert sum(race.refused for race in races) > 10
    operators = [objects.ended_hold(seed) for seed in range(100)]
    assert sum(operator.deleted for operator in operators) > 3
    assert sum(len(operator.race.told) for operator in operators) > 10
    assert sum(operator.ended for operator in operators) > 10
    reads = [objects.first_reads_hold(seed) for seed in range(30)]
    assert sum(len(read.got) for read in reads) > 10
    assert sum(read.changed for read in reads) > 15
    assert sum(objects.collected_hold(seed) for seed in range(5)) > 10


# One death at every step of a link


def repeat_after_death(at: int, *, after: bool) -> tuple[Race, bool]:
    """Let a link die at a call, and others come after it; return whether it was so."""
    simulation = KillsAt(at, after=after)
    world = CatalogWorld(simulation)
    race = give_out(world)
    for name, checksum in [("victim", "same"), ("repeat", "same"), ("rival", "other")]:
        process = world.process(name)
        process.actor.start(partial(link, race, process, checksum))
        simulation.run()
    check_link(world, race)
    return race, simulation.calls >= at


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_link_that_dies_at_any_step_is_finished_by_a_repeat(*, after: bool) -> None:
    deaths = 0
    for at in range(1, 100):
        race, died = repeat_after_death(at, after=after)
        if not died:
            break
        deaths += 1
        assert [stats.checksum for stats in race.told] == ["same"]
        assert race.refused == 1
    assert 8 < deaths < 99


def test_a_rival_takes_over_before_the_link_is_consumed_and_not_after() -> None:
    """Whoever consumes it first decides; a request that dies before has decided nothing."""
    winners = []
    for at in range(1, 100):
        simulation = KillsAt(at, after=False)
        world = CatalogWorld(simulation)
        race = give_out(world)
        for name, checksum in [("victim", "first"), ("rival", "other")]:
            process = world.process(name)
            process.actor.start(partial(link, race, process, checksum))
            simulation.run()
        if simulation.calls < at:
            break
        winners.append(race.told[0].checksum if race.told else "first")
    decided = winners.index("first")
    assert set(winners[:decided]) == {"other"}
    assert set(winners[decided:]) == {"first"}


# Broken rules


def fails(scenario: str, *, seeds: int = 150, first: int = 0) -> bool:
    """Whether a seed fails; of what is rarely found, `first` says where to begin."""
    tried = range(first, first + seeds)
    return first_failure(f"tests.simulation.objects:{scenario}", tried) is not None


def test_a_link_that_is_consumed_by_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    set_if = Records.set_if

    def overwrite(
        self: Records[Message], name: bytes, message: Message, predicate: Predicate
    ) -> Version:
        if isinstance(message, pb.Link) and message.state == pb.LINK_STATE_CONSUMED:
            return self.set(name, message)
        return set_if(self, name, message, predicate)

    monkeypatch.setattr(Records, "set_if", overwrite)
    assert fails("links")


def test_a_link_that_forgets_that_it_was_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Links, "_record_staged", lambda _self, _request, _record: None)
    assert fails("links")


def test_a_link_that_does_not_look_whether_it_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_fresh(self: _LinkIsValid) -> bool:
        return self._is_recent()

    monkeypatch.setattr(_LinkIsValid, "__call__", only_fresh)
    assert fails("ended")


def test_a_link_that_looks_whether_it_was_ended_before_it_is_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = _LinkIsValid.__call__

    def look_before(self: _LinkIsValid) -> bool:
        if not self._is_first:
            return True
        self._is_first = False
        return looks(self)

    monkeypatch.setattr(_LinkIsValid, "__call__", look_before)
    assert fails("ended", seeds=300)


def test_a_link_that_protects_nothing_once_it_is_consumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quiet collection would not even see that somebody is linking."""

    def is_open(link: pb.Link, *_settings: object) -> bool:
        return link.state == pb.LINK_STATE_OPEN

    monkeypatch.setattr(prepare, "may_finish_link", is_open)
    assert fails("ended", first=200, seeds=300)


def test_a_pin_that_every_first_reader_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_if = Records.set_if

    def overwrite(
        self: Records[Message], name: bytes, message: Message, predicate: Predicate
    ) -> Version:
        if isinstance(message, pb.Pin):
            return self.set(name, message)
        return set_if(self, name, message, predicate)

    monkeypatch.setattr(Records, "set_if", overwrite)
    assert fails("first_reads")


def test_a_first_reader_that_does_not_hold_to_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ETagPins, "content_of", lambda _self, _stats: None)
    assert fails("first_reads")


def test_writers_that_do_not_look_at_the_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Freshness, "test", lambda _self, _address: lambda: True)
    assert fails("collected")


def test_writers_that_look_at_the_age_only_before(monkeypatch: pytest.MonkeyPatch) -> None:
    def test_once(self: Freshness, address: ObjectPath) -> Callable[[], bool]:
        looks: list[bool] = []

        def is_recent() -> bool:
            looks.append(now_us(self._runtime) - address.issued_us < self._hold_us)
            return looks[0]

        return is_recent

    monkeypatch.setattr(Freshness, "test", test_once)
    assert fails("collected")


def test_copies_that_share_addresses_however_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Freshness, "may_share", lambda _self, _address: True)
    monkeypatch.setattr(Freshness, "test", lambda _self, _address: lambda: True)
    assert fails("collected")


def test_a_preparation_of_the_newest_token_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = StagedWalk._read

    def newest(self: StagedWalk, position: object, is_full: object) -> object:
        object.__setattr__(position, "tokens", position.tokens[:1])  # type: ignore[attr-defined]
        return pages(self, position, is_full)  # type: ignore[arg-type]

    monkeypatch.setattr(StagedWalk, "_read", newest)
    assert fails("collected")


def test_a_collector_that_takes_young_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Collector.prepare

    def without_age(self: Collector) -> GCManifest:
        manifest = prepare(self)
        object.__setattr__(manifest.run, "cutoff_us", 1 << 62)
        return manifest

    monkeypatch.setattr(Collector, "prepare", without_age)
    assert fails("collected", first=40)
