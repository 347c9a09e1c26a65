"""Strict hooks: the gates of a head judge what takes its place, and who may skip them."""

import logging
from collections.abc import Callable

import pytest

from lakebed.base.actor import Actor, acting_as
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.errors import CommitRefused, Refused
from lakebed.engine.model import BranchID, Commit, CommitID
from lakebed.kv import StoreUnavailable
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.lake.errors import InvalidMetadata
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.imports.sources import ImportSource
from lakebed.testing.faults import FaultyStore, ResultT, StoreCall
from tests.kit.engines import new_engine
from tests.lake.hooks.run_kit import DEV, FOLDER, LAKE, MAIN, HookLake, action, fail

GATE = FOLDER + b"gate.yaml"
FEATURE = BranchID("feature")
REQUEST = CommitRequest(committer="ann", message="m")


@pytest.fixture
def lake() -> HookLake:
    """A lake whose main has a gate, and whose dev has none."""
    lake = HookLake()
    lake.put_action("gate", "pre-commit", "pre-merge", "pre-revert", "pre-cherry-pick")
    lake.commit()
    lake.answers.heard.clear()
    return lake


def asked(lake: HookLake) -> list[str]:
    found = [hook for hook, _ in lake.answers.heard]
    lake.answers.heard.clear()
    return found


def delete_the_gate(lake: HookLake) -> Commit:
    lake.catalog.objects.delete(LAKE, MAIN, GATE)
    return lake.commit()


def weaken_the_gate(lake: HookLake) -> Commit:
    lake.put_action("gate", "pre-commit", hooks=["weak"])
    return lake.commit()


def limit_the_gate(lake: HookLake) -> Commit:
    lake.put_action("gate", "post-commit")
    return lake.commit()


def merge_a_branch_without_it(lake: HookLake) -> Commit:
    lake.put(b"data", branch=DEV)
    lake.commit(DEV)
    return lake.merge()


def merge_its_deletion(lake: HookLake) -> Commit:
    lake.engine.refs.create_branch(LAKE, "feature", "main")
    lake.answers.deeds, deeds = {}, lake.answers.deeds
    lake.catalog.objects.delete(LAKE, FEATURE, GATE)
    lake.commit(FEATURE)
    lake.answers.deeds = deeds
    return lake.merge("feature")


def revert_the_commit_that_added_it(lake: HookLake) -> Commit:
    return lake.catalog.commits.revert(LAKE, MAIN, "main", REQUEST)


def cherry_pick(lake: HookLake) -> Commit:
    lake.put(b"data", branch=DEV)
    return lake.catalog.commits.cherry_pick(LAKE, MAIN, lake.commit(DEV).id, committer="ann")


def commit_another_content(lake: HookLake) -> Commit:
    lake.put(b"data", branch=DEV)
    metarange_id = lake.commit(DEV).metarange_id
    return lake.catalog.commits.commit(LAKE, MAIN, REQUEST, source_metarange=metarange_id).commit


WAYS = [
    delete_the_gate,
    weaken_the_gate,
    limit_the_gate,
    merge_a_branch_without_it,
    merge_its_deletion,
    revert_the_commit_that_added_it,
    cherry_pick,
    commit_another_content,
]


@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_round_the_gate_of_the_head(
    lake: HookLake, way: Callable[[HookLake], Commit]
) -> None:
    head = lake.head()
    lake.answers.deeds["check"] = fail
    with pytest.raises(Refused, match="the data is bad"):
        way(lake)
    assert lake.head() == head


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_that_lets_it_pass_can_be_changed(
    lake: HookLake, way: Callable[[HookLake], Commit]
) -> None:
    assert way(lake).id == lake.head()
    assert "check" in asked(lake)


@pytest.mark.parametrize("way", [delete_the_gate, merge_a_branch_without_it])
def test_a_repository_without_strict_hooks_is_as_before(
    lake: HookLake, way: Callable[[HookLake], Commit]
) -> None:
    lake.set_strict(strict=False)
    lake.answers.deeds["check"] = fail
    assert way(lake).id == lake.head()
    assert asked(lake) == []


def test_new_repositories_have_strict_hooks_and_old_records_do_not(lake: HookLake) -> None:
    assert lake.repository.strict_hooks
    lake.set_strict(strict=False)
    assert not lake.repository.strict_hooks


