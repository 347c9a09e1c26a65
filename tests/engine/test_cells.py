"""Cells with proposals: every reader sees the same as without the proposals."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TypeVar

import pytest

from lakebed.base.errors import LakebedError
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import EntryNotFound, NoChanges, PreconditionFailed, TooManyTries
from lakebed.engine.keys import STAGED_PREFIX
from lakebed.engine.model import Branch, BranchID, RepositoryID, StagingToken
from lakebed.engine.staging import listing
from lakebed.engine.staging.cells import (
    PROPOSAL_PREFIX,
    TOMBSTONE,
    Cells,
    all_values,
    encode,
    has_proposal,
    newest,
    propose,
    remove_proposal,
    value_of,
    version_of,
)
from lakebed.engine.staging.scan import StagedChanges
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import CorruptRecord, Item, Version
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation import engine_mutants as mutants
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")
REQUEST = CommitRequest(committer="", message="")
MERGE = MergeRequest(committer="", message="")
OTHER = Version(b"o" * 16)

COMMITTED = [b"dir/committed", b"dir/deleted", b"dir/replaced", b"keep"]
KEYS = [*COMMITTED, b"dir/new", b"dir/nothing", b"dir/unstaged", b"z"]

Shown = object
ResultT = TypeVar("ResultT")


class Lake:
    """A repository with all kinds of staged changes, in one token or in three."""

    def __init__(self, *, tokens: int, rows: int) -> None:
        runtime = ThreadRuntime()
        self.store = MemoryStore(runtime)
        self.engine = new_engine(self.store, MemoryBlockStore(runtime), runtime=runtime)
        self.engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
        for key in COMMITTED:
            staging.put(self.engine, LAKE, MAIN, entry(key, "committed"))
        HeadChanges(self.engine).commit(LAKE, MAIN, REQUEST)
        self.engine.refs.create_branch(LAKE, DEV, MAIN)
        self._seal = tokens > 1
        for number in range(rows):
            staging.put(self.engine, LAKE, MAIN, entry(b"row/%05d" % number, f"row{number}"))
        self._next()
        staging.put(self.engine, LAKE, MAIN, entry(b"dir/replaced", "staged"))
        staging.put(self.engine, LAKE, MAIN, entry(b"dir/unstaged", "staged"))
        self._next()
        staging.delete(self.engine, LAKE, MAIN, b"dir/deleted")
        staging.delete(self.engine, LAKE, MAIN, b"dir/unstaged")
        staging.put(self.engine, LAKE, MAIN, entry(b"dir/new", "staged"))

    @property
    def branch(self) -> Branch:
        return self.engine.branches.get(self.engine.repositories.get(LAKE), MAIN)

    def _next(self) -> None:
        if self._seal:
            repository = self.engine.repositories.get(LAKE)
            self.engine.publisher.seal(repository, self.branch)

    def propose(self, *, current: bool) -> None:
        """Make proposals, in each token for each key, for puts and removals by turns."""
        branch, numbers = self.branch, count()
        for token in branch.tokens:
            for key in KEYS:
                place = token.encode(), STAGED_PREFIX + key
                number = next(numbers)
                value = TOMBSTONE if number % 3 == 0 else encode(entry(key, f"proposed{number}"))
                is_for_now = current and token == branch.staging_token
                version = branch.version if is_for_now else OTHER
                (found,) = self.store.get_many([place])
                self.store.set(*place, propose(found, value, version))

    def get(self, ref: str, key: bytes) -> str | None:
        try:
            return staging.get(self.engine, LAKE, ref, key).address
        except EntryNotFound:
            return None


def get_each(lake: Lake) -> Shown:
    return {key: lake.get(MAIN, key) for key in KEYS}


def get_each_again(lake: Lake) -> Shown:
    """In one call, by earlier readings of the process."""
    staging.get(lake.engine, LAKE, MAIN, b"keep")
    return get_each(lake)


def get_staged(lake: Lake) -> Shown:
    return {key: lake.get(f"{MAIN}$", key) for key in KEYS}


def listed(lake: Lake, query: EntryQuery, ref: str = MAIN) -> list[tuple[bytes, str]]:
    found: list[tuple[bytes, str]] = []
    while True:
        page = staging.list_entries(lake.engine, LAKE, ref, query)
        found += [(item.key, getattr(item, "address", "")) for item in page.items]
        if not page.has_more:
            return found
        query = replace(query, after=page.items[-1].key)


def list_all(lake: Lake) -> Shown:
    return listed(lake, EntryQuery())


def list_by_ones(lake: Lake) -> Shown:
    return listed(lake, EntryQuery(amount=1, prefix=b"dir/"))


def list_folders(lake: Lake) -> Shown:
    return listed(lake, EntryQuery(delimiter=b"/"))


def list_a_deleted_folder(lake: Lake) -> Shown:
    """Last keys of ranges are looked up in staging first."""
    for key in (b"dir/committed", b"dir/replaced", b"dir/new"):
        staging.delete(lake.engine, LAKE, MAIN, key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "_FIRST_WINDOW", 1)
        return list_folders(lake)


def list_changes(lake: Lake) -> Shown:
    rows = lake.engine.reader.list_changes(LAKE, MAIN, EntryQuery()).rows
    return rows.to_pylist()


def commit(lake: Lake) -> Shown:
    made = HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST).commit
    return listed(lake, EntryQuery(), made.id), listed(lake, EntryQuery())


def reset_each(lake: Lake) -> Shown:
    for key in KEYS:
        HeadChanges(lake.engine).reset_object(LAKE, MAIN, key)
    return listed(lake, EntryQuery(prefix=b"dir/"))


def reset_below(lake: Lake) -> Shown:
    HeadChanges(lake.engine).reset_prefix(LAKE, MAIN, b"dir/")
    return listed(lake, EntryQuery())


def merge_beside_what_is_staged(lake: Lake) -> Shown:
    """Proposed keys cause no conflict."""
    for key in (b"dir/nothing", b"keep", b"z"):
        staging.put(lake.engine, LAKE, DEV, entry(key, "merged"))
    HeadChanges(lake.engine).commit(LAKE, DEV, REQUEST)
    HeadChanges(lake.engine).merge(LAKE, DEV, MAIN, replace(MERGE, keep_staged=True))
    return listed(lake, EntryQuery())


def open_to_create(lake: Lake) -> Shown:
    """Test whether a conditional write would be refused, before it takes any bytes."""
    told: dict[bytes, str] = {}
    for key in KEYS:
        staging.open_to_put(lake.engine, LAKE, MAIN, key)
        try:
            staging.open_to_put(lake.engine, LAKE, MAIN, key, if_absent)
            told[key] = "absent"
        except PreconditionFailed:
            told[key] = "there"
    return told


READERS: list[Callable[[Lake], Shown]] = [
    get_each, get_each_again, get_staged, list_all, list_by_ones, list_folders,
    list_a_deleted_folder, list_changes, commit, reset_each, reset_below,
    merge_beside_what_is_staged, open_to_create,
]  # fmt: skip


def read_with_proposals(
    read: Callable[[Lake], Shown], *, tokens: int, current: bool, rows: int = 3
) -> tuple[Shown, Shown]:
    """Return the visible results with proposals, and without."""
    plain, proposed = Lake(tokens=tokens, rows=rows), Lake(tokens=tokens, rows=rows)
    proposed.propose(current=current)
    return read(proposed), read(plain)


@pytest.mark.parametrize("current", [True, False], ids=["this version", "another version"])
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("read", READERS)
def test_a_proposal_shows_nowhere(
    read: Callable[[Lake], Shown], tokens: int, *, current: bool
) -> None:
    found, expected = read_with_proposals(read, tokens=tokens, current=current)
    assert found == expected


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("read", [list_all, list_changes, commit])
def test_a_proposal_shows_nowhere_among_many_rows(
    read: Callable[[Lake], Shown], tokens: int
) -> None:
    """Values are read as columns then."""
    found, expected = read_with_proposals(read, tokens=tokens, current=False, rows=600)
    assert found == expected


@pytest.mark.parametrize("kind", ["merge", "commit"])
def test_a_branch_with_proposals_alone_is_clean(kind: str) -> None:
    lake = Lake(tokens=1, rows=0)
    HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
    lake.propose(current=True)
    before = list_all(lake)
    if kind == "merge":
        staging.put(lake.engine, LAKE, DEV, entry(b"a", "merged"))
        HeadChanges(lake.engine).commit(LAKE, DEV, REQUEST)
        HeadChanges(lake.engine).merge(LAKE, DEV, MAIN, MERGE)
        assert isinstance(before, list)
        assert list_all(lake) == [(b"a", "merged"), *before]
    else:
        with pytest.raises(NoChanges):
            HeadChanges(lake.engine).commit(LAKE, MAIN, REQUEST)
        assert list_all(lake) == before


def test_a_limited_scan_reads_on_behind_cells_without_a_value() -> None:
    """A window of the needed size is read although some of its rows are proposals alone."""
    store, token = MemoryStore(ThreadRuntime()), StagingToken("t")
    for number in range(10):
        name = STAGED_PREFIX + b"%d" % number
        value = encode(entry(b"%d" % number, "w"))
        store.set(token.encode(), name, propose(None, value, OTHER) if number < 4 else value)
    for version in (OTHER, Version(b"v" * 16)):
        changes = StagedChanges(Cells(store, [token], version), limit=4)
        assert [name for name, _ in changes.begin(4)] == [
            STAGED_PREFIX + b"%d" % n for n in range(4, 8)
        ]
    assert len(StagedChanges(Cells(store, [token], None), limit=20).begin(20)) == 6


def test_a_proposal_that_replaces_one_of_another_version_is_noted_as_passed_over() -> None:
    """A listing unaware of the proposal would record its key as empty."""
    store, token, version = MemoryStore(ThreadRuntime()), StagingToken("t"), Version(b"v" * 16)
    name, value = STAGED_PREFIX + b"a", encode(entry(b"a", "new"))
    scanned = (name, propose(None, value, OTHER))
    store.set(token.encode(), name, propose(None, value, version))
    cells = Cells(store, [token], version)
    assert list(cells.visible(token, [scanned])) == []
    assert cells.passed_over == [b"a"]


@pytest.mark.parametrize("beside", [None, TOMBSTONE, encode(entry(b"a", "old"))])
def test_a_cell_has_its_value_when_its_proposal_was_taken_away(beside: bytes | None) -> None:
    """And the version of the value; the cell's own version never comes back."""
    store, token = MemoryStore(ThreadRuntime()), StagingToken("t")
    place = token.encode(), STAGED_PREFIX + b"a"
    if beside is not None:
        store.set(*place, beside)
    (before,) = store.get_many([place])
    store.set(*place, propose(before, encode(entry(b"a", "new")), OTHER))
    (cell,) = store.get_many([place])
    assert cell is not None
    assert has_proposal(cell)
    assert value_of(cell) == beside
    assert version_of(cell) == (b"" if before is None else before.predicate)
    assert newest([cell, None]) == beside
    remove_proposal(store, token, cell)
    (after,) = store.get_many([place])
    if before is None:
        assert after is None
        return
    assert after is not None
    assert not has_proposal(after)
    assert (value_of(after), version_of(after)) == (beside, before.predicate)
    assert after.predicate not in {before.predicate, cell.predicate}
    remove_proposal(store, token, Item(place[1], propose(after, TOMBSTONE, OTHER), after.predicate))
    (again,) = store.get_many([place])
    assert again is not None
    assert version_of(again) == before.predicate


