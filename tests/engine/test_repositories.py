"""Repositories over real parts: results, and records in the store afterwards."""

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import pytest

from lakebed.base.leases import Lease
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine import records_pb2 as pb
from lakebed.engine.committed import Cache
from lakebed.engine.committed.store import committed_for
from lakebed.engine.errors import (
    Deleting,
    EntryNotFound,
    Invalid,
    InvalidName,
    NamespaceTaken,
    NotUnique,
    ReadOnly,
    RepositoryNotFound,
)
from lakebed.engine.keys import CLAIMS, DELETED_PARTITION, DROPPED_PARTITION, GRAVELER
from lakebed.engine.keys import REPOSITORIES as RECORDS
from lakebed.engine.leases import LeaseRecords
from lakebed.engine.model import BranchID, RepositoryID
from lakebed.engine.refs.branches import Branches
from lakebed.engine.refs.commits import Commits
from lakebed.engine.repositories.removal import DELETING, INITIAL
from lakebed.engine.repositories.repositories import Repositories
from lakebed.formats import OWNER_PATH
from lakebed.kv import LimitExceeded, Store, open_store
from lakebed.kv.records import Records
from lakebed.reclaim.cleaner import Cleaner, CleanerCounts

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
GRACE_SECONDS = 900.0


class HandClock(ThreadRuntime):
    """Time passes when the test says so."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> float:
        return 1_700_000_000 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Parts:
    runtime: HandClock
    store: Store
    block: MemoryBlockStore
    branches: Branches
    commits: Commits
    repositories: Repositories
    cleaner: Cleaner

    def partitions(self, *names: bytes) -> dict[bytes, int]:
        """Number of keys in some partitions."""
        return {name: len(list(self.store.scan(name))) for name in names}


@pytest.fixture
def parts() -> Iterator[Parts]:
    runtime = HandClock()
    with open_store("memory://", runtime=runtime) as store:
        yield assemble(store, runtime, MemoryBlockStore(runtime))


def assemble(store: Store, runtime: HandClock, block: MemoryBlockStore) -> Parts:
    branches, commits = Branches(store, runtime), Commits(store, runtime)
    repositories = Repositories(
        store,
        block,
        runtime,
        branches=branches,
        commits=commits,
        committed_in=committed_for(block, runtime, Cache(runtime)),
    )
    cleaner = Cleaner(store, runtime, grace_seconds=GRACE_SECONDS)
    return Parts(runtime, store, block, branches, commits, repositories, cleaner)


def at(path: str) -> Namespace:
    return Namespace.parse(f"mem://bucket/{path}")


def create(parts: Parts, name: str = "lake", path: str = "lake") -> None:
    parts.repositories.create(name, at(path), committer="ann")


# Creating


def test_a_new_repository_has_a_branch_and_an_empty_first_commit(parts: Parts) -> None:
    created = parts.repositories.create(
        "lake", at("lake"), committer="ann", default_branch="trunk", metadata={"team": "fish"}
    )
    assert parts.repositories.get(LAKE) == created
    assert created.default_branch == "trunk"
    assert created.metadata == {"team": "fish"}
    (branch,) = parts.branches.list(created)
    assert branch.id == "trunk"
    commit = parts.commits.get(created, branch.commit_id)
    assert (commit.message, commit.committer) == ("Repository created", "ann")
    assert (commit.parents, commit.generation) == ((), 1)
    committed = committed_for(parts.block, parts.runtime, Cache(parts.runtime))(created.files_root)
    with pytest.raises(EntryNotFound):
        committed.get(commit.metarange_id, b"anything")


def test_a_bare_repository_has_neither_branch_nor_commit(parts: Parts) -> None:
    created = parts.repositories.create_bare("lake", at("lake"))
    assert list(parts.store.scan(created.partition)) == []
    assert parts.repositories.get(LAKE) == created


def test_the_owner_object_says_whose_the_namespace_is(parts: Parts) -> None:
    create(parts)
    owner = json.loads(parts.block.read(at("lake").address(OWNER_PATH)))
    assert owner["unique_id"] == parts.repositories.get(LAKE).unique_id
    assert owner["repository"] == "lake"
    assert (
        owner["installation_id"]
        == parts.store.get(b"kv_metadata", b"installation_id").value.decode()
    )


@pytest.mark.parametrize("name", ["", "ab", "Lake", "-lake", "a" * 64, "lake/2"])
def test_a_wrong_name_is_refused_before_anything_is_touched(parts: Parts, name: str) -> None:
    with pytest.raises(InvalidName, match="is not a valid repository name"):
        create(parts, name)
    with pytest.raises(InvalidName, match="is not a valid branch name"):
        parts.repositories.create("lake", at("lake"), committer="ann", default_branch="a b")
    with pytest.raises(Invalid, match=r"storage is mem://, not s3://"):
        parts.repositories.create("lake", Namespace.parse("s3://bucket/lake"), committer="ann")
    with pytest.raises(LimitExceeded):
        create(parts, path="x" * 5000)
    assert parts.partitions(GRAVELER, DELETED_PARTITION) == {GRAVELER: 0, DELETED_PARTITION: 0}


def test_a_repository_in_the_longest_namespace_can_be_deleted(parts: Parts) -> None:
    longest = parts.store.limits.key_bytes
    for length in range(longest, 0, -1):
        with suppress(LimitExceeded):
            create(parts, path="x" * length)
            break
    assert longest - 100 < length < longest
    parts.repositories.delete(LAKE)
    create(parts)


def test_a_name_is_taken_once(parts: Parts) -> None:
    create(parts)
    with pytest.raises(NotUnique, match="repository lake already exists"):
        create(parts, path="elsewhere")
    create(parts, "sea", "elsewhere")


@pytest.mark.parametrize("path", ["a/b/", "a", "", "a/b/c", "a/b//", "a/b/_lakebed"])
def test_a_namespace_is_taken_with_all_above_and_below(parts: Parts, path: str) -> None:
    create(parts, path="a/b")
    with pytest.raises(
        NamespaceTaken, match=r"repository lake keeps its data in mem://bucket/a/b/"
    ):
        create(parts, "sea", path)
    with pytest.raises(RepositoryNotFound):
        parts.repositories.get(RepositoryID("sea"))
    create(parts, "sea", "elsewhere")  # the refusal left no claim


@pytest.mark.parametrize("path", ["a/bc", "a/b-2", "b", "a//b"])
def test_neighbouring_namespaces_do_not_exclude_each_other(parts: Parts, path: str) -> None:
    create(parts, path="a/b")
    create(parts, "sea", path)


def test_a_refused_creation_leaves_nothing(parts: Parts) -> None:
    create(parts)
    with pytest.raises(NamespaceTaken):
        create(parts, "sea", "lake/deep")
    names = [entry.key for entry in parts.store.scan(GRAVELER)]
    assert names == [b"namespaces/mem://bucket/lake/", b"repos/lake"]


def test_another_installation_keeps_its_namespace(parts: Parts) -> None:
    create(parts)
    with open_store("memory://") as store:
        other = assemble(store, parts.runtime, parts.block)
        with pytest.raises(NamespaceTaken, match="of another installation of Lakebed"):
            create(other, "sea")
        assert other.partitions(GRAVELER) == {GRAVELER: 0}
        parts.block.delete(at("lake").address(OWNER_PATH))  # as the message says
        create(other, "sea")


def test_a_strange_file_in_the_place_of_the_owner_is_not_overwritten(parts: Parts) -> None:
    address = at("lake").address(OWNER_PATH)
    parts.block.create(address, b"my notes")
    with pytest.raises(NamespaceTaken, match="_lakebed/owner is damaged"):
        create(parts)
    assert parts.block.read(address) == b"my notes"


# Looking


def repository_record(state: pb.RepositoryState, namespace: str) -> pb.Repository:
    return pb.Repository(unique_id="u", state=state, storage_namespace=namespace)


def test_inactive_repositories_are_not_found(parts: Parts) -> None:
    with pytest.raises(RepositoryNotFound, match="repository not found: lake"):
        parts.repositories.get(LAKE)
    records = Records(parts.store, RECORDS, GRAVELER)
    records.set(b"lake", repository_record(INITIAL, "mem://bucket/lake/"))
    with pytest.raises(RepositoryNotFound):
        parts.repositories.get(LAKE)
    records.set(b"lake", repository_record(DELETING, "mem://bucket/lake/"))
    with pytest.raises(Deleting, match="repository lake is being deleted"):
        parts.repositories.get(LAKE)
    assert list(parts.repositories.list()) == []


def test_pages_are_full_whatever_lies_between(parts: Parts) -> None:
    records = Records(parts.store, RECORDS, GRAVELER)
    for number in range(3000):
        records.set(
            f"lake-{number:04}".encode(),
            repository_record(
                INITIAL if number % 3 else pb.REPOSITORY_STATE_ACTIVE, f"mem://bucket/{number}/"
            ),
        )
    records.set(b"sea", repository_record(pb.REPOSITORY_STATE_ACTIVE, "mem://b/"))
    found: list[str] = []
    while page := list(
        islice(parts.repositories.list(prefix="lake-", after=found[-1] if found else ""), 100)
    ):
        assert len(page) == 100
        found += [repository.id for repository in page]
    assert found == [f"lake-{number:04}" for number in range(0, 3000, 3)]
    assert [each.id for each in parts.repositories.list(after="lake-2997")] == ["sea"]


# Changing


def test_metadata_are_added_replaced_and_removed(parts: Parts) -> None:
    create(parts)
    parts.repositories.set_metadata(LAKE, put={"a": "1", "b": "2"})
    changed = parts.repositories.set_metadata(LAKE, put={"b": "3", "c": "4"}, remove=["a", "x"])
    assert changed.metadata == {"b": "3", "c": "4"}
    assert parts.repositories.get(LAKE) == changed


def test_a_read_only_repository_is_deleted_by_force_only(parts: Parts) -> None:
    create(parts)
    assert parts.repositories.set_read_only(LAKE, read_only=True).read_only
    with pytest.raises(ReadOnly, match="repository lake is read-only"):
        parts.repositories.delete(LAKE)
    parts.repositories.delete(LAKE, force=True)
    with pytest.raises(RepositoryNotFound):
        parts.repositories.set_read_only(LAKE, read_only=False)


# Deleting


def test_name_and_place_are_free_at_once_and_nothing_shows_through(parts: Parts) -> None:
    create(parts)
    old = parts.repositories.get(LAKE)
    parts.branches.create(old, BranchID("dev"), parts.branches.get(old, MAIN).commit_id)
    parts.repositories.delete(LAKE)
    with pytest.raises(RepositoryNotFound):
        parts.repositories.get(LAKE)
    with pytest.raises(RepositoryNotFound):
        parts.repositories.delete(LAKE)
    create(parts)
    new = parts.repositories.get(LAKE)
    assert new.unique_id != old.unique_id
    assert [branch.id for branch in parts.branches.list(new)] == ["main"]
    owner = json.loads(parts.block.read(at("lake").address(OWNER_PATH)))
    assert owner["unique_id"] == new.unique_id


@pytest.mark.parametrize("finish", ["create", "delete", "clean", "nested"])
def test_an_unfinished_deletion_is_finished_by_any_process(parts: Parts, finish: str) -> None:
    create(parts)
    records = Records(parts.store, RECORDS, GRAVELER)
    record = records.get(b"lake")
    record.message.state = DELETING
    records.set(b"lake", record.message)
    if finish == "create":
        create(parts, path="elsewhere")
    elif finish == "delete":
        parts.repositories.delete(LAKE)
    elif finish == "nested":
        create(parts, "sea", "lake/deep")
    else:
        assert parts.cleaner.run_once().deletions_ended == 1
    assert [entry.key for entry in parts.store.scan(DELETED_PARTITION)] == [
        f"repo/lake/{record.message.unique_id}".encode()
    ]
    create(parts, "lake-2", "lake/other")


def test_a_dead_creation_is_ended_by_the_cleaner_in_two_minutes(parts: Parts) -> None:
    leave_initial(parts)
    assert parts.cleaner.run_once() == CleanerCounts(creations_waiting=1)
    with pytest.raises(NotUnique, match="repository lake is being created by another request"):
        create(parts)
    with pytest.raises(NamespaceTaken):
        create(parts, "sea")
    parts.runtime.sleep(121)
    assert parts.cleaner.run_once().creations_ended == 1
    create(parts)


def test_a_dead_creation_is_ended_by_anyone_in_an_hour(parts: Parts) -> None:
    leave_initial(parts)
    parts.runtime.sleep(3601)
    create(parts, "sea")
    create(parts, path="elsewhere")


def leave_initial(parts: Parts) -> None:
    """Leave the records of a creator that died after its claim."""
    Records(parts.store, RECORDS, GRAVELER).set(
        b"lake",
        pb.Repository(
            state=INITIAL,
            unique_id="dead",
            storage_namespace="mem://bucket/lake/",
            created_us=int(parts.runtime.now() * 1e6),
        ),
    )
    Records(parts.store, CLAIMS, GRAVELER).set(
        b"mem://bucket/lake/", pb.NamespaceClaim(repository="lake", unique_id="dead")
    )


# Cleaning


def test_the_cleaner_leaves_nothing_of_a_deleted_repository(parts: Parts) -> None:
    create(parts)
    repository = parts.repositories.get(LAKE)
    token = parts.branches.get(repository, MAIN).staging_token.encode()
    for number in range(1200):
        parts.store.set(token, b"key/%d" % number, b"staged")
        parts.store.set(repository.partition, b"settings/%d" % number, b"kept")
    parts.repositories.delete(LAKE)
    watched = (repository.partition, token, DELETED_PARTITION, DROPPED_PARTITION)

    first = parts.cleaner.run_once()
    assert (first.branches_deleted, first.keys_deleted) == (1, 1201)  # settings and the commit
    assert (first.repositories_waiting, first.tokens_waiting) == (1, 1)
    assert list(parts.partitions(*watched).values()) == [0, 1200, 1, 1]

    parts.runtime.sleep(GRACE_SECONDS)
    second = parts.cleaner.run_once()
    assert (second.keys_deleted, second.repositories_waiting, second.tokens_waiting) == (1200, 1, 1)
    third = parts.cleaner.run_once()
    assert (third.repositories_done, third.tokens_waiting) == (1, 1)
    assert parts.cleaner.run_once().tokens_done == 1
    assert list(parts.partitions(*watched).values()) == [0, 0, 0, 0]
    assert parts.cleaner.run_once() == CleanerCounts()


def test_a_token_that_a_branch_names_is_kept_for_ever(parts: Parts) -> None:
    create(parts)
    repository = parts.repositories.get(LAKE)
    branch = parts.branches.get(repository, MAIN)
    parts.store.set(branch.staging_token.encode(), b"key/a", b"staged")
    parts.branches.announce_drop(repository, MAIN, branch.tokens)
    for _ in range(5):
        assert parts.cleaner.run_once() == CleanerCounts(tokens_named=1)
        parts.runtime.sleep(GRACE_SECONDS)
    assert parts.partitions(branch.staging_token.encode()) == {branch.staging_token.encode(): 1}


def test_another_cleaner_waits_until_the_first_is_dead(parts: Parts) -> None:
    dead = Lease(LeaseRecords(parts.store, parts.runtime, b"cleaner", 60), parts.runtime)
    assert dead.acquire()
    assert parts.cleaner.run_once() == CleanerCounts(ran=False)
    parts.runtime.sleep(59)
    assert not parts.cleaner.run_once().ran
    parts.runtime.sleep(2)
    assert parts.cleaner.run_once().ran
    assert not dead.keep()


def test_a_lease_that_is_kept_is_not_taken(parts: Parts) -> None:
    records = LeaseRecords(parts.store, parts.runtime, b"cleaner", 60)
    holder = Lease(records, parts.runtime)
    assert holder.acquire()
    for _ in range(10):
        parts.runtime.sleep(25)
        assert holder.keep()
        assert not parts.cleaner.run_once().ran
    records.release_lease(holder.holder)
    assert parts.cleaner.run_once().ran