def test_a_new_gate_judges_the_commit_that_brings_it_beside_the_old_one(lake: HookLake) -> None:
    lake.put_action("second", "pre-commit", hooks=["second"])
    lake.commit()
    assert asked(lake) == ["check", "second"]
    lake.put_action("third", "pre-commit", hooks=["third"])
    lake.answers.deeds["third"] = fail
    head = lake.head()
    with pytest.raises(Refused, match="the data is bad"):
        lake.commit()
    assert lake.head() == head
    assert "third" in asked(lake)


def test_equal_files_run_once(lake: HookLake) -> None:
    lake.put(b"data")
    lake.commit()
    assert asked(lake) == ["check"]
    lake.engine.refs.create_branch(LAKE, "feature", "main")
    lake.put(b"more", branch=FEATURE)
    lake.commit(FEATURE)
    asked(lake)
    lake.merge("feature")
    assert asked(lake) == ["check"]


def test_the_event_does_not_depend_on_the_location_of_the_action_file(lake: HookLake) -> None:
    head = lake.head()
    lake.put(b"data", branch=DEV)
    source = lake.commit(DEV)
    merged = lake.merge()
    (event,) = lake.heard(EventType.PRE_MERGE)
    assert (event.source_ref, event.commit_id, event.branch_id) == (source.id, merged.id, "main")
    assert event.script_ref == head


def test_a_script_is_read_where_its_action_file_is(lake: HookLake) -> None:
    script = (
        "name: scripted\non: {pre-commit: }\nhooks:\n"
        "  - {id: script, type: lua, properties: {script_path: scripts/check.lua}}\n"
    )
    lake.put(FOLDER + b"scripted.yaml", script)
    lake.put(b"scripts/check.lua", "one")
    head: str = lake.commit().id
    lake.answers.heard.clear()
    lake.put(b"data")
    lake.commit()
    assert [event.script_ref for hook, event in lake.answers.heard if hook == "script"] == [head]
    # The file is the same, and the script is not: each runs with its own.
    head = lake.head()
    lake.put(b"scripts/check.lua", "two")
    lake.answers.heard.clear()
    made = lake.commit()
    read = [event.script_ref for hook, event in lake.answers.heard if hook == "script"]
    assert read == [head, made.id]


def test_before_a_commit_is_prepared_the_head_is_asked_too(lake: HookLake) -> None:
    lake.put_action("early", "prepare-commit", hooks=["early"])
    lake.commit()
    lake.answers.deeds["early"] = fail
    lake.catalog.objects.delete(LAKE, MAIN, FOLDER + b"early.yaml")
    with pytest.raises(Refused, match="prepare-commit hook aborted"):
        lake.commit()


def test_an_import_is_asked_of_the_head_and_of_what_it_brings(lake: HookLake) -> None:
    place = Namespace.parse("mem://data/outside")
    text = action("brought", "pre-commit", hooks=["brought"])
    lake.block.put(place.address("1.yaml"), [text.encode()])
    source = ImportSource.of_prefix(place, FOLDER)
    started = lake.catalog.imports.start(LAKE, MAIN, [source], committer="ann", message="in")
    assert lake.catalog.imports.status(LAKE, MAIN, started).commit is not None
    assert asked(lake) == ["check", "brought"]


# The head moves while gates run


@pytest.mark.parametrize("way", [delete_the_gate, merge_a_branch_without_it])
def test_the_gates_that_judged_are_those_of_the_head_that_is_replaced(
    lake: HookLake, way: Callable[[HookLake], Commit]
) -> None:
    """While the first gate runs, the head gets another one, which is asked then."""
    other = new_engine(lake.store, lake.block, runtime=lake.clock)  # without hooks
    moved: list[Commit] = []

    def move(_event: HookEvent, _output: HookOutput) -> None:
        if not moved:
            lake.put_action("new", "pre-commit", "pre-merge", branch=FEATURE, hooks=["new"])
            moved.append(HeadChanges(other).commit(LAKE, FEATURE, REQUEST).commit)
            merge = MergeRequest(committer="ann", message="m", keep_staged=True)
            HeadChanges(other).merge(LAKE, "feature", MAIN, merge)

    lake.engine.refs.create_branch(LAKE, "feature", "main")
    lake.answers.heard.clear()
    lake.answers.deeds["check"] = move
    lake.answers.deeds["new"] = fail
    with pytest.raises(Refused, match="hook 'new'"):
        way(lake)
    assert moved
    assert lake.head() == other.branches.get(lake.repository, MAIN).commit_id


