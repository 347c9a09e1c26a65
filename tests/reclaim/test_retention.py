"""Commits that expire by rules: what is kept, what is refused, and what goes on working."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.base.runtime import UniqueID
from lakebed.block import Address
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import CommitExpired, RefsLeftOut, RepositoryNotFound, TooManyExpire
from lakebed.engine.keys import COMMITS, RESTORED, RESTORED_NAME
from lakebed.engine.model import BranchID, CommitID, Repository, TagID
from lakebed.formats.gc_files import GCFileKind, GCRunID, decode_gc_table
from lakebed.kv import OutcomeUnknown
from lakebed.kv.records import Records
from lakebed.lake.errors import MissingBytes
from lakebed.lake.tasks import RESTORE_REFS
from lakebed.reclaim import expirer
from lakebed.reclaim.expirer import Expirer, Expiry
from lakebed.reclaim.retention import BranchRule, RetentionRules, Scan
from lakebed.reclaim.runs import RunFiles
from tests.kit import staging
from tests.kit.lake import DEV, MAIN, REPOSITORY, Lake, open_lake

DAY = 86_400.0
REQUEST = CommitRequest(committer="ann", message="m")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with open_lake("memory", tmp_path) as lake:
        yield lake


def pass_days(lake: Lake, days: float) -> None:
    lake.clock.ahead_seconds += days * DAY


def commit(lake: Lake, path: bytes, *, branch: BranchID = MAIN, gone: bytes = b"") -> CommitID:
    """Commit a new object, and that another is not there any more."""
    lake.upload(path, path.decode(), branch)
    if gone:
        lake.catalog.objects.delete(REPOSITORY, branch, gone)
    return lake.catalog.commits.commit(REPOSITORY, branch, REQUEST).commit.id


def expire(lake: Lake, *, dry_run: bool = False) -> Expiry:
    return lake.reclaim.retention.expire(REPOSITORY, max_share=1.0, dry_run=dry_run)


def old_commit(lake: Lake) -> CommitID:
    """A commit that the rules do not keep: the latest is ten days old, as is its parent."""
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    commit(lake, b"a")
    old = commit(lake, b"b")
    pass_days(lake, 10)
    commit(lake, b"c", gone=b"a")
    pass_days(lake, 3)
    commit(lake, b"d")
    pass_days(lake, 3)
    return old


def expired_commit(lake: Lake) -> CommitID:
    """A commit that has expired; only it holds a."""
    old = old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    expire(lake)
    return old


def test_a_commit_is_marked_first_and_expires_a_day_later(lake: Lake) -> None:
    old = old_commit(lake)
    first = expire(lake)
    assert (first.marked, first.expired) == (3, 0)
    assert not lake.engine.marks.is_expired(lake.repository, old)
    pass_days(lake, 0.9)
    assert (expire(lake).waiting, expire(lake).expired) == (3, 0)
    pass_days(lake, 0.2)
    last = expire(lake)
    assert (last.commits, last.expired, last.by_branch) == (5, 3, {"main": 3})
    assert lake.engine.marks.is_expired(lake.repository, old)
    assert expire(lake) == Expiry(commits=2)


def test_servers_are_told_that_expired_commits_leave_garbage(lake: Lake) -> None:
    leases = lake.reclaim.leases

    def next_us() -> int:
        return leases.last_run(REPOSITORY).next_us

    def put_off() -> None:
        leases.take(REPOSITORY, "a0")
        leases.end_run(REPOSITORY, "a0", is_good=True, next_us=1 << 60)

    put_off()
    old_commit(lake)
    assert next_us() == 0, "rules were set"
    put_off()
    assert expire(lake).next_us == pytest.approx((lake.clock.now() + DAY) * 1e6, rel=1e-6)
    assert next_us() == 1 << 60
    pass_days(lake, 1.1)
    expire(lake, dry_run=True)
    assert next_us() == 1 << 60
    expire(lake)
    assert next_us() == 0


def test_a_dry_run_says_what_would_be_and_does_nothing(lake: Lake) -> None:
    old_commit(lake)
    assert expire(lake, dry_run=True).marked == 3
    assert expire(lake).marked == 3
    pass_days(lake, 1.1)
    assert expire(lake, dry_run=True).expired == 3
    assert expire(lake).expired == 3


def test_without_rules_nothing_expires_and_marks_go(lake: Lake) -> None:
    old_commit(lake)
    expire(lake)
    lake.reclaim.retention.delete_rules(REPOSITORY)
    pass_days(lake, 2)
    assert expire(lake) == Expiry()
    assert not list(lake.engine.marks.records(lake.repository).scan())


def test_rules_of_a_branch_keep_its_history_for_longer(lake: Lake) -> None:
    old = old_commit(lake)
    rules = RetentionRules(2, (BranchRule("ma*", 30),))
    lake.reclaim.retention.set_rules(REPOSITORY, rules)
    assert lake.reclaim.retention.find_rules(REPOSITORY) == rules
    expire(lake)
    assert old not in lake.engine.marks.find_all(lake.repository, [old])


def test_a_commit_of_an_older_version_counts_as_stored_when_its_age_was_first_asked_for(
    lake: Lake,
) -> None:
    old = commit(lake, b"a")
    commit(lake, b"b")
    records = Records(lake.store, COMMITS, lake.repository.partition)
    for record in list(records.scan()):
        record.message.stored_us = 0
        records.set(record.name, record.message)
    pass_days(lake, 100)
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    pass_days(lake, 1)
    assert expire(lake).marked == 0
    pass_days(lake, 2)
    expire(lake)
    assert old in lake.engine.marks.find_all(lake.repository, [old])


def test_more_commits_than_a_share_do_not_expire(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expirer, "UNCHECKED_COMMITS_MAX", 2)
    old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    with pytest.raises(TooManyExpire, match="3 of 5 commits"):
        lake.reclaim.retention.expire(REPOSITORY, max_share=0.5)
    assert not list(lake.engine.marks.expired(lake.repository))
    assert lake.reclaim.retention.expire(REPOSITORY, max_share=0.6).expired == 3


def test_rules_that_are_replaced_during_a_scan_hold(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    scan = Expirer._scan

    def replace_rules(self: Expirer, repository: Repository) -> Scan:
        found = scan(self, repository)
        lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(90))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Expirer, "_scan", replace_rules)
        assert expire(lake).expired == 0
    assert not lake.engine.marks.is_expired(lake.repository, old)


@pytest.mark.parametrize("rules", [RetentionRules(90), None])
def test_rules_that_are_replaced_before_a_commit_expires_hold(
    lake: Lake, rules: RetentionRules | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass has read the rules for the last time, and has not expired any commit yet."""
    old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    carry_out = Expirer._apply

    def replace_rules(self: Expirer, repository: Repository, plan: Any) -> None:
        if rules is None:
            lake.reclaim.retention.delete_rules(REPOSITORY)
        else:
            lake.reclaim.retention.set_rules(REPOSITORY, rules)
        carry_out(self, repository, plan)

    with monkeypatch.context() as patch:
        patch.setattr(Expirer, "_apply", replace_rules)
        expire(lake)
    assert not list(lake.engine.marks.expired(lake.repository))


