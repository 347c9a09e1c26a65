"""Hooks after operations: once for what took effect, never for what did not, whoever else fails."""

from collections.abc import Callable, Sequence

import pytest

from lakebed.engine.errors import NotUnique
from lakebed.engine.model import BranchID, CommitID
from lakebed.engine.refs.creation import CreationReads
from lakebed.kv import Item
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.hooks.post import AT_ONCE_MAX
from tests.lake.hooks.run_kit import HEARTBEAT_SECONDS, LAKE, MAIN, HookLake


@pytest.fixture
def lake() -> HookLake:
    made = HookLake()
    made.put_action("tell", "post-create-branch", "post-create-tag", "post-commit")
    made.commit()
    made.actions.post.run_waiting()
    made.answers.heard.clear()
    return made


def run_all(lake: HookLake) -> None:
    """Run what waits, and find out what became of operations whose processes may have died."""
    for _ in range(3):
        lake.actions.post.run_waiting()
        lake.clock.ahead_seconds += 1.5 * HEARTBEAT_SECONDS


def creations(lake: HookLake) -> dict[str, Callable[[], object]]:
    refs = lake.catalog.ref_changes
    return {
        "branch": lambda: refs.create_branch(LAKE, "new", "main"),
        "tag": lambda: refs.create_tag(LAKE, "new", "main"),
    }


@pytest.mark.parametrize("taken", ["branch", "tag"])
@pytest.mark.parametrize("what", ["branch", "tag"])
def test_a_name_that_was_taken_is_no_creation(lake: HookLake, what: str, taken: str) -> None:
    creations(lake)[taken]()
    run_all(lake)
    lake.answers.heard.clear()
    with pytest.raises(NotUnique):
        creations(lake)[what]()
    run_all(lake)
    assert not lake.answers.heard
    assert not list(lake.actions.runs.waiting.scan())


@pytest.mark.parametrize("what", ["branch", "tag"])
def test_of_two_who_make_the_same_one_of_them_is_told(
    lake: HookLake, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = creations(lake)[what]
    part = lake.engine.branches if what == "branch" else lake.engine.tags
    inner = part.create

    def slower(*arguments: object, reads: CreationReads, **named: object) -> object:
        """Another process makes it while this one has been prepared already."""
        monkeypatch.setattr(part, "create", inner)

        def judge(found: Sequence[Item | None]) -> CommitID:
            commit_id = reads.judge(found)
            create()
            return commit_id

        return inner(*arguments, reads=CreationReads(reads.keys, judge), **named)  # type: ignore[arg-type]

    monkeypatch.setattr(part, "create", slower)
    with pytest.raises(NotUnique):
        create()
    run_all(lake)
    assert len(lake.answers.heard) == 1


@pytest.mark.parametrize("what", ["branch", "tag"])
def test_a_creation_that_takes_long_is_told(
    lake: HookLake, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks for what dead processes left must not take a slow one for dead."""
    runs = lake.actions.runs
    prepare = runs.prepare

    def slowly(*arguments: object) -> object:
        monkeypatch.setattr(runs, "prepare", prepare)
        run_id = prepare(*arguments)  # type: ignore[arg-type]
        run_all(lake)
        return run_id

    monkeypatch.setattr(runs, "prepare", slowly)
    creations(lake)[what]()
    run_all(lake)
    assert [event.branch_id or event.tag_id for event in lake.answers.events()] == ["new"]


def test_a_run_that_breaks_does_not_stop_the_others(lake: HookLake) -> None:
    def stumble(event: HookEvent, _output: HookOutput) -> None:
        if event.tag_id == "bad":
            raise RuntimeError("a fault of the server's")

    lake.answers.deeds["check"] = stumble
    for name in ("first", "bad", "last"):
        lake.catalog.ref_changes.create_tag(LAKE, name, "main")
    run_all(lake)
    assert {event.tag_id for event in lake.answers.events()} == {"first", "bad", "last"}
    passed = [run.passed for run in lake.actions.runs.list(LAKE) if "tag" in run.event_type]
    assert sorted(passed) == [False, True, True]


def test_a_record_that_nobody_understands_does_not_stop_the_others(lake: HookLake) -> None:
    for name in ("first", "odd", "last"):
        lake.catalog.ref_changes.create_tag(LAKE, name, "main")
    records = lake.actions.runs.records(lake.repository)
    (odd,) = [each for each in records.scan() if each.message.tag == "odd"]
    odd.message.event_type = "of-a-later-version"
    records.set(odd.name, odd.message)
    run_all(lake)
    assert {event.tag_id for event in lake.answers.events()} == {"first", "last"}


def test_post_hooks_run_in_order_of_events(lake: HookLake) -> None:
    made = []
    for number in range(3):
        lake.put(b"data", str(number))
        made.append(lake.commit(MAIN).id)
        lake.clock.ahead_seconds += 1
    lake.actions.post.run_waiting()
    told = [event.commit_id for event in lake.heard(EventType.POST_COMMIT)]
    assert told == made


def test_runs_of_other_processes_are_forgotten(lake: HookLake) -> None:
    other = lake.process()
    lake.catalog.ref_changes.create_branch(LAKE, BranchID("new"), "main")

    def look(_event: HookEvent, _output: HookOutput) -> None:
        other.actions.post.run_waiting()

    lake.answers.deeds["check"] = look
    lake.actions.post.run_waiting()
    assert other.actions.post._observed._seen
    other.actions.post.run_waiting()
    assert not other.actions.post._observed._seen


def test_a_repository_whose_hooks_take_long_leaves_room_for_others(lake: HookLake) -> None:
    """As many threads as a process has look for work, one inside the other."""
    running: list[str] = []
    most = 0

    def look(event: HookEvent, _output: HookOutput) -> None:
        nonlocal most
        running.append(event.tag_id)
        most = max(most, len(running))
        lake.actions.post.run_waiting()
        running.remove(event.tag_id)

    lake.answers.deeds["check"] = look
    names = {f"t{number}" for number in range(5)}
    for name in names:
        lake.catalog.ref_changes.create_tag(LAKE, name, "main")
    lake.actions.post.run_waiting()
    assert {event.tag_id for event in lake.answers.events()} == names
    assert most == AT_ONCE_MAX