# The rescue


def break_the_gate(lake: HookLake) -> None:
    """Let the head have a gate that refuses everything."""
    lake.answers.deeds["check"] = fail


def test_an_administrator_repairs_a_gate_that_refuses_its_repair(
    lake: HookLake, caplog: pytest.LogCaptureFixture
) -> None:
    break_the_gate(lake)
    lake.put_action("gate", "pre-commit", hooks=["repaired"])
    with pytest.raises(Refused):
        lake.commit()
    asked(lake)
    lake.clock.ahead_seconds += 1  # runs are listed by the second
    with acting_as(Actor(user="root", skips_hooks=True)), caplog.at_level(logging.WARNING):
        made = lake.commit()
    assert lake.head() == made.id
    assert asked(lake) == []
    assert made.metadata == {"k": "v", ".lakebed.hooks_skipped_by": "root"}
    run = next(iter(lake.actions.runs.list(LAKE)))
    assert (run.skipped_by, run.commit_id, run.passed) == ("root", made.id, True)
    assert list(lake.actions.runs.hooks(LAKE, run.id)) == []
    assert f"root skipped the pre-commit hooks of lake/main: commit {made.id}" in caplog.text
    lake.put(b"data")
    lake.commit()
    assert asked(lake) == ["repaired"]


def test_a_file_that_cannot_be_used_is_repaired_without_being_read(lake: HookLake) -> None:
    lake.set_strict(strict=False)
    lake.put(GATE, "name: [")
    with (
        acting_as(Actor(skips_hooks=True)),
        pytest.raises(Refused, match=r"action file _lakefs_actions/gate\.yaml"),
    ):
        lake.commit()  # what comes after is asked of the new commit
    broken = new_engine(lake.store, lake.block, runtime=lake.clock)
    HeadChanges(broken).commit(LAKE, MAIN, REQUEST)
    lake.set_strict(strict=True)
    lake.catalog.objects.delete(LAKE, MAIN, GATE)
    with pytest.raises(Refused, match="an administrator can skip them"):
        lake.commit()
    with acting_as(Actor(user="root", skips_hooks=True)):
        made = lake.commit()
    assert made.metadata[".lakebed.hooks_skipped_by"] == "root"


@pytest.mark.parametrize("what", ["create-branch", "delete-branch", "create-tag", "delete-tag"])
def test_hooks_of_refs_are_skipped_and_that_is_written_down(lake: HookLake, what: str) -> None:
    lake.put_action("refs", f"pre-{what}", hooks=["refs"])
    lake.commit()
    refs = lake.catalog.ref_changes
    lake.answers.deeds["refs"] = lambda _event, _output: None
    branch = refs.create_branch(LAKE, "there", "main").id
    tag = refs.create_tag(LAKE, "tagged", "main").id
    lake.answers.deeds["refs"] = fail
    lake.answers.heard.clear()
    deeds: dict[str, Callable[[], object]] = {
        "create-branch": lambda: refs.create_branch(LAKE, "new", "main"),
        "delete-branch": lambda: refs.delete_branch(LAKE, branch),
        "create-tag": lambda: refs.create_tag(LAKE, "v1", "main"),
        "delete-tag": lambda: refs.delete_tag(LAKE, tag),
    }
    with pytest.raises(Refused):
        deeds[what]()
    asked(lake)
    lake.clock.ahead_seconds += 1  # runs are listed by the second
    with acting_as(Actor(user="root", skips_hooks=True)):
        deeds[what]()
    assert asked(lake) == []
    run = next(iter(lake.actions.runs.list(LAKE)))
    assert (run.event_type, run.skipped_by) == (f"pre-{what}", "root")


