"""Names of branches and tags: each belongs to one kind (simulated elsewhere)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.base.runtime import ResultT, UniqueID
from lakebed.block import BlockStore, MemorySettings, Namespace, open_block
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import (
    BranchNotFound,
    CommitExpired,
    NotUnique,
    ReadOnly,
    RefNotFound,
    TagNotFound,
)
from lakebed.engine.expiry_marks import EXPIRED
from lakebed.engine.hooks import Hooks
from lakebed.engine.keys import BRANCHES, CREATING, EXPIRY, LIVE, TAGS
from lakebed.engine.model import BranchID, CommitID, Repository, RepositoryID, TagID
from lakebed.engine.refs.resolve import View
from lakebed.kv import Store, open_store
from lakebed.kv.records import Records
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.engines import dump, new_engine, restore

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")


def new_lake(store: Store, hooks: Hooks | None = None, block: BlockStore | None = None) -> Engine:
    engine = new_engine(store, block or open_block(MemorySettings()), hooks=hooks)
    engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
    return engine


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


@pytest.fixture
def engine(store: Store) -> Engine:
    return new_lake(store)


def test_a_name_is_that_of_a_branch_or_of_a_tag(engine: Engine) -> None:
    engine.refs.create_branch(LAKE, DEV, MAIN)
    engine.refs.create_tag(LAKE, "v1", MAIN)
    with pytest.raises(NotUnique, match="tag v1 already exists, and a branch cannot have the same"):
        engine.refs.create_branch(LAKE, "v1", MAIN)
    with pytest.raises(NotUnique, match="branch dev already exists, and a tag cannot have the"):
        engine.refs.create_tag(LAKE, DEV, MAIN)
    with pytest.raises(NotUnique, match=r"branch dev already exists: use another name$"):
        engine.refs.create_branch(LAKE, DEV, MAIN)
    with pytest.raises(NotUnique, match=r"tag v1 already exists: use another name$"):
        engine.refs.create_tag(LAKE, "v1", MAIN)
    repository = engine.repositories.get(LAKE)
    assert [branch.id for branch in engine.branches.list(repository)] == [DEV, MAIN]
    assert [tag.id for tag in engine.tags.list(repository)] == ["v1"]


class Asked(Hooks):
    """Counts the calls before creations of branches."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def before_create_branch(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        source: str,
        unique_id: UniqueID,
    ) -> None:
        self.names.append(branch)


def test_hooks_are_asked_once_for_each_name_that_is_free(store: Store) -> None:
    hooks = Asked()
    engine = new_lake(store, hooks)
    engine.refs.create_tag(LAKE, "v1", MAIN)
    engine.refs.create_branch(LAKE, DEV, MAIN)
    for taken in ("v1", DEV):
        with pytest.raises(NotUnique):
            engine.refs.create_branch(LAKE, taken, MAIN)
    assert hooks.names == [DEV]


def test_a_name_is_free_for_the_other_kind_after_a_deletion(engine: Engine) -> None:
    for _ in range(2):
        engine.refs.create_tag(LAKE, "x", MAIN)
        engine.refs.delete_tag(LAKE, TagID("x"))
        engine.refs.create_branch(LAKE, "x", MAIN)
        engine.refs.delete_branch(LAKE, BranchID("x"))


def test_many_who_race_for_a_name_leave_it_to_one(engine: Engine) -> None:
    """With real threads: one creation wins, the others are refused, and none gives up."""

    def create(place: int, name: str) -> bool:
        make = engine.refs.create_branch if place % 2 else engine.refs.create_tag
        try:
            make(LAKE, name, MAIN)
        except NotUnique:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for number in range(5):
            assert sum(pool.map(create, range(8), [f"n{number}"] * 8)) == 1


