"""Taking over a history: every commit lists the same, under its id, and each range is read once."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Address, BlockStore, Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.clients.migrate import lakefs_pb2 as pb
from lakebed.clients.migrate.addresses import AddressTranslator
from lakebed.clients.migrate.errors import DamagedHistory, DamagedTable, NotATarget
from lakebed.clients.migrate.history import HistoryMigration, MigrationProgress
from lakebed.clients.migrate.lakefs_source import LakeFSSource, SourceBranch, SourceChange
from lakebed.clients.migrate.rounds import Plan, RoundReport, run_round
from lakebed.clients.migrate.verify import find_difference
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import Invalid, Protected, RepositoryNotFound
from lakebed.engine.model import MOVED_NAMESPACE, BranchID, CommitID, Repository, RepositoryID
from lakebed.formats import entries_of
from lakebed.kv import KVError, Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.testing.faults import FaultyStore
from tests.clients.migrate.lakes import Contents, FakeLakeFS, entry_of
from tests.engine.test_dump import FailAt
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.kit.lakefs_tables import table, value

KEYS = [b"%02d/%03d" % (number % 7, number) for number in range(40)]


class Anywhere(MemoryBlockStore):
    """A storage that can read every address."""

    def check_address(self, address: Address) -> None:
        pass


def source_of(lake: FakeLakeFS, block: BlockStore | None = None) -> LakeFSSource:
    storage = block or Anywhere(ThreadRuntime())
    return LakeFSSource(
        lake, lake, AddressTranslator(storage, lake.namespace, [Path("/var/lakefs")])
    )


class Target:
    """An installation with an empty repository."""

    def __init__(self, store: Store | None = None, block: BlockStore | None = None) -> None:
        self.runtime = ThreadRuntime()
        self.store = store or MemoryStore(self.runtime)
        self.block = block or MemoryBlockStore(self.runtime)
        self.engine = new_engine(self.store, self.block, runtime=self.runtime)

    @cached_property
    def repository(self) -> Repository:
        namespace = Namespace.parse("mem://lake/new")
        return self.engine.repositories.create_bare("new", namespace)

    def take(self, source: FakeLakeFS) -> MigrationProgress:
        migration = HistoryMigration(self.engine, self.repository, source_of(source), self.runtime)
        for _ in migration.run():
            pass
        return migration.progress

    def lists(
        self, commit_id: str, repository: str = "new"
    ) -> dict[bytes, tuple[str, str, int, dict[str, str]]]:
        page = staging.list_entries(
            self.engine, RepositoryID(repository), commit_id, EntryQuery(amount=1000)
        )
        return {
            entry.key: (entry.address, entry.checksum, entry.size, dict(entry.metadata))
            for entry in entries_of(page.rows)
        }


def expected(contents: Contents) -> dict[bytes, tuple[str, str, int, dict[str, str]]]:
    found = {}
    for key, number in sorted(contents.items()):
        entry = pb.Entry.FromString(entry_of(key, number)[1])
        address = f"s3://old/lake/{entry.address}"
        found[key] = address, entry.e_tag, entry.size, dict(entry.metadata)
    return found


@st.composite
def lakes(draw: st.DrawFn) -> FakeLakeFS:
    lake = FakeLakeFS()
    contents = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9), max_size=30)
    commits = [lake.commit(draw(contents))]
    for _ in range(draw(st.integers(0, 6))):
        parents = draw(st.lists(st.sampled_from(commits), min_size=1, max_size=2, unique=True))
        changes = draw(contents)
        gone = draw(st.sets(st.sampled_from(KEYS), max_size=10))
        after = {**lake.lists[parents[0]], **changes}
        after = {key: number for key, number in after.items() if key not in gone}
        commits.append(lake.commit(after, *parents, swapped=draw(st.booleans())))
    lake.heads["main"] = commits[-1]
    return lake


@settings(max_examples=40)
@given(lake=lakes())
def test_every_commit_lists_the_same_under_its_id(lake: FakeLakeFS) -> None:
    target = Target()
    progress = target.take(lake)
    assert progress.commits == len(lake.history)
    assert not progress.unproved
    for commit_id, contents in lake.lists.items():
        assert target.lists(commit_id) == expected(contents)
        found = target.engine.commits.get(target.repository, commit_id)  # type: ignore[arg-type]
        assert found.parents == lake.history[commit_id].parents
        assert found.metadata == lake.history[commit_id].metadata


def test_a_range_is_read_once_and_only_new_commits_the_next_time() -> None:
    lake = FakeLakeFS()
    contents = dict.fromkeys(KEYS, 1)
    last = lake.commit(contents)
    for number in range(10):
        contents = {**contents, KEYS[number]: 2}
        last = lake.commit(contents, last)
    target = Target()
    target.take(lake)
    assert sorted(set(lake.read)) == sorted(lake.read)
    lake.read.clear()
    lake.commit({**contents, KEYS[-1]: 3}, last)
    progress = target.take(lake)
    assert (progress.commits, progress.known_commits) == (1, 11)
    assert progress.ranges == 1
    assert len(lake.read) == 3, "two metaranges, and the range that changed"


def test_a_commit_without_changes_reads_no_range() -> None:
    lake = FakeLakeFS()
    first = lake.commit(dict.fromkeys(KEYS, 1))
    lake.commit(dict.fromkeys(KEYS, 1), first)
    target = Target()
    target.take(lake)
    metaranges = {
        target.engine.commits.get(target.repository, each).metarange_id  # type: ignore[arg-type]
        for each in lake.history
    }
    assert len(metaranges) == 1


def test_a_range_that_is_not_what_its_metarange_says_is_damaged() -> None:
    lake = FakeLakeFS()
    lake.commit(dict.fromkeys(KEYS, 1))
    other = FakeLakeFS()
    other.commit(dict.fromkeys(KEYS[:5], 1))
    for name in list(lake.files):
        if name != next(iter(lake.history.values())).metarange_id:
            lake.files[name] = next(iter(other.files.values()))
    with pytest.raises(DamagedTable, match=r"instead of|keys do not match"):
        Target().take(lake)


@pytest.mark.parametrize(("low", "high"), [(b"01", b"b"), (b"a", b"a"), (b"a", b"c")])
def test_a_range_with_other_bounds_than_its_metarange_says_is_damaged(
    low: bytes, high: bytes
) -> None:
    """Its entries would be left out of a commit whose first parent has others there."""
    lake = FakeLakeFS()
    rows = [(key, value(*entry_of(key, 1))) for key in (b"a", b"b")]
    range_id = lake.store(table(rows))
    data = pb.RangeData(min_key=low, max_key=high, count=2)
    metarange = table([(high, value(range_id.encode(), data.SerializeToString()))])
    commit_id = lake.commit({b"a": 1, b"b": 1})
    lake.history[commit_id] = replace(lake.history[commit_id], metarange_id=lake.store(metarange))
    with pytest.raises(DamagedTable, match="keys do not match its metarange"):
        Target().take(lake)


def test_verification_sees_each_field_that_differs() -> None:
    lake, target = FakeLakeFS(), Target()
    commit_id = lake.commit({b"a": 3, b"b": 6})
    target.take(lake)
    source, commit = source_of(lake), lake.history[commit_id]
    assert find_difference(target.engine, target.repository, source, commit) is None
    identity, message = entry_of(b"b", 6)
    for field, other in (
        ("address", pb.Entry(address="data/other")),
        ("size", pb.Entry(size=7)),
        ("e_tag", pb.Entry(e_tag="0" * 32)),
        ("metadata", pb.Entry(metadata={"n": "7"})),
        ("metadata", pb.Entry()),
        ("content_type", pb.Entry(content_type="text/html")),
    ):
        entry = pb.Entry.FromString(message)
        entry.ClearField(field)
        entry.MergeFrom(other)
        rows = [
            (b"a", value(*entry_of(b"a", 3))),
            (b"b", value(identity, entry.SerializeToString())),
        ]
        metarange_id = lake.store(table([lake.close(rows)]))
        changed = replace(commit, metarange_id=metarange_id)
        found = find_difference(target.engine, target.repository, source, changed)
        assert found == b"b", field


def test_what_depends_on_a_commit_that_is_not_there_is_taken_all_the_same() -> None:
    lake, target = FakeLakeFS(), Target()
    gone = lake.commit({b"a": 1})
    child = lake.commit({b"a": 1, b"b": 2}, gone)
    del lake.history[gone]
    lake.heads = {"main": child, "lost": gone}
    lake.tagged = {"v0": gone}
    report = run(target, lake)
    assert report.progress.missing_parents == [(child, gone)]
    assert report.left_out == [
        f"tag v0: commit {gone} is missing",
        f"branch lost: commit {gone} is missing",
    ]
    assert refs_of(target) == ({"main": child}, {})
    assert target.lists(child, "moved") == expected({b"a": 1, b"b": 2})


def test_history_that_goes_round_is_damaged() -> None:
    lake = FakeLakeFS()
    first = lake.commit({b"a": 1})
    second = lake.commit({b"a": 2}, first)
    lake.history[first] = replace(lake.history[first], parents=(second,))
    with pytest.raises(DamagedHistory, match="its own ancestor"):
        Target().take(lake)


def run(
    target: Target, lake: FakeLakeFS, *, is_last: bool = False, with_uncommitted: bool = False
) -> RoundReport:
    plan = Plan(
        repository="moved",
        namespace=Namespace.parse("mem://lake/moved"),
        moved_from="http://old lake",
        default_branch="main",
        metadata={"team": "blue"},
        protected=lake.protected,
    )
    source = source_of(lake)
    return run_round(
        target.engine,
        target.runtime,
        source,
        plan,
        is_last=is_last,
        with_uncommitted=with_uncommitted,
    )


def refs_of(target: Target) -> tuple[dict[str, str], dict[str, str]]:
    repository = target.engine.repositories.get(RepositoryID("moved"))
    branches = {
        str(each.id): str(each.commit_id) for each in target.engine.branches.list(repository)
    }
    tags = {str(each.id): str(each.commit_id) for each in target.engine.tags.list(repository)}
    return branches, tags


def test_rounds_follow_the_refs_until_the_last() -> None:
    lake, target = FakeLakeFS(), Target()
    first = lake.commit({b"a": 1})
    lake.heads = {"main": first, "old": first}
    lake.tagged = {"v1": first, "gone": first, "moves": first}
    run(target, lake)
    assert refs_of(target) == (lake.heads, lake.tagged)
    second = lake.commit({b"a": 2}, first)
    lake.heads = {"main": second, "new": first}
    lake.tagged = {"v1": first, "moves": second, "v2": second}
    report = run(target, lake)
    assert refs_of(target) == (lake.heads, lake.tagged)
    assert (report.branches_set, report.branches_deleted) == (2, 1)
    assert (report.tags_set, report.tags_deleted) == (2, 1)
    assert target.engine.repositories.get(RepositoryID("moved")).read_only
    run(target, lake, is_last=True)
    found = target.engine.repositories.get(RepositoryID("moved"))
    assert not found.read_only
    assert found.metadata["team"] == "blue"
    with pytest.raises(NotATarget, match="last round is over"):
        run(target, lake)


def test_a_name_of_both_kinds_is_moved_and_may_change_its_kind() -> None:
    """The source is the truth: a branch and a tag of one name are both there afterwards."""
    lake, target = FakeLakeFS(), Target()
    head, other = lake.commit({b"a": 1}), lake.commit({b"a": 2})
    lake.heads = {"main": head, "both": head, "turns": head}
    lake.tagged = {"both": other, "turned": other}
    run(target, lake)
    assert refs_of(target) == (lake.heads, lake.tagged)
    repository = target.engine.repositories.get(RepositoryID("moved"))
    assert target.engine.resolver.commit(repository, "both").id == head
    lake.heads = {"main": head, "both": head, "turned": head}
    lake.tagged = {"both": other, "turns": other}
    report = run(target, lake)
    assert refs_of(target) == (lake.heads, lake.tagged)
    assert (report.branches_set, report.branches_deleted) == (1, 1)
    assert (report.tags_set, report.tags_deleted) == (1, 1)


@pytest.mark.parametrize("namespace", ["mem://lake", "mem://lake/moved", "mem://lake/moved/in"])
def test_a_namespace_near_that_of_lakefs_is_refused(namespace: str) -> None:
    """Its objects could not be adopted later, and the files of both would be mixed."""
    lake, target = FakeLakeFS(namespace=namespace), Target()
    with pytest.raises(Invalid, match=f"mem://lake/moved/ overlaps with {namespace}/"):
        run(target, lake)
    assert not list(target.engine.repositories.list())


def test_the_namespace_of_lakefs_is_noted_before_anything_is_taken() -> None:
    """By it, an adoption there is refused from the first round on."""
    lake, target = FakeLakeFS(), Target()
    lake.heads = {"main": lake.commit({b"a": 1})}
    lake.files.clear()
    with pytest.raises(KeyError):
        run(target, lake)
    found = target.engine.repositories.get(RepositoryID("moved"))
    assert found.metadata[MOVED_NAMESPACE] == "s3://old/lake/"


def test_an_adoption_during_the_last_round_keeps_the_repository_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another repository owns the objects by then, and may delete them."""
    lake, target = FakeLakeFS(namespace="mem://old/lake"), Target()
    lake.heads = {"main": lake.commit({b"a": 1})}
    adopting = target.engine.repositories.create_bare("first", Namespace.parse("mem://first"))

    def changes(_branch: SourceBranch) -> Iterator[SourceChange]:
        folder = Namespace.parse("mem://old/lake/data")
        target.engine.repositories.adopt(adopting.id, folder)
        return iter(())

    monkeypatch.setattr(lake, "changes", changes)
    with pytest.raises(NotATarget, match="repository first has adopted its objects"):
        run(target, lake, is_last=True, with_uncommitted=True)
    assert target.engine.repositories.get(RepositoryID("moved")).read_only


