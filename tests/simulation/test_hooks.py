"""Hooks under the simulator: every seed holds, a death at any step, broken rules."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from lakebed.base.runtime import UniqueID
from lakebed.engine.commits.publish import Publisher
from lakebed.engine.hooks import Proposal
from lakebed.engine.keys import LIVE
from lakebed.engine.model import Branch, Commit, CommitID, Repository
from lakebed.engine.refs import branches
from lakebed.kv.records import Records
from lakebed.lake.hooks.events import EventType
from lakebed.lake.hooks.guard import HookGuard
from lakebed.lake.hooks.keys import RunID
from lakebed.lake.hooks.post import PostRunner
from lakebed.lake.hooks.runs import Runs
from lakebed.testing.simulation.explore import first_failure
from tests.engine.test_commit_proposals import publish_another_record, skip_hooks_on_a_rebuild
from tests.kit.rounds import rounds
from tests.simulation import hooks
from tests.simulation.engine_mutants import Plant
from tests.simulation.hooks import (
    HookedProcess,
    begin,
    bring_to_end,
    check,
    commit_once,
    make_and_delete_refs,
    merge_once,
    run_what_comes_after,
)
from tests.simulation.kills import KillsAt
from tests.simulation.objects import REPOSITORY, CatalogWorld

# Of some broken rules, one seed in dozens tells: where to begin, so as not to look for long.
RARELY_FOUND: dict[str, int] = {
    "skip_hooks_on_a_rebuild": 11,
    "look_without_touching": 88,
    "publish_what_was_dropped": 41,
}


def test_every_seed_holds() -> None:
    seeds = range(rounds(25, long=3_000, fast=4))
    assert first_failure("tests.simulation.hooks:hooks", seeds) is None


@pytest.mark.slow
def test_whatever_becomes_of_refs_is_told() -> None:
    seeds = range(rounds(60, long=3_000))
    assert first_failure("tests.simulation.hooks:refs", seeds) is None
    made = [made for seed in range(20) for made, _ in hooks.refs_are_told(seed).made]
    assert len(made) > 80
    assert len(set(made)) == 5


def test_the_gate_of_each_head_approves_what_replaces_it() -> None:
    seeds = range(rounds(25, long=3_000, fast=4))
    assert first_failure("tests.simulation.hooks:gates", seeds) is None
    assert sum(hooks.gates_hold(seed) for seed in range(4)) > 5


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    runs = [hooks.hooks_hold(seed) for seed in range(20)]
    assert sum(len(run.history()) for run in runs) > 40
    assert sum(len(run.refused) for run in runs) > 20
    told = [ids for run in runs for by_name in run.told.values() for ids in by_name.values()]
    assert sum(EventType.POST_MERGE in run.told for run in runs) > 3
    assert len(told) > 60
    # Approved and never published: what was prepared for these was dropped.
    assert sum(len(run.approved) for run in runs) > len(told)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("body", [commit_once, merge_once, run_what_comes_after])
def test_a_process_that_dies_at_any_step_loses_no_hook(
    body: Callable[[HookedProcess], None], *, after: bool
) -> None:
    deaths = 0
    for at in range(1, 200):
        simulation = KillsAt(at, after=after)
        hooking = begin(CatalogWorld(simulation))
        hooking.calm = True
        if body is run_what_comes_after:
            other = hooking.process("other")
            other.actor.start(partial(commit_once, other))
            simulation.run()
        process = hooking.process("victim")
        process.actor.start(partial(body, process))
        simulation.run()
        check(hooking)
        bring_to_end(hooking)
        check(hooking)
        if simulation.calls < at:
            break
        deaths += 1
    assert deaths > 10
    assert hooking.history()


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_process_that_dies_at_any_step_tells_of_the_refs_that_it_made_and_deleted(
    *, after: bool
) -> None:
    for at in range(1, 200):
        simulation = KillsAt(at, after=after)
        hooking = begin(CatalogWorld(simulation))
        hooking.calm = True
        process = hooking.process("victim")
        process.actor.start(partial(make_and_delete_refs, process))
        simulation.run()
        refs = hooking.world.catalog.refs
        branches = {branch.id for branch in refs.list_branches(REPOSITORY)}
        tags = {tag.id for tag in refs.list_tags(REPOSITORY)}
        bring_to_end(hooking)
        told = {event_type for event_type, names in hooking.told.items() if names}
        assert (EventType.POST_CREATE_BRANCH in told) >= ("new" in branches)
        assert (EventType.POST_CREATE_TAG in told) >= ("v1" in tags)
        # What was deleted was there; what was not made is not told of.
        if EventType.POST_CREATE_BRANCH in told:
            assert (EventType.POST_DELETE_BRANCH in told) == ("new" not in branches)
        if EventType.POST_CREATE_TAG in told:
            assert (EventType.POST_DELETE_TAG in told) == ("v1" not in tags)
        if simulation.calls < at:
            break
    assert len(told) == 4


# Broken rules


def prepare_after_publishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes after a commit is written down when the commit is there."""
    before, after = HookGuard.before_publish, HookGuard.after_commit

    def do_nothing(_self: HookGuard, _proposal: Proposal) -> None:
        pass

    def prepare_and_confirm(self: HookGuard, proposal: Proposal) -> None:
        before(self, proposal)
        after(self, proposal)

    monkeypatch.setattr(HookGuard, "before_publish", do_nothing)
    monkeypatch.setattr(HookGuard, "after_commit", prepare_and_confirm)