def test_a_ref_in_creation_is_not_found(engine: Engine, store: Store) -> None:
    """A dead creator's record is invisible and blocks no other creation."""
    repository = engine.repositories.get(LAKE)
    head = engine.branches.get(repository, MAIN).commit_id
    branch = pb.Branch(commit_id=head, staging_token="t", state=CREATING)
    Records(store, BRANCHES, repository.partition).set(b"half", branch)
    Records(store, TAGS, repository.partition).set(b"done", pb.Tag(commit_id=head, state=CREATING))
    assert [found.id for found in engine.branches.list(repository)] == [MAIN]
    assert list(engine.tags.list(repository)) == []
    for name in ("half", "done"):
        with pytest.raises(KeyError, match=f"reference not found: {name}"):
            engine.resolver.resolve(repository, name)
    with pytest.raises(KeyError, match="branch not found: half"):
        engine.refs.delete_branch(LAKE, BranchID("half"))
    with pytest.raises(KeyError, match="tag not found: done"):
        engine.refs.delete_tag(LAKE, TagID("done"))
    assert [file.rows for file in dump(engine, LAKE).files] == [1, 1]  # main and its commit
    engine.refs.create_tag(LAKE, "half", MAIN)
    engine.refs.create_branch(LAKE, "done", MAIN)


def test_an_older_version_left_a_branch_and_a_tag_of_one_name(engine: Engine, store: Store) -> None:
    """Both stay, the branch is found first, and a dump gives back both."""
    repository = engine.repositories.get(LAKE)
    head = engine.branches.get(repository, MAIN).commit_id
    engine.refs.create_branch(LAKE, "both", MAIN)
    both = pb.Tag(commit_id=head, state=LIVE)
    Records(store, TAGS, repository.partition).set(b"both", both)
    dump_id = dump(engine, LAKE).dump_id
    engine.repositories.delete(LAKE)
    engine.repositories.create_bare(LAKE, Namespace.parse("mem://lake/x"))
    restore(engine, LAKE, dump_id)
    repository = engine.repositories.get(LAKE)
    assert engine.tags.get(repository, TagID("both")).commit_id == head
    assert engine.resolver.resolve(repository, "both").view is View.COMBINED
    engine.refs.delete_branch(LAKE, BranchID("both"))
    assert engine.resolver.resolve(repository, "both").view is View.COMMITTED