def protected_lake() -> FakeLakeFS:
    """A lake with a change that is uncommitted on a protected branch."""
    lake = FakeLakeFS()
    first = lake.commit({b"a": 1, b"b": 2})
    lake.heads = {"main": first, "dev": first}
    lake.staged = {"main": {b"a": None, b"c": 3}, "dev": {b"d": 4}}
    return lake


def check_protected(target: Target) -> None:
    """The changes are staged, the rules hold, and other branches can be written to."""
    moved = RepositoryID("moved")
    listed = {"main": [b"b", b"c"], "dev": [b"a", b"b", b"d"]}
    for branch, keys in listed.items():
        page = staging.list_entries(target.engine, moved, branch, EntryQuery(amount=10))
        assert [entry.key for entry in entries_of(page.rows)] == keys
    repository = target.engine.repositories.get(moved)
    assert target.engine.protection.get(repository).patterns == ("main", "stable-*")
    with pytest.raises(Protected):
        staging.delete(target.engine, moved, BranchID("main"), b"b")
    staging.delete(target.engine, moved, BranchID("dev"), b"b")


def test_uncommitted_changes_are_staged_on_protected_branches() -> None:
    lake, target = protected_lake(), Target()
    run(target, lake)
    report = run(target, lake, is_last=True, with_uncommitted=True)
    assert (report.staged, report.protected) == (3, ["main", "stable-*"])
    check_protected(target)