def test_rules_hold_although_the_process_that_set_them_died(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It died after it wrote them: who sets them again finds that they are there already."""
    old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    carry_out, change = Expirer._apply, Records.change

    def change_and_die(self: Any, name: bytes, edit: Any) -> None:
        change(self, name, edit)
        raise OutcomeUnknown("the reply was lost")

    def replace_rules(self: Expirer, repository: Repository, plan: Any) -> None:
        with monkeypatch.context() as dying:
            dying.setattr(Records, "change", change_and_die)
            with pytest.raises(OutcomeUnknown):
                lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(90))
        lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(90))
        carry_out(self, repository, plan)

    with monkeypatch.context() as patch:
        patch.setattr(Expirer, "_apply", replace_rules)
        expire(lake)
    assert not list(lake.engine.marks.expired(lake.repository))


def test_the_same_rules_set_again_take_no_marks_away(lake: Lake) -> None:
    old_commit(lake)
    expire(lake)
    pass_days(lake, 1.1)
    lake.reclaim.retention.set_rules(REPOSITORY, RetentionRules(2))
    assert expire(lake).expired == 3


def test_a_commit_that_is_made_during_a_scan_keeps_its_history(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refs are read before commits: the history is followed from the head that was read."""
    rules = RetentionRules(1, (BranchRule("main", 30),))
    lake.reclaim.retention.set_rules(REPOSITORY, rules)
    for path in (b"a", b"b", b"c"):
        commit(lake, path)
    pass_days(lake, 5)
    made: list[CommitID] = []

    def then_commit(name: str) -> None:
        read = getattr(Expirer, name)

        def reading(self: Expirer, *arguments: Any) -> Any:
            found = read(self, *arguments)
            if not made:
                made.append(commit(lake, b"new"))
            return found

        monkeypatch.setattr(Expirer, name, reading)

    then_commit("_read_refs")
    then_commit("_read_commits")
    assert expire(lake).marked == 0
    assert made


def test_nothing_expires_while_refs_are_restored(lake: Lake) -> None:
    old_commit(lake)
    notes = Records(lake.store, RESTORED, lake.repository.partition)
    notes.set(RESTORED_NAME, pb.RestoredRefs(dump_id="d"))
    assert expire(lake) == Expiry(ran=False)
    notes.set(RESTORED_NAME, pb.RestoredRefs(dump_id="d", finished=True))
    assert expire(lake).marked == 3


def test_another_repository_of_that_name_is_left_alone(lake: Lake) -> None:
    with pytest.raises(RepositoryNotFound):
        lake.reclaim.retention.expire(REPOSITORY, unique_id=UniqueID("other"), max_share=1.0)


# Who uses an old commit


def merge(lake: Lake, old: CommitID) -> object:
    request = MergeRequest(committer="ann", message="m", allow_empty=True)
    return lake.catalog.commits.merge(REPOSITORY, old, DEV, request)


def cherry_pick(lake: Lake, old: CommitID) -> object:
    return lake.catalog.commits.cherry_pick(REPOSITORY, DEV, old, committer="ann")


def revert(lake: Lake, old: CommitID) -> object:
    """Undo what came after it."""
    history = lake.catalog.refs.log(REPOSITORY, "main", amount=10).commits
    (after,) = [commit for commit in history if commit.parents == (old,)]
    return lake.catalog.commits.revert(REPOSITORY, MAIN, after.id, REQUEST)


def commit_metarange(lake: Lake, old: CommitID) -> object:
    metarange_id = lake.catalog.refs.get_commit(REPOSITORY, old).metarange_id
    return lake.catalog.commits.commit(REPOSITORY, DEV, REQUEST, source_metarange=metarange_id)


def create_branch(lake: Lake, old: CommitID) -> object:
    return lake.catalog.ref_changes.create_branch(REPOSITORY, "new", old)


def create_tag(lake: Lake, old: CommitID) -> object:
    return lake.catalog.ref_changes.create_tag(REPOSITORY, "new", old)


def hard_reset(lake: Lake, old: CommitID) -> None:
    lake.catalog.commits.hard_reset(REPOSITORY, DEV, old)


TAKES_CONTENT = [merge, cherry_pick, revert, commit_metarange]
NAMES = [create_branch, create_tag, hard_reset]
Use = Callable[[Lake, CommitID], object]


@pytest.mark.parametrize("use", [*TAKES_CONTENT, *NAMES])
def test_an_expired_commit_is_refused(lake: Lake, use: Use) -> None:
    old = expired_commit(lake)
    heads = {branch.id: branch.commit_id for branch in lake.engine.branches.list(lake.repository)}
    with pytest.raises(CommitExpired, match=old):
        use(lake, old)
    after = {branch.id: branch.commit_id for branch in lake.engine.branches.list(lake.repository)}
    assert after == heads
    assert not list(lake.engine.tags.list(lake.repository))


@pytest.mark.parametrize("use", NAMES)
def test_a_ref_to_a_commit_that_is_only_marked_saves_it(lake: Lake, use: Use) -> None:
    old = old_commit(lake)
    expire(lake)
    use(lake, old)
    assert old not in lake.engine.marks.find_all(lake.repository, [old])
    pass_days(lake, 2)
    expire(lake)
    pass_days(lake, 2)
    expire(lake)
    assert not lake.engine.marks.is_expired(lake.repository, old)


@pytest.mark.parametrize("use", TAKES_CONTENT)
def test_content_of_a_commit_that_is_only_marked_can_be_used(lake: Lake, use: Use) -> None:
    old = old_commit(lake)
    expire(lake)
    use(lake, old)


def test_a_name_that_was_refused_can_be_taken(lake: Lake) -> None:
    old = expired_commit(lake)
    for use in (create_branch, create_tag):
        with pytest.raises(CommitExpired):
            use(lake, old)
    lake.catalog.ref_changes.create_tag(REPOSITORY, "new", "main")


def test_a_metarange_is_not_taken_from_a_commit_that_was_refused(lake: Lake) -> None:
    """The refused merge has left a record with the same content, and without a mark."""
    old = expired_commit(lake)
    with pytest.raises(CommitExpired):
        merge(lake, old)
    with pytest.raises(CommitExpired):
        commit_metarange(lake, old)


def test_history_goes_on_working(lake: Lake) -> None:
    old = expired_commit(lake)
    log = lake.catalog.refs.log(REPOSITORY, "main", amount=10).commits
    assert old in [commit.id for commit in log]
    changed = lake.catalog.diff.list_between(REPOSITORY, old, "main", EntryQuery())
    assert changed.rows["key"].to_pylist() == [b"a", b"c", b"d"]
    listed = staging.list_entries(lake.engine, REPOSITORY, old, EntryQuery())
    assert listed.rows["key"].to_pylist() == [b"a", b"b"]
    base = lake.catalog.refs.find_merge_base(REPOSITORY, old, "main").base
    assert base.id == old


# Objects


def in_use(lake: Lake, run_id: GCRunID | None = None) -> set[str]:
    """The commits that a run of garbage collection is told of."""
    run_id = run_id or lake.reclaim.preparation.prepare_uncommitted(REPOSITORY).run_id
    lake.reclaim.preparation.prepare_commits(REPOSITORY, run_id=run_id)
    files = RunFiles(lake.block, lake.clock, lake.repository, run_id)
    manifest = files.find_manifest()
    assert manifest is not None
    found: set[str] = set()
    for file in manifest.of_kind(GCFileKind.COMMITS):
        place = Address.parse(f"{files.location}{file.name}")
        table = decode_gc_table(lake.block.read(place), file, file=file.name)
        found |= set(table.column("id").to_pylist())
    return found


def test_a_run_is_not_told_of_commits_that_had_expired_when_it_began(lake: Lake) -> None:
    old = old_commit(lake)
    expire(lake)
    assert old in in_use(lake)
    began = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY).run_id
    pass_days(lake, 1.1)
    expire(lake)
    assert old in in_use(lake, began)
    assert old not in in_use(lake)
    assert len(in_use(lake)) == 2


