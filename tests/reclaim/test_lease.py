"""The lease: one run at a time, and a dead one does not stop the others."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lakebed.formats.gc_files import GCRunID
from lakebed.lake.settings import CatalogSettings
from lakebed.reclaim.collector.errors import Busy, Overtaken
from lakebed.reclaim.collector.job import CollectorOptions, RunLease
from lakebed.reclaim.runs import LastRun
from tests.kit.lake import REPOSITORY, Lake, TurnableClock, open_lake
from tests.spark.lakes import GCLake, LocalServer, local_lake

LIFE = CatalogSettings().task_heartbeat_seconds


@pytest.fixture(autouse=True)
def sleeping_turns_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(clock: TurnableClock, seconds: float) -> None:
        clock.ahead_seconds += seconds

    monkeypatch.setattr(TurnableClock, "sleep", sleep)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("memory", tmp_path) as lake:
        yield lake


def new_lease(lake: Lake, *, is_patient: bool = False) -> RunLease:
    return RunLease(LocalServer(lake), lake.clock, is_patient=is_patient)


def test_one_at_a_time(lake: Lake) -> None:
    one, other = new_lease(lake), new_lease(lake)
    with one.hold():
        one.check()
        with pytest.raises(Busy), other.hold():
            pass
    with other.hold():
        other.check()
        with pytest.raises(Overtaken, match="taken over the lease"):
            one.check()


def test_a_holder_that_renews_is_not_taken_for_dead(lake: Lake) -> None:
    one, other = new_lease(lake), new_lease(lake)
    with one.hold():
        for _ in range(5):
            with pytest.raises(Busy), other.hold():
                pass
            lake.clock.ahead_seconds += LIFE * 0.9
            one.check()  # which renews it
        # Nor does one wait for ever who would wait for a dead one.
        renewing = new_lease(lake, is_patient=True)
        sleep = lake.clock.sleep

        def renew_and_sleep(seconds: float) -> None:
            one.check()
            sleep(seconds)

        lake.clock.sleep = renew_and_sleep  # type: ignore[method-assign]
        with pytest.raises(Busy), renewing.hold():
            pass


def test_a_dead_holder_is_followed_by_another(lake: Lake) -> None:
    server = LocalServer(lake)
    died = server.take_lease("died", "")
    other, patient = new_lease(lake), new_lease(lake, is_patient=True)
    with pytest.raises(Busy), other.hold():
        pass
    lake.clock.ahead_seconds += LIFE - 0.5
    with pytest.raises(Busy), other.hold():
        pass
    lake.clock.ahead_seconds += 0.5
    with other.hold():
        # Whoever comes back from the dead sees it, and takes nothing from the other.
        assert server.renew_lease("died").holder != "died"
        server.end_run("died", is_good=True, next_us=5)
        other.check()
    server.take_lease("died too", died.version)
    before = lake.clock.now()
    with patient.hold():
        assert LIFE <= lake.clock.now() - before < LIFE + 5


def test_files_left_by_runs(lake: Lake) -> None:
    leases = lake.reclaim.leases
    assert leases.last_run(REPOSITORY) == LastRun(0, 0, 0)
    lease = new_lease(lake)
    with lease.hold() as ending:
        ending.is_good, ending.next_us = True, 17
    good = leases.last_run(REPOSITORY)
    assert good.good_us == good.ended_us
    assert good.next_us == 17
    lake.clock.ahead_seconds += 60
    with pytest.raises(ZeroDivisionError), lease.hold():
        _ = 1 / 0
    bad = leases.last_run(REPOSITORY)
    assert bad == replace(good, next_us=0, ended_us=bad.ended_us)
    assert bad.ended_us > good.ended_us


def test_it_is_renewed_while_a_run_works(tmp_path: Path) -> None:
    settings = CatalogSettings(task_heartbeat_seconds=0.03)
    with open_lake("memory", tmp_path, settings) as lake:
        lease, server = new_lease(lake), LocalServer(lake)
        with lease.hold():
            first = server.take_lease("another", "").version
            for _ in range(10_000):
                if server.take_lease("another", "").version != first:
                    break
            else:
                pytest.fail("nobody renewed it")


def test_a_run_whose_lease_is_lost_deletes_nothing(tmp_path: Path) -> None:
    with local_lake(tmp_path, None) as lake:
        garbage = _ripe(lake)

        class Slow(LocalServer):
            """The run sleeps until another takes its lease over, and gives it back."""

            def check_still_there(self, unique_id: str, run_id: object) -> None:
                found = self.take_lease("another", "")
                self.take_lease("another", found.version)
                self.end_run("another", is_good=True, next_us=0)

        with pytest.raises(Overtaken):
            lake.job(Slow(lake.lake)).run(CollectorOptions())
        assert lake.stored() == {garbage}
        assert lake.run(CollectorOptions()).deleted == 1


def test_a_dry_run_takes_its_turn_and_leaves_nothing(tmp_path: Path) -> None:
    with local_lake(tmp_path, None) as lake:
        _ripe(lake)
        leases = lake.lake.reclaim.leases
        before = leases.last_run(REPOSITORY)
        seen: list[str] = []

        class Watched(LocalServer):
            def prepare(self, unique_id: str) -> GCRunID:
                seen.append(self.take_lease("another", "").holder)
                return super().prepare(unique_id)

        assert lake.job(Watched(lake.lake)).run(CollectorOptions(dry_run=True)).due == 1
        assert seen != ["another"]
        after = leases.last_run(REPOSITORY)
        assert after == replace(before, next_us=0, ended_us=after.ended_us)


def _ripe(lake: GCLake) -> str:
    garbage = lake.upload("a", "1")
    lake.delete("a")
    lake.later(24 * 9)
    assert lake.run().waiting == 1
    lake.later()
    return garbage
