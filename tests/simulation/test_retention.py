"""Commits that expire under the simulator: every seed holds, and broken rules are found."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakebed.base.runtime import now_us
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.commit import Committer
from lakebed.engine.expiry_marks import EXPIRED, ExpiryMarks
from lakebed.engine.keys import BRANCHES, LIVE, TAGS
from lakebed.engine.model import Branch, BranchID, Commit, CommitID, Repository
from lakebed.engine.refs import restore
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.refs.creation import CreationReads, _Creation
from lakebed.formats.gc_files import GCFile, GCFileKind
from lakebed.kv import ABSENT, Version
from lakebed.kv.records import Records
from lakebed.lake.copies import Copies
from lakebed.reclaim import expirer
from lakebed.reclaim import retention as keeping
from lakebed.reclaim.expirer import Expirer
from lakebed.reclaim.prepare import GCPreparation
from lakebed.reclaim.retention import FLOOR_US, RetentionRules, Scan
from lakebed.reclaim.runs import RunFiles
from lakebed.testing.simulation.explore import first_failure
from tests.kit.rounds import rounds
from tests.simulation import retention
from tests.simulation import retention_steps as steps
from tests.simulation.engine_mutants import Plant
from tests.simulation.retention_steps import Operation

Way = Callable[[Operation], None]


@pytest.mark.parametrize("scenario", retention.SCENARIOS)
def test_every_seed_holds(scenario: str) -> None:
    seeds = range(rounds(10, long=3_000, fast=2))
    assert first_failure(f"tests.simulation.retention:{scenario}", seeds) is None


@pytest.mark.slow
def test_the_scenario_reaches_what_it_is_about() -> None:
    told: Counter[str] = Counter()
    for seed in range(15):
        told += retention.fence_holds(seed).told
    for seed in range(5):
        told += retention.fence_holds(seed, restores=True).told
    restoring = ("restored", "expired after a restore")
    for what in (*retention.ALL, "CommitExpired", "rescued", "deleted", *restoring):
        assert told[what], f"{what}: {told}"


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*steps.NAMES, *steps.TAKES])
def test_a_commit_may_expire_at_any_step_of_what_uses_it(operation: Operation) -> None:
    steps.every_place(operation)


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*steps.NAMES, *steps.TAKES])
def test_a_commit_may_be_used_at_any_step_of_a_pass_or_of_a_look(operation: Operation) -> None:
    steps.every_step_of_a_pass(operation)
    steps.every_step_of_a_look(operation)


@pytest.mark.slow
@pytest.mark.parametrize("operation", [steps.merge, steps.cherry_pick, steps.commit_metarange])
def test_a_branch_may_be_elsewhere_meanwhile(operation: Operation) -> None:
    steps.every_time_to_leave(operation)


# Broken rules


def name_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """New refs and moves do not look at the mark."""
    monkeypatch.setattr(ExpiryMarks, "admit_ref", lambda *_args: None)


def look_before_naming(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new ref looks at the mark, and is written afterwards."""
    admit_ref, run = ExpiryMarks.admit_ref, _Creation.run

    def run_after_look(
        self: Any, message: Any, look: CreationReads | None, **options: Any
    ) -> Version:
        commit_id = CommitID(message.commit_id)
        (item,) = self._store.get_many([self._marks.place(self._repository, commit_id)])
        admit_ref(self._marks, self._repository, commit_id, item)
        return run(self, message, look, **options)

    monkeypatch.setattr(_Creation, "run", run_after_look)
    monkeypatch.setattr(ExpiryMarks, "admit_ref", lambda *_args: None)


