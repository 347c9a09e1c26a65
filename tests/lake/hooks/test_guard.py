"""Hooks before operations: which ones run, what they are told, and that they can refuse."""

from collections.abc import Callable
from functools import partial

import pytest

from lakebed.base.actor import Actor, acting_as
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.errors import Refused
from lakebed.engine.model import BranchID, RepositoryID, TagID
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.lake.hooks import files
from lakebed.lake.hooks.actions import TRIALS_MAX, HookTrial, Trial
from lakebed.lake.hooks.errors import RunNotFound, TooManyTrials
from lakebed.lake.hooks.events import EventType, HookEvent
from lakebed.lake.hooks.guard import PROPOSALS_MAX
from lakebed.lake.hooks.keys import RUN_HOOKS
from lakebed.lake.hooks.outputs import HookOutput
from lakebed.lake.imports.sources import ImportSource
from lakebed.testing.faults import FaultyStore
from tests.kit.engines import new_engine
from tests.kit.served import eventually
from tests.kit.steps import StepBlockStore, StepRuntime, Steps
from tests.lake.hooks.run_kit import DEV, FOLDER, HEARTBEAT_SECONDS, LAKE, MAIN, HookLake, fail

REQUEST = CommitRequest(committer="ann", message="m")


@pytest.fixture
def lake() -> HookLake:
    return HookLake()


def test_a_refused_commit_says_which_hook_and_what_it_printed(lake: HookLake) -> None:
    lake.answers.deeds["check"] = fail
    lake.put_action("gate", "pre-commit")
    before = lake.head()
    with pytest.raises(Refused) as caught:
        lake.commit()
    (run,) = lake.actions.runs.list(LAKE)
    assert str(caught.value) == (
        f"pre-commit hook aborted, run id '{run.id}': 1 error occurred:\n"
        "\t* hook run id '0000_0000' failed on action 'gate' hook 'check': the data is bad\n\n"
        "\noutput of hook 'check':\nlooked at the data\n"
    )
    assert lake.head() == before
    assert not run.passed
    (hook,) = lake.actions.runs.hooks(LAKE, run.id)
    assert (hook.id, hook.action, hook.hook_id, hook.passed) == (
        "0000_0000",
        "gate",
        "check",
        False,
    )
    output = lake.actions.runs.output(LAKE, run.id, hook.id)
    assert output == b"looked at the data\n"
    # What is staged stays, and is committed once the hook lets it pass.
    lake.answers.deeds.clear()
    assert lake.commit().id == lake.head()


def test_a_hook_is_told_of_a_commit_that_it_can_read(lake: HookLake) -> None:
    read: list[bytes] = []

    def look(event: HookEvent, _output: HookOutput) -> None:
        stats = lake.catalog.objects.stat(LAKE, event.commit_id, b"data")
        with lake.catalog.objects.read(stats) as stream:
            read.append(b"".join(stream))

    lake.answers.deeds["check"] = look
    lake.put_action("gate", "pre-commit")
    lake.put(b"data", "new")
    with acting_as(Actor(user="bea")):
        made = lake.commit(message="why")
    (event,) = lake.answers.events()
    assert read == [b"new"]
    assert (event.commit_id, event.branch_id, event.source_ref) == (made.id, "main", "main")
    assert (event.commit_message, event.committer, event.username) == ("why", "ann", "bea")
    assert event.commit_metadata == {"k": "v"}
    assert event.repository_uid == lake.repository.unique_id
    assert event.storage_namespace == "mem://lake/x"
    assert event.commit.parents == made.parents


def test_a_hook_of_nobody_runs_as_nobody(lake: HookLake) -> None:
    """The name that commits show is any text, and may be that of another user."""
    lake.put_action("gate", "prepare-commit", "pre-commit", "post-commit")
    lake.commit()
    lake.actions.post.run_waiting()
    assert [event.username for event in lake.answers.events()] == ["", "", ""]