@pytest.mark.parametrize("what", ["create-branch", "delete-branch", "create-tag", "delete-tag"])
def test_a_ref_at_a_file_that_cannot_be_used_is_not_stuck(lake: HookLake, what: str) -> None:
    plain = new_engine(lake.store, lake.block, runtime=lake.clock)  # without hooks
    lake.put(GATE, "name: [")
    HeadChanges(plain).commit(LAKE, MAIN, REQUEST)
    branch = plain.refs.create_branch(LAKE, "there", "main").id
    tag = plain.refs.create_tag(LAKE, "tagged", "main").id
    refs = lake.catalog.ref_changes
    deeds: dict[str, Callable[[], object]] = {
        "create-branch": lambda: refs.create_branch(LAKE, "new", "main"),
        "delete-branch": lambda: refs.delete_branch(LAKE, branch),
        "create-tag": lambda: refs.create_tag(LAKE, "v1", "main"),
        "delete-tag": lambda: refs.delete_tag(LAKE, tag),
    }
    with pytest.raises(Refused, match=r"action file _lakefs_actions/gate\.yaml"):
        deeds[what]()
    lake.clock.ahead_seconds += 1  # runs are listed by the second
    with acting_as(Actor(user="root", skips_hooks=True)):
        deeds[what]()
    run = next(iter(lake.actions.runs.list(LAKE)))
    assert (run.event_type, run.skipped_by) == (f"pre-{what}", "root")


def test_a_client_cannot_say_that_hooks_were_skipped(lake: HookLake) -> None:
    request = CommitRequest(
        committer="ann", message="m", metadata={".lakebed.hooks_skipped_by": "root"}
    )
    lake.put(b"data")
    with pytest.raises(InvalidMetadata, match="reserved for Lakebed"):
        lake.catalog.commits.commit(LAKE, MAIN, request)


# Refused commits


def refused_commit(lake: HookLake) -> str:
    """Return the id of a commit that a hook refused."""
    told: list[str] = []

    lake.clock.ahead_seconds += 1  # runs are listed by the second

    def refuse(event: HookEvent, output: HookOutput) -> None:
        told.append(event.commit_id)
        fail(event, output)

    lake.answers.deeds["check"] = refuse
    lake.put(b"data")
    with pytest.raises(Refused):
        lake.commit()
    lake.answers.deeds.clear()
    return told[-1]


def test_a_refused_commit_says_which_hook_refused_it(lake: HookLake) -> None:
    commit_id = refused_commit(lake)
    run = next(iter(lake.actions.runs.list(LAKE)))
    by = f"pre-commit hook 'check' of action 'gate', run {run.id}"

    def refused(ref: str) -> dict[CommitID, str]:
        return dict(lake.catalog.refs.log(LAKE, ref, amount=10).refused)

    assert refused(commit_id) == {commit_id: by}
    assert refused(commit_id[:10]) == {commit_id: by}
    assert refused(f"{commit_id}~1") == {}
    assert refused("main") == {}
    # The same content passes later, as another commit.
    made = lake.commit()
    assert refused(made.id) == {}


def test_no_ref_is_made_to_a_refused_commit(lake: HookLake) -> None:
    commit_id = refused_commit(lake)
    lake.catalog.commits.reset(LAKE, MAIN)
    head = lake.head()
    refs, commits = lake.catalog.ref_changes, lake.catalog.commits
    merge = MergeRequest(committer="ann", message="m")
    for attempt in (
        lambda ref: refs.create_branch(LAKE, "sneak", ref),
        lambda ref: refs.create_tag(LAKE, "sneak", ref),
        lambda ref: commits.hard_reset(LAKE, MAIN, ref),
        lambda ref: commits.merge(LAKE, ref, MAIN, merge),
    ):
        for ref in (commit_id, commit_id[:12], f"{commit_id}^0"):
            with pytest.raises(CommitRefused, match="refused by pre-commit hook 'check'"):
                attempt(ref)
    assert lake.head() == head
    assert [branch.id for branch in lake.catalog.refs.list_branches(LAKE)] == ["dev", "main"]
    # Its parent was not refused.
    refs.create_branch(LAKE, "fine", f"{commit_id}~1")


def test_a_refusal_that_cannot_be_noted_is_a_refusal_all_the_same() -> None:
    def refuse(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.key.startswith(b"refused/"):
            raise StoreUnavailable(call.operation)
        return apply()

    clock = ThreadRuntime()
    lake = HookLake(store=FaultyStore(MemoryStore(clock), refuse))
    lake.put_action("gate", "pre-commit")
    lake.answers.deeds["check"] = fail
    with pytest.raises(Refused, match="the data is bad"):
        lake.commit()