def write_young_refs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ref to a young commit, judged before, is written LIVE in one step."""
    run = _Creation.run

    def run_young(self: Any, message: Any, look: CreationReads | None, **options: Any) -> Version:
        items = self._store.get_many([] if look is None else look.keys)
        message.commit_id = message.commit_id if look is None else look.judge(items)
        commit = Commits(self._store, self._runtime).get(self._repository, message.commit_id)
        if commit.stored_us > now_us(self._runtime) - FLOOR_US:
            message.state = LIVE
            return Version(self._own.set_if(self._name, message, ABSENT))
        return run(self, message, look, **options)

    monkeypatch.setattr(_Creation, "run", run_young)


def move_blindly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch is moved without saying first where it goes."""
    change = Branches.change

    def change_nothing(
        self: Branches, repository: Repository, branch: Branch, **changes: Any
    ) -> Branch:
        if "next_commit_id" in changes:
            return branch
        return change(self, repository, branch, **changes)

    monkeypatch.setattr(Branches, "change", change_nothing)


def leave_sources_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit takes content without a look at the marks of its sources."""
    monkeypatch.setattr(Committer, "_check_sources", lambda *_args: True)


def tell_before_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hook is told of a commit before its sources were looked at."""
    check = Committer._check_sources

    def tell_and_check(self: Any, repository: Repository, commit: Commit) -> bool:
        self._hooks.tell(commit.id)
        return check(self, repository, commit)

    monkeypatch.setattr(Committer, "_check_sources", tell_and_check)


def publish_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that is tried again may have expired meanwhile."""
    monkeypatch.setattr(Committer, "_is_kept", lambda *_args: True)


def leave_copies_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy shares an address without a look at the mark of the commit that names it."""
    monkeypatch.setattr(Copies, "_has_not_expired", lambda *_args: None)


def expire_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit expires after one scan."""
    carry_out = Expirer._apply

    def carry_out_at_once(self: Expirer, repository: Repository, plan: Any) -> None:
        carry_out(self, repository, plan)
        for commit_id in plan.unmarked:
            message = pb.Expiry(state=EXPIRED, expired_us=now_us(self._runtime))
            self._marks.records(repository).set(commit_id.encode(), message)

    monkeypatch.setattr(Expirer, "_apply", carry_out_at_once)


def scan_before_marking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second scan is one from before the marks were written."""
    scan = Expirer._scan
    latest: dict[Expirer, Scan] = {}

    def scan_earlier(self: Expirer, repository: Repository) -> Scan:
        found = scan(self, repository)
        earlier, latest[self] = latest.get(self, found), found
        return replace(earlier, began_us=found.began_us)

    monkeypatch.setattr(Expirer, "_scan", scan_earlier)


def adopt_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks are read when the scan is over."""

    def plan_late(self: Expirer, repository: Repository) -> Any:
        rules = self._rules.find(repository)
        scan = self._scan(repository)
        records = self._marks.records(repository).scan()
        marks = {CommitID(mark.name.decode()): mark for mark in records}
        kept = keeping.kept_commits(rules, scan)
        return expirer._Plan.make(marks, scan, kept, old_us=1 << 62)

    monkeypatch.setattr(Expirer, "_plan", plan_late)


def ignore_refs_being_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan takes no notice of refs that are being made, nor of where branches are going."""

    def read_refs(self: Expirer, repository: Repository, _began_us: int) -> Any:
        heads, named = [], set()
        for branch in Records(self._store, BRANCHES, repository.partition).scan():
            if branch.message.state == LIVE:
                name = BranchID(branch.name.decode())
                heads.append((name, CommitID(branch.message.commit_id)))
        for tag in Records(self._store, TAGS, repository.partition).scan():
            if tag.message.state == LIVE:
                named.add(tag.message.commit_id)
        return heads, named

    monkeypatch.setattr(Expirer, "_read_refs", read_refs)