@pytest.mark.parametrize("text", ["name: x\n", "on: [", "\x00"])
def test_a_file_that_cannot_be_used_refuses_the_operation_by_name(
    lake: HookLake, text: str
) -> None:
    lake.put(FOLDER + b"bad.yaml", text)
    before = lake.head()
    with pytest.raises(Refused, match=r"action file _lakefs_actions/bad\.yaml: .+"):
        lake.commit()
    assert lake.head() == before
    (found,) = lake.actions.runs.list(LAKE, branch=MAIN)
    assert (found.event_type, found.passed) == ("prepare-commit", False)
    (hook,) = lake.actions.runs.hooks(LAKE, found.id)
    assert (hook.action, hook.passed) == ("_lakefs_actions/bad.yaml", False)
    output = lake.actions.runs.output(LAKE, found.id, hook.id)
    assert output.startswith(b"action file _lakefs_actions/bad.yaml: ")


def test_files_in_folders_below_are_not_action_files(lake: HookLake) -> None:
    lake.put(FOLDER + b"scripts/check.lua", "not YAML: [")
    assert lake.commit().id == lake.head()


def test_folders_do_not_hide_the_action_files_behind_them(
    lake: HookLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILES_MAX", 3)
    lake.answers.deeds["check"] = fail
    lake.put_action("gate", "pre-commit")
    for folder in (b"a", b"b", b"c", b"d"):
        lake.put(FOLDER + folder + b"/x")
    with pytest.raises(Refused, match="more than 3 files and folders"):
        lake.commit()
    lake.catalog.objects.delete(LAKE, MAIN, FOLDER + b"a/x")
    lake.catalog.objects.delete(LAKE, MAIN, FOLDER + b"b/x")
    with pytest.raises(Refused, match="the data is bad"):
        lake.commit()


# Which files count


def test_a_merge_is_judged_by_its_source(lake: HookLake) -> None:
    lake.set_strict(strict=False)
    lake.put_action("source", "pre-merge", "post-merge", branch=DEV)
    lake.commit(DEV)
    source = lake.head(DEV)
    merged = lake.merge()
    (event,) = lake.heard(EventType.PRE_MERGE)
    assert (event.commit_id, event.branch_id) == (merged.id, "main")
    assert (event.merge_source, event.source_ref) == ("dev", source)
    lake.actions.post.run_waiting()
    (event,) = lake.heard(EventType.POST_MERGE)
    assert (event.commit_id, event.source_ref) == (merged.id, merged.id)
    # What the destination has does not count.
    lake.put_action("destination", "pre-merge", hooks=["never"])
    lake.commit()
    lake.put(b"more", branch=DEV)
    lake.commit(DEV)
    lake.merge()
    assert "never" not in {hook for hook, _ in lake.answers.heard}


def test_a_revert_and_a_cherry_pick_are_judged_by_the_branch(lake: HookLake) -> None:
    lake.set_strict(strict=False)
    lake.put_action("gate", "pre-revert", "post-revert", "pre-cherry-pick", "post-cherry-pick")
    added = lake.commit()
    request = CommitRequest(committer="ann", message="back")
    reverted = lake.catalog.commits.revert(LAKE, MAIN, added.id, request)
    (event,) = lake.heard(EventType.PRE_REVERT)
    assert (event.commit_id, event.source_ref) == (reverted.id, "main")
    lake.actions.post.run_waiting()
    assert not lake.heard(EventType.POST_REVERT)  # the new commit has no action file any more
    picked = lake.catalog.commits.cherry_pick(LAKE, MAIN, added.id, committer="ann")
    assert not lake.heard(EventType.PRE_CHERRY_PICK)
    lake.actions.post.run_waiting()
    (event,) = lake.heard(EventType.POST_CHERRY_PICK)
    assert event.commit_id == picked.id


def test_branches_and_tags_are_judged_by_their_commits(lake: HookLake) -> None:
    what = ("create-branch", "delete-branch", "create-tag", "delete-tag")
    lake.put_action("gate", *(f"{when}-{each}" for when in ("pre", "post") for each in what))
    head = lake.commit().id
    with acting_as(Actor(user="bea")):
        lake.catalog.ref_changes.create_branch(LAKE, "new", "main~0")
        lake.catalog.ref_changes.create_tag(LAKE, "v1", "main")
        lake.catalog.ref_changes.delete_branch(LAKE, BranchID("new"))
        lake.catalog.ref_changes.delete_tag(LAKE, TagID("v1"))
    lake.actions.post.run_waiting()
    told = {
        event.event_type.value: (
            event.branch_id, event.tag_id, event.commit_id, event.source_ref, event.username
        )
        for event in lake.answers.events()
    }  # fmt: skip
    branch = ("new", "", head, "main~0", "bea")
    tag = ("", "v1", head, head, "bea")
    deleted = ("new", "", "", head, "bea")
    assert told == {
        "pre-create-branch": branch, "post-create-branch": branch,
        "pre-create-tag": tag, "post-create-tag": tag,
        "pre-delete-branch": deleted, "post-delete-branch": deleted,
        "pre-delete-tag": tag, "post-delete-tag": tag,
    }  # fmt: skip


@pytest.mark.parametrize("what", ["create-branch", "delete-branch", "create-tag", "delete-tag"])
def test_refs_can_be_refused(lake: HookLake, what: str) -> None:
    lake.catalog.ref_changes.create_tag(LAKE, "old", "main")
    lake.answers.deeds["check"] = fail
    lake.put_action("gate", f"pre-{what}", branch=DEV)
    lake.commit(DEV)
    refs = lake.catalog.ref_changes
    if what == "delete-tag":
        refs.create_tag(LAKE, "at-dev", "dev")
    deeds: dict[str, Callable[[], object]] = {
        "create-branch": lambda: refs.create_branch(LAKE, "new", "dev"),
        "delete-branch": lambda: refs.delete_branch(LAKE, DEV),
        "create-tag": lambda: refs.create_tag(LAKE, "v1", "dev"),
        "delete-tag": lambda: refs.delete_tag(LAKE, TagID("at-dev")),
    }
    before = list(lake.catalog.refs.list_branches(LAKE)), list(lake.catalog.refs.list_tags(LAKE))
    with pytest.raises(Refused, match=f"pre-{what} hook aborted"):
        deeds[what]()
    assert (
        list(lake.catalog.refs.list_branches(LAKE)),
        list(lake.catalog.refs.list_tags(LAKE)),
    ) == before


def test_a_prepared_commit_holds_what_the_hook_wrote(lake: HookLake) -> None:
    lake.answers.deeds["check"] = lambda _event, _output: lake.put(b"manifest", "written")
    lake.put_action("gate", "prepare-commit")
    made = lake.commit()
    (event,) = lake.answers.events()
    assert (event.event_type, event.commit_id) == (EventType.PREPARE_COMMIT, "")
    assert lake.catalog.objects.stat(LAKE, made.id, b"manifest").size == len("written")
    lake.answers.deeds["check"] = fail
    lake.put(b"more")
    with pytest.raises(Refused, match="prepare-commit hook aborted"):
        lake.commit()
    assert lake.head() == made.id


def test_a_read_only_repository_fires_nothing(lake: HookLake) -> None:
    lake.answers.deeds["check"] = fail
    frozen, place = RepositoryID("frozen"), Namespace.parse("mem://lake/frozen")
    lake.engine.repositories.create(frozen, place, committer="ann", read_only=True)
    with acting_as(Actor(force=True)):
        text = b"name: gate\non:\n  pre-commit:\nhooks: [broken"
        lake.catalog.uploads.upload(frozen, MAIN, FOLDER + b"gate.yaml", [text])
        lake.catalog.commits.commit(frozen, MAIN, REQUEST)
    assert not lake.answers.heard


def test_an_import_fires_the_hooks_of_a_commit(lake: HookLake) -> None:
    lake.put_action("gate", "pre-commit", "post-commit")
    lake.commit()
    lake.actions.post.run_waiting()
    lake.answers.heard.clear()
    place = Namespace.parse("mem://data/outside")
    lake.block.put(place.address("1"), [b"imported"])
    source = ImportSource.of_prefix(place, b"in/")
    with acting_as(Actor(user="bea")):
        imported = lake.catalog.imports.start(
            LAKE, MAIN, [source], committer="bea@example.com", message="in"
        )
    status = lake.catalog.imports.status(LAKE, MAIN, imported)
    assert status.commit is not None
    lake.actions.post.run_waiting()
    before, after = lake.heard(EventType.PRE_COMMIT) + lake.heard(EventType.POST_COMMIT)
    assert before.commit_id == after.commit_id == status.commit.id
    # They run as the one who asked, whatever the commit shows.
    assert before.username == after.username == "bea"
    lake.block.put(place.address("1"), [b"changed"])  # of the same there would be no commit
    lake.answers.deeds["check"] = fail
    lake.block.put(place.address("2"), [b"imported"])
    refused = lake.catalog.imports.start(LAKE, MAIN, [source], committer="bea", message="again")
    error = lake.catalog.imports.status(LAKE, MAIN, refused).error
    assert error is not None
    assert "pre-commit hook aborted" in error


# How hooks run


def test_hooks_behind_a_failed_one_are_skipped_unless_they_ask_for_it(lake: HookLake) -> None:
    lake.answers.deeds["first"] = fail
    always = ", if: 'success() || failure()'"
    text = (
        "name: gate\non: {pre-commit: }\nhooks:\n"
        "  - {id: first, type: webhook, properties: {url: 'http://a.example'}}\n"
        "  - {id: second, type: webhook, properties: {url: 'http://a.example'}}\n"
        f"  - {{id: third, type: webhook, properties: {{url: 'http://a.example'}}{always}}}\n"
    )
    lake.put(FOLDER + b"gate.yaml", text)
    with pytest.raises(Refused, match="1 error occurred"):
        lake.commit()
    assert [hook for hook, _ in lake.answers.heard] == ["first", "third"]
    (run,) = lake.actions.runs.list(LAKE)
    hooks = list(lake.actions.runs.hooks(LAKE, run.id))
    assert [(hook.id, hook.passed, hook.skipped) for hook in hooks] == [
        ("0000_0000", False, False),
        ("0000_0001", True, True),
        ("0000_0002", True, False),
    ]
    assert lake.actions.runs.output(LAKE, run.id, "0000_0001") == b""


def test_actions_run_side_by_side(lake: HookLake) -> None:
    """Each waits for the other: one after the other, they would wait for ever."""
    begun = {name: lake.clock.event() for name in ("one", "two")}

    def meet(own: str, other: str) -> None:
        begun[own].set()
        assert begun[other].wait(30)

    lake.answers.deeds["one"] = lambda _event, _output: meet("one", "two")
    lake.answers.deeds["two"] = lambda _event, _output: meet("two", "one")
    lake.put_action("first", "pre-commit", hooks=["one"])
    lake.put_action("second", "pre-commit", hooks=["two"])
    lake.commit()
    (run,) = lake.actions.runs.list(LAKE)
    assert run.passed


def test_a_slow_hook_stops_nobody_else(lake: HookLake) -> None:
    """While a hook runs, others write and commit to the same branch."""
    other = new_engine(lake.store, lake.block, runtime=lake.clock)

    def look(event: HookEvent, _output: HookOutput) -> None:
        if len(lake.heard(EventType.PRE_COMMIT)) == 1:
            lake.put(b"meanwhile")
            HeadChanges(other).commit(LAKE, MAIN, REQUEST)
            lake.put(b"staged", "after")

    lake.answers.deeds["check"] = look
    lake.put_action("gate", "pre-commit")
    lake.put(b"mine")
    assert lake.commit().id == lake.head()


def test_a_branch_that_never_rests_is_given_up(lake: HookLake) -> None:
    """A hook that moves its own branch is offered what comes of that, but not for ever."""
    other = new_engine(lake.store, lake.block, runtime=lake.clock)
    numbers = iter(range(100))

    def move(_event: HookEvent, _output: HookOutput) -> None:
        request = CommitRequest(committer="", message=str(next(numbers)), allow_empty=True)
        head = other.resolver.commit(lake.repository, "main")
        HeadChanges(other).commit(LAKE, MAIN, request, source_metarange=head.metarange_id)

    lake.put(
        b"_lakefs_actions/gate.yaml",
        "name: gate\non: {pre-merge: }\nhooks:\n"
        "  - {id: check, type: webhook, properties: {url: 'http://a.example'}}\n",
        DEV,
    )
    lake.commit(DEV)
    lake.answers.deeds["check"] = move
    with pytest.raises(Refused, match=f"changed {PROPOSALS_MAX} times"):
        lake.merge()
    assert len(lake.answers.heard) == PROPOSALS_MAX


# Runs


def test_runs_are_listed_newest_first_and_by_branch_and_commit(lake: HookLake) -> None:
    lake.put_action("gate", "pre-commit")
    made = []
    for number in range(3):
        lake.put(b"data", str(number))
        lake.clock.ahead_seconds += 1
        made.append(lake.commit().id)
    HeadChanges(lake.engine).hard_reset(LAKE, DEV, "main")
    lake.put(b"data", "dev", DEV)
    lake.clock.ahead_seconds += 1
    made.append(lake.commit(DEV).id)
    runs = lake.actions.runs
    assert [run.commit_id for run in runs.list(LAKE)] == made[::-1]
    assert [run.commit_id for run in runs.list(LAKE, branch="main")] == made[2::-1]
    assert [run.commit_id for run in runs.list(LAKE, branch="mai")] == []
    assert [run.branch for run in runs.list(LAKE, commit_id=made[3])] == ["dev"]
    first, second, *_ = runs.list(LAKE)
    assert next(iter(runs.list(LAKE, after=first.id))) == second
    assert len(first.id) == 20
    assert runs.get(LAKE, first.id) == first
    with pytest.raises(RunNotFound):
        runs.get(LAKE, "nothing")
    with pytest.raises(RunNotFound):
        runs.output(LAKE, first.id, "0009_0000")


class Died(BaseException):
    """The process ends."""


def test_a_run_whose_process_died_shows_as_failed(lake: HookLake) -> None:
    def die(_event: HookEvent, _output: HookOutput) -> None:
        assert not list(lake.actions.runs.list(LAKE))  # while it runs, it is not listed
        raise Died

    lake.answers.deeds["check"] = die
    lake.put_action("gate", "pre-commit")
    with pytest.raises(Died):
        lake.commit()
    assert not list(lake.actions.runs.list(LAKE))
    lake.clock.ahead_seconds += HEARTBEAT_SECONDS + 1
    (run,) = lake.actions.runs.list(LAKE)
    assert not run.passed
    (hook,) = lake.actions.runs.hooks(LAKE, run.id)
    assert (hook.passed, hook.ended) == (False, None)


def test_runs_are_removed_with_all_that_they_left(lake: HookLake) -> None:
    keys_before = {item.key for item in lake.store.scan(lake.repository.partition, b"run")}
    lake.answers.deeds["check"] = lambda _event, output: output.print("hello")
    lake.put_action("gate", "pre-commit", "post-commit")
    lake.commit()
    lake.actions.post.run_waiting()
    logs = lake.repository.namespace.folder("_lakebed").folder("actions")
    assert sum(batch.num_rows for batch in lake.block.list_objects(logs)) == 2
    lake.clock.ahead_seconds += 29 * 24 * 3600
    assert lake.actions.clean(lake.repository) == 0
    lake.clock.ahead_seconds += 2 * 24 * 3600
    assert lake.actions.clean(lake.repository) == 2
    assert {item.key for item in lake.store.scan(lake.repository.partition, b"run")} == keys_before
    assert not sum(batch.num_rows for batch in lake.block.list_objects(logs))


def test_a_run_is_removed_with_a_damaged_record_of_a_hook(lake: HookLake) -> None:
    lake.put_action("gate", "pre-commit")
    lake.commit()
    partition = lake.repository.partition
    (hook,) = lake.store.scan(partition, RUN_HOOKS.prefix, prefix=RUN_HOOKS.prefix)
    lake.store.set(partition, hook.key, b"\xff")
    lake.clock.ahead_seconds += 31 * 24 * 3600
    assert lake.actions.clean(lake.repository) == 1
    assert not list(lake.store.scan(partition, RUN_HOOKS.prefix, prefix=RUN_HOOKS.prefix))


def test_a_repository_made_again_has_no_runs_of_the_one_before(lake: HookLake) -> None:
    lake.put_action("gate", "pre-commit", "post-commit")
    lake.commit()
    lake.engine.repositories.delete(LAKE)
    place = Namespace.parse("mem://lake/y")
    lake.engine.repositories.create(LAKE, place, committer="ann")
    assert not list(lake.actions.runs.list(LAKE))
    # Nor does it run what was to come after the operations of that one.
    assert lake.actions.post.run_waiting() == 0
    assert not lake.heard(EventType.POST_COMMIT)
    assert not list(lake.actions.runs.waiting.scan())


# Trials


@pytest.mark.slow
def test_the_output_of_a_trial_can_be_read_while_it_runs(lake: HookLake) -> None:
    lake.put_action("gate", "pre-commit")
    head = lake.commit()

    def print_and_look(event: HookEvent, output: HookOutput) -> None:
        output.print("first")
        seen = partial(lake.actions.runs.output, LAKE, event.run_id, "0000_0000")
        eventually(lambda: seen() == b"first\n")
        output.print("second")

    lake.answers.deeds["check"] = print_and_look
    trial = lake.actions.try_out(LAKE, "main", EventType.PRE_COMMIT, username="bea")
    assert trial.run_id is not None
    assert trial.hooks == (HookTrial("0000_0000", "gate", "check"),)
    assert lake.actions.runs.get(LAKE, trial.run_id).passed
    assert lake.actions.runs.output(LAKE, trial.run_id, "0000_0000") == b"first\nsecond\n"
    assert lake.answers.events()[-1].username == "bea"
    assert lake.head() == head.id
    none = lake.actions.try_out(LAKE, "main", EventType.PRE_MERGE, username="bea")
    assert none == Trial(None, ())


def test_a_trial_whose_process_died_shows_as_failed(lake: HookLake) -> None:
    """Also of an event after an operation: nobody takes it up."""

    def die(_event: HookEvent, _output: HookOutput) -> None:
        raise Died

    lake.put_action("gate", "post-create-tag")
    lake.commit()
    lake.answers.deeds["check"] = die
    with pytest.raises(Died):
        lake.actions.try_out(LAKE, "main", EventType.POST_CREATE_TAG, username="bea")
    lake.clock.ahead_seconds += HEARTBEAT_SECONDS + 1
    lake.actions.post.run_waiting()
    (run,) = lake.actions.runs.list(LAKE)
    assert not run.passed


def test_trials_are_bounded(lake: HookLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.put_action("gate", "pre-commit")
    lake.commit()
    waiting: list[Callable[[], None]] = []
    monkeypatch.setattr(lake.actions, "_run_in_background", waiting.append)

    def begin() -> Trial:
        return lake.actions.try_out(LAKE, "main", EventType.PRE_COMMIT, username="bea")

    for _ in range(TRIALS_MAX):
        begin()
    with pytest.raises(TooManyTrials, match="retry when one"):
        begin()
    waiting.pop()()
    assert begin().run_id is not None


# What it costs where there are none


@pytest.mark.parametrize("operation", ["commit", "merge", "create_branch"])
def test_without_action_files_hooks_cost_no_call(operation: str) -> None:
    """Nothing is read from the store or the storage but what would be read without hooks."""
    counted: dict[bool, list[str]] = {}
    for has_hooks in (True, False):
        steps = Steps()
        runtime = StepRuntime(steps)
        store = FaultyStore(MemoryStore(ThreadRuntime()), steps.count_store)
        lake = HookLake(store=store, block=StepBlockStore(steps))
        for number in range(100):  # some of them on both sides of where action files would be
            lake.put(b"A%d" % number)
            lake.put(b"z%d" % number)
        lake.commit()
        HeadChanges(lake.engine).hard_reset(LAKE, DEV, "main")
        engine = (
            lake.process(runtime).engine
            if has_hooks
            else new_engine(store, lake.block, runtime=runtime)
        )
        # A process that has made one commit before: it knows what it wrote.
        lake.put(b"z0", "changed", DEV)
        HeadChanges(engine).commit(LAKE, DEV, REQUEST)
        lake.put(b"z1", "changed")
        steps.clear()
        if operation == "commit":
            HeadChanges(engine).commit(LAKE, MAIN, REQUEST)
        elif operation == "merge":
            HeadChanges(engine).reset(LAKE, MAIN)
            steps.clear()
            HeadChanges(engine).merge(LAKE, "dev", MAIN, MergeRequest(committer="", message=""))
        else:
            engine.refs.create_branch(LAKE, "new", MAIN)
        counted[has_hooks] = sorted(steps.calls)
    assert counted[True] == counted[False]
