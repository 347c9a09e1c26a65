"""Names of branches and tags: one kind has a name, the other is refused (simulated elsewhere)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakebed.block import BlockStore, MemorySettings, Namespace, open_block
from lakebed.catalog.commits import HeadChanges
from lakebed.engine import records_pb2 as pb
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import CommitExpired, NotUnique, ReadOnly
from lakebed.engine.expiry_marks import EXPIRED
from lakebed.engine.hooks import Hooks
from lakebed.engine.keys import BRANCHES, EXPIRY, TAGS
from lakebed.engine.model import BranchID, CommitID, Repository, RepositoryID, TagID
from lakebed.engine.refs.resolve import View
from lakebed.ids import UniqueID
from lakebed.kv import Store, open_store
from lakebed.kv.records import Records
from lakebed.runtime import ResultT
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.engines import dump, restore

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")


def new_engine(store: Store, hooks: Hooks | None = None, block: BlockStore | None = None) -> Engine:
    engine = Engine(store, block or open_block(MemorySettings()), hooks=hooks)
    engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
    return engine


@pytest.fixture(params=["at once", "in steps"])
def store(request: pytest.FixtureRequest) -> Store:
    store = open_store("memory://")
    store.guards_writes = request.param == "at once"
    return store


@pytest.fixture
def engine(store: Store) -> Engine:
    return new_engine(store)


def test_a_name_is_that_of_a_branch_or_of_a_tag(engine: Engine) -> None:
    engine.refs.create_branch(LAKE, DEV, MAIN)
    engine.refs.create_tag(LAKE, "v1", MAIN)
    with pytest.raises(NotUnique, match="tag v1 exists already, and a branch cannot have the same"):
        engine.refs.create_branch(LAKE, "v1", MAIN)
    with pytest.raises(NotUnique, match="branch dev exists already, and a tag cannot have the"):
        engine.refs.create_tag(LAKE, DEV, MAIN)
    with pytest.raises(NotUnique, match=r"branch dev exists already$"):
        engine.refs.create_branch(LAKE, DEV, MAIN)
    with pytest.raises(NotUnique, match=r"tag v1 exists already$"):
        engine.refs.create_tag(LAKE, "v1", MAIN)
    repository = engine.repositories.get(LAKE)
    assert [branch.id for branch in engine.branches.list(repository)] == [DEV, MAIN]
    assert [tag.id for tag in engine.tags.list(repository)] == ["v1"]


class Asked(Hooks):
    """Counts how often it was asked whether a branch may be made."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def minds_branch(self, repository: Repository, branch: BranchID, commit_id: CommitID) -> bool:
        return True

    def before_create_branch(
        self,
        repository: Repository,
        branch: BranchID,
        commit_id: CommitID,
        source: str,
        unique_id: UniqueID,
    ) -> None:
        self.names.append(branch)


def test_hooks_are_asked_once_for_each_branch_that_is_wanted(store: Store) -> None:
    hooks = Asked()
    engine = new_engine(store, hooks)
    engine.refs.create_tag(LAKE, "v1", MAIN)
    engine.refs.create_branch(LAKE, DEV, MAIN)
    for taken in ("v1", DEV):
        with pytest.raises(NotUnique):
            engine.refs.create_branch(LAKE, taken, MAIN)
    assert hooks.names == [DEV, "v1", DEV]


def test_a_name_is_free_for_the_other_kind_after_a_deletion(engine: Engine) -> None:
    for _ in range(2):
        engine.refs.create_tag(LAKE, "x", MAIN)
        engine.refs.delete_tag(LAKE, TagID("x"))
        engine.refs.create_branch(LAKE, "x", MAIN)
        engine.refs.delete_branch(LAKE, BranchID("x"))


def test_many_who_race_for_a_name_leave_it_to_one(engine: Engine) -> None:
    """With real threads: one gets it, the others are told so, and nobody gives up."""

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


def test_what_is_only_being_created_is_not_found(engine: Engine, store: Store) -> None:
    """A creator died on the way: nobody sees what it left, and it is in nobody's way."""
    repository = engine.repositories.get(LAKE)
    head = engine.branches.get(repository, MAIN).commit_id
    branch = pb.Branch(commit_id=head, staging_token="t", pending=True)
    Records(store, BRANCHES, repository.partition).set(b"half", branch)
    Records(store, TAGS, repository.partition).set(b"done", pb.Tag(commit_id=head, pending=True))
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
    Records(store, TAGS, repository.partition).set(b"both", pb.Tag(commit_id=head))
    dump_id = dump(engine, LAKE).dump_id
    engine.repositories.delete(LAKE)
    engine.repositories.create_bare(LAKE, Namespace.parse("mem://lake/x"))
    restore(engine, LAKE, dump_id)
    repository = engine.repositories.get(LAKE)
    assert engine.tags.get(repository, TagID("both")).commit_id == head
    assert engine.resolver.resolve(repository, "both").view is View.COMBINED
    engine.refs.delete_branch(LAKE, BranchID("both"))
    assert engine.resolver.resolve(repository, "both").view is View.COMMITTED


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_creation_costs_few_calls_to_the_store(is_guarded: bool) -> None:
    calls: list[str] = []

    def note(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        calls.append(call.operation)
        return apply()

    store = FaultyStore(open_store("memory://"), note)
    store.guards_writes = is_guarded
    engine = new_engine(store)
    engine.refs.create_branch(LAKE, DEV, MAIN)  # which reads the commit
    calls.clear()
    engine.refs.create_branch(LAKE, "other", MAIN)
    # The three steps; repository and source are read with the look at the other kind.
    assert calls == (["set_if"] if is_guarded else ["set_if", "get_many", "set_if"])


@pytest.mark.parametrize("what", ["source", "repository", "mark", "tag"])
def test_a_branch_that_is_made_at_once_goes_by_nothing_that_has_changed(what: str) -> None:
    """Another process changes something; this one has not seen that."""
    store = open_store("memory://")
    assert store.guards_writes
    block = open_block(MemorySettings())
    engine, other = new_engine(store, block=block), Engine(store, block)
    repository = engine.repositories.get(LAKE)
    old = engine.branches.get(repository, MAIN).commit_id
    if what == "source":
        HeadChanges(other).commit(
            LAKE, MAIN, CommitRequest(committer="", message="", allow_empty=True)
        )
        new = other.branches.get(repository, MAIN).commit_id
        assert engine.refs.create_branch(LAKE, DEV, MAIN).commit_id == new != old
    elif what == "repository":
        other.repositories.set_read_only(LAKE, read_only=True)
        with pytest.raises(ReadOnly):
            engine.refs.create_branch(LAKE, DEV, MAIN)
    elif what == "mark":
        mark = pb.Expiry(state=EXPIRED)
        Records(store, EXPIRY, repository.partition).set(old.encode(), mark)
        with pytest.raises(CommitExpired):
            engine.refs.create_branch(LAKE, DEV, MAIN)
    else:
        other.refs.create_tag(LAKE, DEV, MAIN)
        with pytest.raises(NotUnique):
            engine.refs.create_branch(LAKE, DEV, MAIN)
    made = Records(store, BRANCHES, repository.partition).find(DEV.encode())
    assert (made is not None) == (what == "source")
