"""Reads in one store call: as fast as intended, and never wrong by a guess."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.committed import EntryQuery
from lakebed.engine.errors import Deleting, EntryNotFound, RefNotFound, RepositoryNotFound
from lakebed.engine.model import RepositoryID
from lakebed.formats import Entry
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.world import DEV, MAIN, entry

ResultT = TypeVar("ResultT")
NAME = RepositoryID("apples")
COMMIT = CommitRequest(committer="ann", message="m")


class Piecemeal(FaultyStore):
    """Splits bulk calls into single reads, with other actions in between."""

    get_many = Store.get_many


class ReaderAndWriter:
    """A repository, a reading process, and another that changes records meanwhile."""

    def __init__(self) -> None:
        runtime = ThreadRuntime()
        self.store = MemoryStore(runtime)
        self.block = MemoryBlockStore(runtime)
        self.calls: list[str] = []
        self.before_call: dict[int, Callable[[], object]] = {}
        self.writer = new_engine(self.store, self.block)
        self.reader = new_engine(FaultyStore(self.store, self._intercept), self.block)
        self.create()

    def create(self) -> None:
        self.writer.repositories.create(NAME, Namespace.parse("mem://lakes/a"), committer="ann")

    def put(self, name: str) -> None:
        staging.put(self.writer, NAME, MAIN, entry(b"key", name))

    def commit(self) -> None:
        HeadChanges(self.writer).commit(NAME, MAIN, COMMIT)

    def shown(self, ref: str = MAIN) -> str:
        return staging.get(self.reader, NAME, ref, b"key").address

    def listed(self, ref: str = MAIN) -> list[str]:
        page = staging.list_entries(self.reader, NAME, ref, EntryQuery())
        return [item.address for item in page.items if isinstance(item, Entry)]

    def read_piecemeal(self, before_call: dict[int, Callable[[], object]]) -> str:
        """Read as a process that has seen the branch, with actions before some calls."""
        reader = new_engine(Piecemeal(self.store, self._intercept), self.block)
        staging.get(reader, NAME, MAIN, b"key")
        self.calls.clear()
        self.before_call = before_call
        return staging.get(reader, NAME, MAIN, b"key").address

    def _intercept(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        meanwhile = self.before_call.pop(len(self.calls), None)
        self.calls.append(call.operation)
        if meanwhile is not None:
            meanwhile()
        return apply()


@pytest.fixture
def lake() -> ReaderAndWriter:
    return ReaderAndWriter()


def test_a_read_of_a_branch_that_was_seen_is_one_call(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.shown()
    lake.calls.clear()
    assert lake.shown() == "1"
    staging.delete(lake.writer, NAME, MAIN, b"key")
    with pytest.raises(EntryNotFound):
        lake.shown()
    assert lake.calls == ["get_many", "get_many"]


def test_a_read_sees_what_others_have_done_since(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.shown()
    lake.put("2")
    assert lake.shown() == "2"
    lake.commit()
    assert lake.shown() == "2"
    lake.put("3")
    assert lake.shown() == "3"
    HeadChanges(lake.writer).reset(NAME, MAIN)
    assert lake.shown() == "2"


def test_committed_entries_are_found_below_staged_ones(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.commit()
    assert lake.shown() == "1"
    lake.calls.clear()
    assert lake.shown() == "1"
    assert lake.calls == ["get_many"]


def test_a_branch_that_is_gone_is_not_found(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.commit()
    lake.writer.refs.create_branch(NAME, DEV, MAIN)
    assert lake.shown(DEV) == "1"
    lake.writer.refs.delete_branch(NAME, DEV)
    with pytest.raises(RefNotFound):
        lake.shown(DEV)
    lake.writer.refs.create_branch(NAME, DEV, f"{MAIN}~1")
    with pytest.raises(EntryNotFound):
        lake.shown(DEV)


def test_a_repository_made_again_shows_nothing_of_the_old_one(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.shown()
    lake.writer.repositories.delete(NAME)
    with pytest.raises((RepositoryNotFound, Deleting)):
        lake.shown()
    lake.create()
    with pytest.raises(EntryNotFound):
        lake.shown()


@pytest.mark.parametrize("call", range(3))
def test_a_slow_read_never_goes_back_behind_what_is_staged(
    lake: ReaderAndWriter, call: int
) -> None:
    lake.put("old")
    lake.commit()
    lake.put("new")
    token = lake.writer.branches.get(lake.writer.repositories.get(NAME), MAIN).staging_token

    def commit_and_clean() -> None:
        lake.commit()
        for item in lake.store.scan(token.encode()):
            lake.store.delete(token.encode(), item.key)

    assert lake.read_piecemeal({call: commit_and_clean}) == "new"
    assert len(lake.calls) >= 3


@pytest.mark.parametrize("call", range(3))
def test_a_repository_made_again_during_a_read_shows_nothing_of_the_old_one(
    lake: ReaderAndWriter, call: int
) -> None:
    lake.put("old")

    def make_again() -> None:
        lake.writer.repositories.delete(NAME)
        lake.create()
        lake.put("new")

    assert lake.read_piecemeal({call: make_again}) == "new"


@pytest.mark.parametrize("made_again", [True, False])
def test_a_commit_is_read_in_one_call_and_goes_with_its_repository(
    lake: ReaderAndWriter, *, made_again: bool
) -> None:
    lake.put("1")
    lake.commit()
    repository = lake.writer.repositories.get(NAME)
    commit_id = lake.writer.branches.get(repository, MAIN).commit_id
    lake.shown(commit_id)
    lake.calls.clear()
    assert lake.shown(commit_id) == "1"
    with pytest.raises(EntryNotFound):
        staging.get(lake.reader, NAME, commit_id, b"another key")
    assert lake.calls == ["get_many", "get_many"]
    lake.writer.repositories.delete(NAME)
    with pytest.raises((RepositoryNotFound, Deleting)):
        lake.shown(commit_id)
    if made_again:
        lake.create()
        with pytest.raises(RefNotFound):
            lake.shown(commit_id)


# Listings


def test_a_page_of_a_branch_that_was_seen_is_two_calls(lake: ReaderAndWriter) -> None:
    lake.put("1")
    lake.commit()
    commit_id = lake.writer.branches.get(lake.writer.repositories.get(NAME), MAIN).commit_id
    for number in range(1500):
        staging.put(lake.writer, NAME, MAIN, entry(b"staged/%04d" % number, "2"))
    lake.listed()
    lake.listed(commit_id)
    lake.calls.clear()
    assert lake.listed() == ["1", *["2"] * 999]
    assert lake.calls == ["get_many", "scan_page"]
    lake.calls.clear()
    page = lake.reader.reader.list_changes(NAME, MAIN, EntryQuery())
    assert len(page) == 1000
    assert page.has_more
    assert lake.calls == ["get_many", "scan_page"]
    lake.calls.clear()
    assert lake.listed(commit_id) == ["1"]
    assert lake.calls == ["get_many"]


def test_a_page_sees_what_others_have_done_since(lake: ReaderAndWriter) -> None:
    lake.put("1")
    assert lake.listed() == ["1"]
    lake.put("2")
    assert lake.listed() == ["2"]
    lake.commit()
    lake.put("3")
    assert lake.listed() == ["3"]
    HeadChanges(lake.writer).reset(NAME, MAIN)
    assert lake.listed() == ["2"]
    lake.writer.refs.create_branch(NAME, DEV, MAIN)
    assert lake.listed(DEV) == ["2"]
    lake.writer.refs.delete_branch(NAME, DEV)
    with pytest.raises(RefNotFound):
        lake.listed(DEV)


def test_a_page_of_a_repository_made_again_shows_nothing_of_the_old_one(
    lake: ReaderAndWriter,
) -> None:
    lake.put("1")
    assert lake.listed() == ["1"]
    lake.writer.repositories.delete(NAME)
    with pytest.raises((RepositoryNotFound, Deleting)):
        lake.listed()
    lake.create()
    assert lake.listed() == []
    with pytest.raises(RefNotFound):
        lake.listed("another")
