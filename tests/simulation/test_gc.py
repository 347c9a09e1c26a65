"""Garbage collection in random histories, and proof that the checks bite: broken rules."""

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest

from lakebed.reclaim.collector import rules
from lakebed.reclaim.collector.errors import TooMuchGarbage
from lakebed.reclaim.collector.rules import Judged, ObservationTimes, State, Verdict
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import gc_actors, gc_collector
from tests.simulation.gc_collector import Collector, Preparation
from tests.simulation.gc_histories import SCENARIOS
from tests.simulation.gc_world import GAP, MULTIPART_LIFE, Entry, GCWorld, Pause, Process, Steps

SEEDS = rounds(200, long=20_000, fast=20)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SCENARIOS)
def test_live_objects_stay_and_garbage_is_deleted(name: str) -> None:
    assert first_failure(f"tests.simulation.gc_histories:{name}", range(SEEDS)) is None


def finding(scenario: str, *, seeds: int = 5_000) -> str:
    failure = first_failure(f"tests.simulation.gc_histories:{scenario}", range(seeds))
    assert failure is not None, "nobody noticed"
    return failure.error.partition("(")[0]


def test_a_preparation_that_reads_against_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(world: GCWorld, process: Process) -> Generator[Pause, None, Preparation | None]:
        commits = yield from read_commits(world)
        yield
        prepared = yield from forwards(world, process)
        return None if prepared is None else replace(prepared, commits=commits)

    read_commits, forwards = gc_collector.read_commits, gc_collector.prepare
    monkeypatch.setattr(gc_collector, "prepare", prepare)
    # The second look would make up for it, mostly; so delete at the first.
    monkeypatch.setattr(rules, "due", due_at_once)
    assert finding("overwritten") == "DataLossError"


def test_a_preparation_that_reads_uploads_after_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_uploads(world: GCWorld) -> Generator[Pause, None, set[str]]:
        yield
        return set()

    def read_staging(world: GCWorld) -> Generator[Pause, None, set[str]]:
        referenced = yield from staging(world)
        return referenced | (yield from uploads(world))

    uploads, staging = gc_collector.read_uploads, gc_collector.read_staging
    monkeypatch.setattr(gc_collector, "read_uploads", read_uploads)
    monkeypatch.setattr(gc_collector, "read_staging", read_staging)
    # What was missed once is seen by the second look; so delete at the first.
    monkeypatch.setattr(rules, "due", due_at_once)
    assert finding("sleepers") == "DataLossError"


@pytest.mark.parametrize(
    ("part", "scenario"), [("read_uploads", "sleepers"), ("read_staging", "mixed")]
)
def test_a_preparation_that_leaves_something_out(
    part: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_nothing(world: GCWorld) -> Generator[Pause, None, set[str]]:
        yield
        return set()

    monkeypatch.setattr(gc_collector, part, read_nothing)
    assert finding(scenario) == "DataLossError"


def test_a_preparation_that_hides_what_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_staging(world: GCWorld) -> Generator[Pause, None, set[str]]:
        referenced: set[str] = set()
        for branch in list(world.branches.values()):
            seen: dict[str, Entry] = {}
            for token in branch.tokens:
                seen = {**world.staged.get(token, {}), **seen}
            referenced |= {
                path for path in map(gc_collector.path_of, seen.values()) if path is not None
            }
            yield
        return referenced

    monkeypatch.setattr(gc_collector, "read_staging", read_staging)
    assert finding("mixed") == "DataLossError"


def test_a_committer_that_publishes_what_it_read_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc_actors, "scan_is_young", lambda _world, _process, _scanned: True)
    assert finding("strays") == "DataLossError"


def test_only_commits_that_refs_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_commits(world: GCWorld) -> Generator[Pause, None, dict[int, frozenset[str]]]:
        found = yield from read_all(world)
        reached: set[int] = set()
        for head in [*(one.head for one in world.branches.values()), *world.tags.values()]:
            commit: int | None = head
            while commit is not None and commit in world.commits:
                reached.add(commit)
                commit = world.commits[commit].parent
        return {number: paths for number, paths in found.items() if number in reached}

    read_all = gc_collector.read_commits
    monkeypatch.setattr(gc_collector, "read_commits", read_commits)
    assert finding("mixed") in {"DataLossError", "DisagreementError"}


def test_only_commits_of_the_branch_whose_path_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_named(prepared: Preparation) -> set[str]:
        return {path for path in everything(prepared) if "/branches/dev" not in path}

    everything = gc_collector.all_named
    monkeypatch.setattr(gc_collector, "all_named", all_named)
    assert finding("mixed") in {"DataLossError", "DisagreementError"}


def with_look(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[ObservationTimes], ObservationTimes]
) -> None:
    def prepare(world: GCWorld, process: Process) -> Generator[Pause, None, Preparation | None]:
        prepared = yield from rightly(world, process)
        return None if prepared is None else replace(prepared, times=change(prepared.times))

    rightly = gc_collector.prepare
    monkeypatch.setattr(gc_collector, "prepare", prepare)


def test_no_regard_for_age(monkeypatch: pytest.MonkeyPatch) -> None:
    with_look(monkeypatch, lambda look: replace(look, cutoff_us=look.ended_us))
    assert finding("held_up") == "DataLossError"


def test_writers_without_regard_for_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GCWorld, "is_recent", lambda _self, _process, _path: True)
    assert finding("sleepers") == "DataLossError"


def test_a_sleeper_that_puts_back_what_has_become_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def staged_paths(world: GCWorld, token: int) -> set[str]:
        paths = map(gc_collector.path_of, world.staged.get(token, {}).values())
        return {path for path in paths if path is not None}

    monkeypatch.setattr(gc_collector, "staged_paths", staged_paths)
    assert finding("regrets") == "DataLossError"