def test_all_that_may_become_visible_is_spelled_out() -> None:
    old, new = encode(entry(b"a", "old")), encode(entry(b"a", "new"))
    cells = [
        Item(b"key/a", old, OTHER),
        Item(b"key/b", propose(None, new, OTHER), OTHER),
        Item(b"key/c", propose(Item(b"key/c", old, OTHER), new, OTHER), OTHER),
    ]
    rows = [(b"key/a", old), (b"key/b", new), (b"key/c", old), (b"key/c", new)]
    assert list(all_values(cells)) == rows


@pytest.mark.parametrize(
    "value", [PROPOSAL_PREFIX, PROPOSAL_PREFIX + b"\xff", PROPOSAL_PREFIX + TOMBSTONE]
)
def test_a_damaged_cell_is_named_and_left_as_it_is(value: bytes) -> None:
    store, token = MemoryStore(ThreadRuntime()), StagingToken("t")
    place = token.encode(), STAGED_PREFIX + b"broken"
    store.set(*place, value)
    with pytest.raises(CorruptRecord, match="broken"):
        Cells(store, [token], None).settled(store.get_many([place]))
    assert store.get(*place).value == value


def test_a_read_that_others_always_disturb_ends() -> None:
    store, token = MemoryStore(ThreadRuntime()), StagingToken("t")
    place = token.encode(), STAGED_PREFIX + b"a"

    def propose_again(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation == "delete_if":
            store.set(*place, propose(None, TOMBSTONE, OTHER))
        return apply()

    store.set(*place, propose(None, TOMBSTONE, OTHER))
    with pytest.raises(TooManyTries):
        Cells(FaultyStore(store, propose_again), [token], None).settled(store.get_many([place]))


@pytest.mark.parametrize("plant", [mutants.show_proposals, mutants.take_proposals_for_tombstones])
@pytest.mark.parametrize(
    "read",
    [get_each, get_each_again, list_all, list_by_ones, list_folders, list_changes, open_to_create],
)
def test_a_reader_that_sees_proposals_is_found_out(
    plant: mutants.Plant, read: Callable[[Lake], Shown], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    try:
        found, expected = read_with_proposals(read, tokens=1, current=True)
    except LakebedError:
        return
    assert found != expected
