"""The reading of a write, in one store call: never wrong by earlier readings of the process."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from lakebed.base.actor import Actor, acting_as
from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.errors import (
    BranchNotFound,
    EntryNotFound,
    PreconditionFailed,
    Protected,
    ReadOnly,
    RepositoryNotFound,
)
from lakebed.engine.model import RepositoryID
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit import staging
from tests.kit.engines import new_engine
from tests.simulation.world import DEV, MAIN, entry

ResultT = TypeVar("ResultT")
NAME = RepositoryID("apples")
COMMIT = CommitRequest(committer="ann", message="m", allow_empty=True)


class Piecemeal(FaultyStore):
    """Splits bulk calls into single reads, with other actions in between."""

    get_many = Store.get_many


class TwoProcesses:
    """A writer that has seen the branch, and another process that changes records meanwhile."""

    def __init__(self) -> None:
        runtime = ThreadRuntime()
        store = MemoryStore(runtime)
        block = MemoryBlockStore(runtime)
        self.other = new_engine(store, block)
        self.writer = new_engine(Piecemeal(store, self._intercept), block)
        self._calls = 0
        self._meanwhile: dict[int, Callable[[], object]] = {}
        self.create()
        self.put("first")
        staging.open_to_put(self.writer, NAME, MAIN, b"other key", if_absent)

    def create(self) -> None:
        self.other.repositories.create(NAME, Namespace.parse("mem://lakes/a"), committer="ann")

    def put(self, name: str) -> None:
        staging.put(self.writer, NAME, MAIN, entry(b"key", name), is_recent=lambda: True)

    def shown(self) -> str:
        return staging.get(self.other, NAME, MAIN, b"key").address

    def before_call(self, number: int, action: Callable[[], object]) -> None:
        """Do something before the writer makes its call of this number, from now on."""
        self._calls = 0
        self._meanwhile = {number: action}

    def _intercept(
        self,
        call: StoreCall,
        apply: Callable[[], ResultT],
    ) -> ResultT:
        action = self._meanwhile.pop(self._calls, None)
        self._calls += 1
        if action is not None:
            action()
        return apply()


@pytest.fixture
def lake() -> TwoProcesses:
    return TwoProcesses()


def test_a_rule_holds_for_the_next_write_of_every_process(lake: TwoProcesses) -> None:
    repository = lake.other.repositories.get(NAME)
    lake.other.protection.set(repository, ["ma*"])
    for refused in (
        lambda: lake.put("no"),
        lambda: staging.put(lake.writer, NAME, MAIN, entry(b"key", "no")),
        lambda: staging.delete(lake.writer, NAME, MAIN, b"key"),
        lambda: lake.writer.readings.to_write(NAME, MAIN),
    ):
        with pytest.raises(Protected):
            refused()
    assert lake.shown() == "first"
    lake.other.protection.set(repository, [])
    lake.put("second")
    assert lake.shown() == "second"


def test_a_repository_that_became_read_only_is_not_written_to(lake: TwoProcesses) -> None:
    lake.other.repositories.set_read_only(NAME, read_only=True)
    with pytest.raises(ReadOnly):
        lake.put("no")
    with acting_as(Actor(force=True)):
        lake.put("forced")
    assert lake.shown() == "forced"


def test_a_branch_that_is_gone_is_not_found(lake: TwoProcesses) -> None:
    lake.other.refs.create_branch(NAME, DEV, MAIN)
    staging.put(lake.writer, NAME, DEV, entry(b"key", "on dev"))
    lake.other.refs.delete_branch(NAME, DEV)
    with pytest.raises(BranchNotFound):
        staging.put(lake.writer, NAME, DEV, entry(b"key", "no"))


def test_a_write_goes_into_the_repository_that_has_the_name_now(lake: TwoProcesses) -> None:
    before = lake.other.repositories.get(NAME)
    lake.other.repositories.delete(NAME)
    with pytest.raises(RepositoryNotFound):
        lake.put("no")
    lake.create()
    with pytest.raises(RepositoryNotFound):
        staging.put(lake.writer, NAME, MAIN, entry(b"key", "no"), unique_id=before.unique_id)
    with pytest.raises(EntryNotFound):
        lake.shown()
    lake.put("new")
    assert lake.shown() == "new"


# The first four calls of a write read the staged key, the rules, the branch and the repository.
@pytest.mark.parametrize("call", range(4))
def test_a_repository_made_again_meanwhile_gets_the_write_or_none(
    lake: TwoProcesses, call: int
) -> None:
    def make_again() -> None:
        lake.other.repositories.delete(NAME)
        lake.create()

    lake.before_call(call, make_again)
    try:
        lake.put("new")
    except (RepositoryNotFound, BranchNotFound):
        with pytest.raises(EntryNotFound):
            lake.shown()
    else:
        assert lake.shown() == "new"


@pytest.mark.parametrize("call", range(6))
def test_a_commit_meanwhile_loses_no_write(lake: TwoProcesses, call: int) -> None:
    lake.before_call(call, lambda: HeadChanges(lake.other).commit(NAME, MAIN, COMMIT))
    lake.put("second")
    assert lake.shown() == "second"
    HeadChanges(lake.other).commit(NAME, MAIN, COMMIT)
    assert staging.get(lake.other, NAME, f"{MAIN}@", b"key").address == "second"


@pytest.mark.parametrize("call", range(6))
def test_a_condition_is_judged_by_what_others_wrote_meanwhile(
    lake: TwoProcesses, call: int
) -> None:
    """A change between two reads of one call is not overwritten."""

    def write_and_commit() -> None:
        staging.put(lake.other, NAME, MAIN, entry(b"new key", "theirs"))
        HeadChanges(lake.other).commit(NAME, MAIN, COMMIT)

    lake.before_call(call, write_and_commit)
    with pytest.raises(PreconditionFailed):
        staging.put(lake.writer, NAME, MAIN, entry(b"new key", "ours"), condition=if_absent)
    assert staging.get(lake.other, NAME, MAIN, b"new key").address == "theirs"