def forget_what_is_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that was stored long ago and not published yet does not stay."""
    kept_commits = keeping.kept_commits

    def staying_without(rules: RetentionRules | None, scan: Scan) -> set[CommitID]:
        nowhere = BranchID("nowhere")
        commits = {name: replace(commit, branch=nowhere) for name, commit in scan.commits.items()}
        return kept_commits(rules, replace(scan, commits=commits))

    monkeypatch.setattr(expirer, "kept_commits", staying_without)


def read_marks_late(monkeypatch: pytest.MonkeyPatch, *, after_commits: bool) -> None:
    write = GCPreparation._write_commits
    latest: list[frozenset[str]] = [frozenset()]

    def write_late(
        self: GCPreparation,
        repository: Repository,
        files: RunFiles,
        kind: GCFileKind,
        _is_meant: Any,
    ) -> list[GCFile]:
        commits, marks = self._engine.commits, self._engine.marks
        listed = {commit.id for commit in commits.list(repository)} if after_commits else set()
        latest[0] = frozenset(marks.expired(repository))
        # What was stored since the commits were read is not written down.
        there = {commit.id for commit in commits.list(repository)} if after_commits else set()
        left_out = latest[0] | (there - listed)
        return write(self, repository, files, kind, lambda each: each not in left_out)

    monkeypatch.setattr(GCPreparation, "_write_commits", write_late)
    monkeypatch.setattr(retention, "read_expired", lambda *_args: latest[0])


def read_marks_after_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which commits have expired is read when what is staged was read."""
    read_marks_late(monkeypatch, after_commits=False)


def read_marks_after_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which commits have expired is read when the commits were read."""
    read_marks_late(monkeypatch, after_commits=True)


# Each with an operation, and the steps at which it goes wrong.
MUTANTS: list[tuple[Plant, Operation, Way]] = [
    (name_without_a_look, steps.create_branch, steps.every_place),
    (look_before_naming, steps.create_branch, steps.every_place),
    (write_young_refs_at_once, steps.create_tag, steps.every_place),
    (move_blindly, steps.hard_reset, steps.every_place),
    (leave_sources_unchecked, steps.cherry_pick, steps.every_place),
    (tell_before_the_check, steps.cherry_pick_with_a_hook, steps.every_place),
    (publish_without_a_look, steps.merge, steps.every_time_to_leave),
    (leave_copies_unchecked, steps.copy, steps.every_place),
    (expire_at_once, steps.create_tag, steps.every_step_of_a_pass),
    (scan_before_marking, steps.create_tag, steps.every_step_of_a_pass),
    (adopt_late, steps.create_branch, steps.every_step_of_a_pass),
    (ignore_refs_being_created, steps.create_branch, steps.every_place),
    (ignore_refs_being_created, steps.hard_reset, steps.every_place),
    (forget_what_is_in_flight, steps.cherry_pick, steps.every_place),
    (read_marks_after_staging, steps.copy, steps.every_step_of_a_look),
    (read_marks_after_commits, steps.cherry_pick, steps.every_step_of_a_look),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "operation", "way"),
    MUTANTS,
    ids=[f"{plant.__name__}-{operation.__name__}" for plant, operation, _ in MUTANTS],
)
def test_a_broken_rule_is_found_out(
    plant: Plant, operation: Operation, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="is gone"):
        way(operation)


@pytest.mark.slow
def test_a_restore_that_does_not_know_what_has_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "read_all_expired", lambda *_args: frozenset())
    failure = first_failure("tests.simulation.retention:restored", range(5, 40))
    assert failure is not None
    assert "is gone" in failure.error


@pytest.mark.slow
def test_a_pass_that_goes_by_the_default_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetentionRules, "days_of", lambda rules, _branch: rules.default_days)
    failure = first_failure("tests.simulation.retention:restored", range(40))
    assert failure is not None
    assert "are kept by the rules, and marked" in failure.error


@pytest.mark.slow
def test_chance_finds_a_broken_rule_too(monkeypatch: pytest.MonkeyPatch) -> None:
    name_without_a_look(monkeypatch)
    # One seed in dozens tells: where to begin, so as not to look for long.
    failure = first_failure("tests.simulation.retention:fence", range(37, 100))
    assert failure is not None
    assert "AssertionError" in failure.error, "found by a check, not by a crash"