def test_rules_of_a_round_that_was_cut_off_do_not_stop_the_next() -> None:
    lake, target = protected_lake(), Target()
    run(target, lake)
    repository = target.engine.repositories.get(RepositoryID("moved"))
    target.engine.protection.set(repository, ["*"])
    run(target, lake, is_last=True, with_uncommitted=True)
    check_protected(target)


def test_a_rule_that_freezes_the_lake_is_not_moved() -> None:
    lake, target = protected_lake(), Target()
    lake.protected += ["*", "**", "{main,dev}"]
    report = run(target, lake, is_last=True, with_uncommitted=True)
    assert report.freeze_rules == ["*", "**"]
    (left_out,) = report.left_out
    assert left_out.startswith("protection rule {main,dev}: '{main,dev}' cannot match any branch")
    check_protected(target)


def test_a_repository_that_was_made_otherwise_is_left_alone() -> None:
    lake, target = FakeLakeFS(), Target()
    target.engine.repositories.create("moved", Namespace.parse("mem://lake/own"), committer="ann")
    lake.heads = {"main": lake.commit({b"a": 1})}
    with pytest.raises(NotATarget, match="not created for this migration"):
        run(target, lake)


@pytest.mark.slow
@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_round_that_was_cut_off_at_any_write_is_run_again(*, applied: bool) -> None:
    # The first round has made the repository: a creation that is cut off is the Cleaner's to end.
    lake, before = FakeLakeFS(), FakeLakeFS()
    first = lake.commit(dict.fromkeys(KEYS[:20], 1))
    before.commit(dict.fromkeys(KEYS[:20], 1))
    before.heads, before.tagged = {"main": first, "gone": first}, {"v2": first}
    second = lake.commit(dict.fromkeys(KEYS[10:], 2), first)
    side = lake.commit(dict.fromkeys(KEYS[:5], 3), first)
    lake.heads = {"main": lake.commit(dict.fromkeys(KEYS, 4), second, side), "side": side}
    lake.tagged = {"v1": first, "v2": second}
    for count in range(1, 200):
        target = Target()
        run(target, before)
        store = FaultyStore(target.store, FailAt(count, applied=applied))
        broken = Target(store, target.block)
        try:
            run(broken, lake, is_last=True)
        except KVError:
            pass
        else:
            break
        check_refs_lead_somewhere(target)
        with suppress(NotATarget):  # only the note that it is writable was lost
            run(target, lake, is_last=True)
        assert refs_of(target) == (lake.heads, lake.tagged)
        for commit_id, contents in lake.lists.items():
            assert target.lists(commit_id, "moved") == expected(contents)
    assert count > 12


def check_refs_lead_somewhere(target: Target) -> None:
    """No ref names a commit that is not there."""
    with suppress(RepositoryNotFound):
        repository = target.engine.repositories.get(RepositoryID("moved"))
        for heads in refs_of(target):
            for commit_id in heads.values():
                target.engine.commits.get(repository, CommitID(commit_id))