def test_the_bytes_of_an_expired_commit_are_gone_with_a_reason(lake: Lake) -> None:
    old = expired_commit(lake)
    assert lake.text(old, b"a") == "a"
    for path in (b"a", b"b"):
        lake.block.delete(lake.catalog.objects.stat(REPOSITORY, old, path).address)
    with pytest.raises(CommitExpired, match=old):
        lake.text(old, b"a")
    with pytest.raises(CommitExpired, match=old):
        lake.catalog.copies.copy(REPOSITORY, DEV, b"x", source_ref=old, source_path=b"a")
    with pytest.raises(MissingBytes):
        lake.text("main", b"b")
    assert lake.catalog.objects.stat(REPOSITORY, old, b"a").size == 1


def test_a_copy_shares_the_address_until_the_commit_has_expired(lake: Lake) -> None:
    old = old_commit(lake)

    def copied(path: bytes) -> bool:
        source = lake.catalog.objects.stat(REPOSITORY, old, b"a")
        made = lake.catalog.copies.copy(REPOSITORY, DEV, path, source_ref=old, source_path=b"a")
        assert lake.text(DEV, path) == "a"
        return made.address != source.address

    assert not copied(b"x")
    expire(lake)
    assert not copied(b"y")
    pass_days(lake, 1.1)
    expire(lake)
    assert copied(b"z")