def look_without_touching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a prepared run looks for its commit, and leaves the branch as it is."""

    def find_published(
        publisher: Publisher, repository: Repository, branch: Branch, commit_ids: list[CommitID]
    ) -> CommitID | None:
        return publisher.find_leading(repository, branch.commit_id, commit_ids)

    monkeypatch.setattr(Publisher, "find_published", find_published)
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)


def delete_what_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who deletes a ref, or moves a branch, does not ask what was prepared for it."""
    monkeypatch.setattr(HookGuard, "before_leaving", lambda *_: None)


def try_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes or deletes a ref tries without a look at what it had prepared."""
    monkeypatch.setattr(HookGuard, "before_try", lambda *_: None)
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)


def look_at_refs_without_touching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a prepared deletion looks for the ref, and leaves its record as it is."""

    def was_deleted(records: Records[Any], name: str, unique_id: UniqueID) -> bool:
        found = records.find(name.encode())
        return found is None or found.message.state != LIVE or found.message.unique_id != unique_id

    monkeypatch.setattr(branches, "was_deleted", was_deleted)
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)


def leave_what_is_creating(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a prepared creation looks for the ref, and leaves it so."""

    def was_created(records: Records[Any], name: str, unique_id: UniqueID) -> bool:
        found = records.find(name.encode())
        if found is None or found.message.state != LIVE:
            return False
        return bool(found.message.unique_id == unique_id)

    monkeypatch.setattr(branches, "was_created", was_created)
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        delete_what_shows_it,
        try_what_was_dropped,
        look_at_refs_without_touching,
        leave_what_is_creating,
    ],
)
def test_a_broken_rule_of_refs_is_found_out(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    begin_at = RARELY_FOUND.get(plant.__name__, 0)
    failure = first_failure("tests.simulation.hooks:refs", range(begin_at, begin_at + 300))
    assert failure is not None
    assert "no hook was told" in failure.error


def publish_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A publisher tries again without a look at what it had prepared."""

    def keep_prepared(_self: Runs, _repository: Repository, _run_id: RunID) -> bool:
        return True

    monkeypatch.setattr(Runs, "keep_prepared", keep_prepared)
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "plant",
    [
        publish_another_record,
        skip_hooks_on_a_rebuild,
        prepare_after_publishing,
        look_without_touching,
        publish_what_was_dropped,
    ],
)
def test_a_broken_rule_is_found_out(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    begin_at = RARELY_FOUND.get(plant.__name__, 0)
    seeds = range(begin_at, begin_at + 300)
    failure = first_failure("tests.simulation.hooks:hooks", seeds)
    assert failure is not None
    assert "AssertionError" in failure.error, "found by a check, not by a crash"


def ask_the_candidate_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks of the head are not asked."""
    gates = HookGuard._gates
    monkeypatch.setattr(
        HookGuard,
        "_gates",
        lambda self, where, *event: gates(self, replace(where, head=None), *event),
    )


def ask_the_first_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each proposal of a request is asked of the head that the first one would have replaced."""
    before_commit = HookGuard.before_commit
    heads: dict[HookGuard, Commit] = {}  # a process has one guard, and here one request at a time

    def ask(self: HookGuard, proposal: Proposal) -> None:
        head = proposal.head if proposal.number == 1 else heads[self]
        heads[self] = head
        before_commit(self, replace(proposal, head=head))

    monkeypatch.setattr(HookGuard, "before_commit", ask)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [ask_the_candidate_alone, ask_the_first_head])
def test_a_gate_that_is_not_asked_is_found_out(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    failure = first_failure("tests.simulation.hooks:gates", range(100))
    assert failure is not None
    assert "passed" in failure.error


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "seeds"), [("hooks", 15), ("refs", 60)])
def test_who_does_not_wait_before_a_look_does_no_harm(
    scenario: str, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostRunner, "_is_dead", lambda _self, _record: True)
    assert first_failure(f"tests.simulation.hooks:{scenario}", range(seeds)) is None