def test_an_upload_completed_without_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*arguments: Any) -> Steps:
        *others, is_recent = arguments
        is_multipart = getattr(is_recent, "__name__", "") == "<lambda>"
        return rightly(*others, (lambda: True) if is_multipart else is_recent)

    rightly: Callable[..., Steps] = gc_actors.write
    monkeypatch.setattr(gc_actors, "write", write)
    assert finding("held_up") == "DataLossError"


def test_an_upload_whose_record_goes_before_it_is_staged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def multipart(world: GCWorld, process: Process, name: str, key: str) -> Steps:
        path = world.issue(process, name)
        world.multiparts[path] = world.now + process.offset
        yield world.random.randint(0, MULTIPART_LIFE)
        if world.multiparts.pop(path, None) is None:
            return False
        world.put(path)
        yield
        return (yield from gc_actors.write(world, name, key, Entry(path), lambda: True))

    monkeypatch.setattr(gc_actors, "multipart", multipart)
    assert finding("held_up") == "DataLossError"


def test_addresses_compared_as_they_are_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def path_of(entry: Entry) -> str | None:
        return f"s3://bucket/lake/{entry.path}" if entry.whole else entry.path

    monkeypatch.setattr(gc_collector, "path_of", path_of)
    assert finding("mixed") == "DataLossError"


def test_listing_only_branches_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(prepared: Preparation, path: str, mtime: int) -> rules.ScannedObject | None:
        return None if "/branches/dev/" in path else rightly(prepared, path, mtime)

    rightly = Collector.stored
    monkeypatch.setattr(Collector, "stored", staticmethod(stored))
    assert finding("mixed") == "GarbageLeftError"


def test_a_run_that_does_not_ask_whose_the_namespace_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gc_collector, "is_active", lambda _world, _uid: True)
    monkeypatch.setattr(Collector, "owns", lambda _self, _prepared: True)
    monkeypatch.setattr(Collector, "forget_state_of_others", lambda _self: None)
    assert finding("reborn") in {"DataLossError", "DisagreementError"}


def due_at_once(judged: list[Judged], look: ObservationTimes) -> list[Judged]:
    return [one for one in judged if one.verdict is Verdict.CANDIDATE]


def test_deleting_at_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "due", due_at_once)
    assert finding("strays") == "DataLossError"


def test_looks_that_follow_close_on_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with_look(monkeypatch, lambda look: replace(look, gap_us=0))
    assert finding("strays") == "DataLossError"


def forgetting(verdict: Verdict, *, closed: bool) -> Callable[[Judged, State], bool]:
    def remembered(judged: Judged, state: State) -> bool:
        forgets = judged.verdict is verdict and rules.is_closed(judged.stored, state) is closed
        return not forgets and rightly(judged, state)

    rightly = rules.remembered
    return remembered


def test_a_state_that_forgets_what_commits_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "remembered", forgetting(Verdict.COMMITTED, closed=False))
    assert finding("mixed") == "DisagreementError"


def test_a_state_that_forgets_what_a_listing_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "remembered", forgetting(Verdict.UNSEEN, closed=False))
    assert finding("overwritten") == "DisagreementError"


@pytest.mark.parametrize("verdict", [Verdict.HELD, Verdict.CANDIDATE])
def test_a_state_that_forgets_what_may_become_garbage(
    verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "remembered", forgetting(verdict, closed=True))
    assert finding("mixed") in {"DisagreementError", "GarbageLeftError"}


def test_partitions_closed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    with_look(monkeypatch, lambda look: replace(look, closed_before_us=look.began_us))
    assert finding("held_up") == "DisagreementError"


def test_optimizing_over_newly_adopted_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "may_optimize", lambda state, **_: state is not None)
    assert finding("reborn") == "DisagreementError"


def test_a_state_that_believes_in_deletions_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def sweep(
        self: Collector, prepared: Preparation, due: list[Judged]
    ) -> Generator[Pause, None, set[str]]:
        yield from rightly(self, prepared, due)
        return {judged.stored.path for judged in due}

    rightly = Collector.sweep
    monkeypatch.setattr(Collector, "sweep", sweep)
    assert finding("mixed") in {"DisagreementError", "GarbageLeftError"}


def test_a_state_that_a_run_may_go_by() -> None:
    state = State(
        repository_uids=frozenset({"a", "b"}),
        began_us=100,
        closed_before_us=0,
        commits=frozenset(),
        objects={},
    )
    assert rules.may_optimize(state, began_us=100, repository_uids={"a"})
    assert not rules.may_optimize(None, began_us=100, repository_uids={"a"})
    assert not rules.may_optimize(state, began_us=100, repository_uids={"a", "c"})
    # The clock was ahead when it was left: what it calls closed may not be.
    assert not rules.may_optimize(state, began_us=99, repository_uids={"a"})


def test_the_brake() -> None:
    rules.check_share(1000, 1000, max_share=0.1)
    rules.check_share(1001, 10_010, max_share=0.1)
    with pytest.raises(TooMuchGarbage, match="1001 of 10009 objects"):
        rules.check_share(1001, 10_009, max_share=0.1)


def test_the_gap_is_from_end_to_beginning() -> None:
    stored = rules.ScannedObject("p", 1, 0, 0)
    judged = [Judged(stored, Verdict.CANDIDATE, 100), Judged(stored, Verdict.HELD)]
    look = ObservationTimes(
        began_us=100 + GAP - 1, ended_us=10_000, cutoff_us=0, closed_before_us=0, gap_us=GAP
    )
    assert rules.due(judged, look) == []
    assert rules.due(judged, replace(look, began_us=100 + GAP)) == judged[:1]