def test_a_creation_costs_few_calls_to_the_store() -> None:
    calls: list[str] = []

    def note(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        calls.append(call.operation)
        return apply()

    engine = new_lake(FaultyStore(open_store("memory://"), note))
    engine.refs.create_branch(LAKE, DEV, MAIN)  # which reads the commit
    for create in (engine.refs.create_branch, engine.refs.create_tag):
        calls.clear()
        create(LAKE, create.__name__, MAIN)
        # The three steps; repository and source are read with the record of the other kind.
        assert calls == ["set_if", "get_many", "set_if"]


@pytest.mark.parametrize("kind", ["branch", "tag"])
@pytest.mark.parametrize("what", ["source", "repository", "recreated", "mark", "other", "own"])
def test_a_creation_goes_by_nothing_that_has_changed(what: str, kind: str) -> None:
    """Another process changes a record unknown to this one."""
    store = open_store("memory://")
    block = open_block(MemorySettings())
    engine, other = new_lake(store, block=block), new_engine(store, block)
    repository = engine.repositories.get(LAKE)
    old = engine.branches.get(repository, MAIN).commit_id
    is_branch = kind == "branch"
    create = engine.refs.create_branch if is_branch else engine.refs.create_tag
    expected: type[Exception] | None = None
    if what == "source":
        request = CommitRequest(committer="", message="", allow_empty=True)
        HeadChanges(other).commit(LAKE, MAIN, request)
    elif what == "repository":
        other.repositories.set_read_only(LAKE, read_only=True)
        expected = ReadOnly
    elif what == "recreated":
        other.refs.create_branch(LAKE, DEV, MAIN)
        other.repositories.delete(LAKE)
        other.repositories.create(LAKE, Namespace.parse("mem://lake/y"), committer="")
    elif what == "mark":
        mark = pb.Expiry(state=EXPIRED)
        Records(store, EXPIRY, repository.partition).set(old.encode(), mark)
        expected = CommitExpired
    else:
        make_branch = is_branch == (what == "own")
        (other.refs.create_branch if make_branch else other.refs.create_tag)(LAKE, DEV, MAIN)
        expected = NotUnique
    if expected is None:
        repository = other.repositories.get(LAKE)
        head = other.branches.get(repository, MAIN).commit_id
        assert create(LAKE, DEV, MAIN).commit_id == head != old
        assert other.resolver.commit(repository, DEV).id == head
    else:
        with pytest.raises(expected):
            create(LAKE, DEV, MAIN)
        if what != "own":
            own = (BRANCHES if is_branch else TAGS).prefix + DEV.encode()
            assert store.get_many([(repository.partition, own)]) == [None]


def test_a_creation_finds_a_source_that_became_a_tag(engine: Engine, store: Store) -> None:
    """The branch last seen by this process was replaced by a tag of the same name."""
    engine.refs.create_branch(LAKE, DEV, MAIN)
    other = new_engine(store, open_block(MemorySettings()))
    other.refs.delete_branch(LAKE, DEV)
    with pytest.raises(RefNotFound):
        engine.refs.create_branch(LAKE, "new", DEV)
    engine.refs.create_tag(LAKE, DEV, MAIN)
    assert engine.refs.create_branch(LAKE, "new", DEV).id == "new"


@pytest.mark.parametrize("state", [pb.REF_STATE_DELETING, 9])
def test_a_state_that_readers_do_not_find(engine: Engine, store: Store, state: int) -> None:
    """The name is taken, and the record's references are kept."""
    repository = engine.repositories.get(LAKE)
    head = engine.branches.get(repository, MAIN).commit_id
    branch = pb.Branch(commit_id=head, staging_token="t", unique_id="u")
    tag = pb.Tag(commit_id=head, unique_id="u")
    branch.state = tag.state = state  # type: ignore[assignment]  # 9 is one of a later version
    branches = Records(store, BRANCHES, repository.partition)
    tags = Records(store, TAGS, repository.partition)
    branches.set(b"b", branch)
    tags.set(b"t", tag)
    assert [found.id for found in engine.branches.list(repository)] == [MAIN]
    assert [found.id for found in engine.branches.list_referencing(repository)] == ["b", MAIN]
    assert list(engine.tags.list(repository)) == []
    assert [file.rows for file in dump(engine, LAKE).files] == [1, 1]
    for name in ("b", "t"):
        with pytest.raises(RefNotFound):
            engine.resolver.resolve(repository, name)
        with pytest.raises(RefNotFound):
            engine.readings.commit_of(LAKE, name)
        for create in (engine.refs.create_branch, engine.refs.create_tag):
            with pytest.raises(NotUnique, match="is being deleted"):
                create(LAKE, name, MAIN)
    with pytest.raises(BranchNotFound):
        engine.readings.to_write(LAKE, BranchID("b"))
    with pytest.raises(BranchNotFound):
        engine.refs.delete_branch(LAKE, BranchID("b"))
    with pytest.raises(TagNotFound):
        engine.refs.delete_tag(LAKE, TagID("t"))
    assert engine.branches.was_created(repository, BranchID("b"), UniqueID("u"))
    assert engine.branches.was_deleted(repository, BranchID("b"), UniqueID("u"))
    left = [record.message.state for record in (branches.get(b"b"), tags.get(b"t"))]
    assert left == [state, state]


@pytest.mark.parametrize(("branches", "tags"), [(2_000, 20), (20, 2_000)])
def test_a_list_of_one_kind_reads_nothing_of_the_other(branches: int, tags: int) -> None:
    read: list[bytes] = []

    def note(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        found = apply()
        if call.operation == "scan_page":
            assert isinstance(found, list)
            read.extend(item.key for item in found)
        return found

    store = FaultyStore(open_store("memory://"), note)
    engine = new_lake(store)
    repository = engine.repositories.get(LAKE)
    head = engine.branches.get(repository, MAIN).commit_id
    for number in range(branches):
        branch = pb.Branch(commit_id=head, staging_token="t", state=LIVE)
        Records(store, BRANCHES, repository.partition).set(b"b%04d" % number, branch)
    for number in range(tags):
        tag = pb.Tag(commit_id=head, state=LIVE)
        Records(store, TAGS, repository.partition).set(b"t%04d" % number, tag)
    read.clear()
    assert len(list(engine.branches.list(repository))) == branches + 1
    assert not any(key.startswith(TAGS.prefix) for key in read)
    assert len(read) <= branches + 2
    read.clear()
    assert len(list(engine.tags.list(repository))) == tags
    assert not any(key.startswith(BRANCHES.prefix) for key in read)
    assert len(read) <= tags + 1