def test_a_restore_marks_what_has_expired_and_leaves_out_refs_to_it(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    old = old_commit(lake)
    lake.catalog.ref_changes.create_tag(REPOSITORY, "old", old)
    dump_id = lake.catalog.refs.dump(REPOSITORY)
    lake.catalog.ref_changes.delete_tag(REPOSITORY, TagID("old"))
    for _ in range(2):
        expire(lake)
        pass_days(lake, 1.1)
    known = in_use(lake)
    namespace = lake.repository.namespace
    lake.catalog.repositories.delete(REPOSITORY)
    lake.engine.repositories.create_bare(REPOSITORY, namespace)
    for _ in range(2):  # also when it is asked for again
        with pytest.raises(RefsLeftOut, match=f"tag old: its commit {old} has expired"):
            lake.catalog.refs.restore(REPOSITORY, dump_id)
    tasks = lake.catalog.tasks
    task = tasks.status(REPOSITORY, tasks.start_restore(REPOSITORY, dump_id), RESTORE_REFS)
    assert (task.done, task.error_kind) == (True, "refs_left_out")
    assert lake.engine.marks.is_expired(lake.repository, old)
    assert in_use(lake) == known
    # What expired after the dump has a mark, and no record: nothing stumbles over that.
    prepared = lake.reclaim.preparation.prepare_uncommitted(REPOSITORY)
    lake.reclaim.preparation.write_old_commits(
        REPOSITORY, run_id=prepared.run_id, since_us=0, dry_run=False
    )
    assert not list(lake.engine.tags.list(lake.repository))
    assert (
        f"tag old is left out of repository {REPOSITORY}: its commit {old} has expired"
        in caplog.text
    )
    assert lake.text("main", b"d") == "d"
