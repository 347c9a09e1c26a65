"""Numbers of sequential calls to the store and the storage by operation.

On a database in the network each costs a round trip, and each write a sync to a disk.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakebed.base.runtime import ThreadRuntime
from lakebed.block import Namespace
from lakebed.engine.commits.build import BuildRequest, Built
from lakebed.engine.commits.requests import CommitRequest, MergeRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import PreconditionFailed, RepositoryNotFound
from lakebed.engine.keys import DROPPED_PARTITION
from lakebed.engine.model import Branch, BranchID, RepositoryID
from lakebed.engine.refs.log import LogPage, LogQuery
from lakebed.engine.staging.writer import if_absent
from lakebed.kv import Store
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.commits import HeadChanges
from lakebed.testing.faults import FaultyStore
from tests.kit import staging
from tests.kit.steps import StepBlockStore, StepRuntime, Steps
from tests.simulation.world import entry

LAKE = RepositoryID("lake")
MAIN = BranchID("main")
DEV = BranchID("dev")
REQUEST = CommitRequest(committer="", message="")
MERGE = MergeRequest(committer="", message="")


def refuse_large(_request: BuildRequest) -> Built:
    raise AssertionError("nothing here is large")


class Lake:
    """A store, a storage and engines of several processes on them."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.store: Store = FaultyStore(MemoryStore(ThreadRuntime()), self.steps.count_store)
        self._block = StepBlockStore(self.steps)
        engine = self.process()
        engine.repositories.create(LAKE, Namespace.parse("mem://lake/x"), committer="")
        staging.put(engine, LAKE, MAIN, entry(b"old", "1"))
        HeadChanges(engine).commit(LAKE, MAIN, REQUEST)

    def process(self) -> Engine:
        """Return the engine of a new process."""
        runtime = StepRuntime(self.steps)
        return Engine(self.store, self._block, runtime=runtime, build_large=refuse_large)

    def count(self, operation: Callable[[], object]) -> Steps:
        """Return the calls of an operation."""
        self.steps.clear()
        operation()
        return self.steps


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.mark.parametrize("objects", [1, 200])
def test_a_commit(lake: Lake, objects: int) -> None:
    engine = lake.process()
    for number in range(objects):
        staging.put(engine, LAKE, MAIN, entry(b"%d" % number, "1"))
    steps = lake.count(lambda: HeadChanges(engine).commit(LAKE, MAIN, REQUEST))
    assert steps.store <= 7, steps.calls
    # The seal; range and metarange; the commit's record; the branch.
    assert steps.durable == 4, steps.calls
    assert steps.calls.count("scan_page") == 1
    # The record, and the intent to drop the tokens.
    assert [call for call in steps.calls if call in {"set", "write"}] == ["write"]
    again = lake.count(lambda: staging.get(engine, LAKE, MAIN, b"0"))
    assert "read" not in again.calls  # what was written is in memory


@pytest.mark.parametrize("kind", ["create", "replace", "delete"])
def test_a_conditional_write_is_confirmed_by_one_more_swap(lake: Lake, kind: str) -> None:
    engine = lake.process()
    staging.get(engine, LAKE, MAIN, b"old")
    writes: dict[str, Callable[[], object]] = {
        "create": lambda: staging.put(engine, LAKE, MAIN, entry(b"new", "1"), condition=if_absent),
        "replace": lambda: staging.put(engine, LAKE, MAIN, entry(b"old", "2"), condition=bool),
        "delete": lambda: staging.delete(engine, LAKE, MAIN, b"old", condition=bool),
    }
    steps = lake.count(writes[kind])
    assert steps.calls == ["get_many", "set_if", "get_many", "set_if"]


def test_a_conditional_write_that_is_refused_writes_nothing(lake: Lake) -> None:
    engine = lake.process()
    staging.get(engine, LAKE, MAIN, b"old")
    lake.steps.clear()
    with pytest.raises(PreconditionFailed):
        staging.put(engine, LAKE, MAIN, entry(b"old", "2"), condition=if_absent)
    assert lake.steps.calls == ["get_many"]


def test_a_commit_leaves_its_record_and_the_intent_to_drop(lake: Lake) -> None:
    engine = lake.process()
    staging.put(engine, LAKE, MAIN, entry(b"new", "1"))
    repository = engine.repositories.get(LAKE)
    made = HeadChanges(engine).commit(LAKE, MAIN, REQUEST).commit
    lake.steps.clear()
    assert engine.commits.get(repository, made.id) == made
    assert lake.steps.calls == []
    assert lake.process().commits.get(repository, made.id) == made
    announced = {item.key for item in lake.store.scan(DROPPED_PARTITION)}
    assert announced >= {token.encode() for token in made.consumed_tokens} > set()


def test_the_creation_of_a_branch(lake: Lake) -> None:
    engine = lake.process()
    engine.repositories.get(LAKE)
    # The CREATING record has the commit. A process that has not seen the source reads it first.
    steps = lake.count(lambda: engine.refs.create_branch(LAKE, DEV, MAIN))
    assert steps.calls == ["get", "set_if", "get_many", "set_if"]
    steps = lake.count(lambda: engine.refs.create_branch(LAKE, "again", DEV))
    assert steps.calls == ["set_if", "get_many", "set_if"]
    # So does one that has not seen the repository.
    steps = lake.count(lambda: lake.process().refs.create_branch(LAKE, "other", MAIN))
    assert steps.calls == ["get", "get", "set_if", "get_many", "set_if"]


def test_the_creation_of_a_branch_whose_source_has_moved(lake: Lake) -> None:
    engine, other = lake.process(), lake.process()
    engine.branches.get(engine.repositories.get(LAKE), MAIN)
    head = HeadChanges(other).commit(LAKE, MAIN, replace(REQUEST, allow_empty=True)).commit.id
    made: list[Branch] = []
    steps = lake.count(lambda: made.append(engine.refs.create_branch(LAKE, DEV, MAIN)))
    assert steps.calls == ["set_if", "get_many", "set_if", "get_many", "set_if"]
    assert made[0].commit_id == head
    steps = lake.count(lambda: engine.refs.create_branch(LAKE, "again", MAIN))
    assert steps.calls == ["set_if", "get_many", "set_if"]


@pytest.mark.parametrize("is_warm", [True, False])
def test_a_merge_of_what_only_the_source_changed(lake: Lake, is_warm: bool) -> None:
    writer = lake.process()
    writer.refs.create_branch(LAKE, DEV, MAIN)
    staging.put(writer, LAKE, DEV, entry(b"new", "1"))
    head = HeadChanges(writer).commit(LAKE, DEV, REQUEST).commit
    engine = writer if is_warm else lake.process()
    steps = lake.count(lambda: HeadChanges(engine).merge(LAKE, DEV, MAIN, MERGE))
    bulk_reads = [] if is_warm else ["get_many"]
    # The repository; both ends; their commits; the clean check; the record; marks; the branch.
    calls = ["get", "get_many", *bulk_reads, "scan_page", "set", "get_many", "set_if"]
    assert steps.calls == calls
    merged = engine.branches.get(engine.repositories.get(LAKE), MAIN).commit_id
    found = engine.commits.get(engine.repositories.get(LAKE), merged)
    assert found.metarange_id == head.metarange_id


def test_a_merge_of_what_the_destination_has_already(lake: Lake) -> None:
    engine = lake.process()
    engine.refs.create_branch(LAKE, DEV, MAIN)
    for branch in (DEV, MAIN):
        staging.put(engine, LAKE, branch, entry(b"same", "1"))
        HeadChanges(engine).commit(LAKE, branch, REQUEST)
    steps = lake.count(lambda: HeadChanges(engine).merge(LAKE, DEV, MAIN, MERGE))
    assert "create" not in steps.calls
    assert "read" not in steps.calls


def test_a_log(lake: Lake) -> None:
    engine = lake.process()

    def log() -> LogPage:
        repository, head = engine.readings.commit_of(LAKE, MAIN)
        return engine.history.page(
            repository, engine.committed(repository), head, LogQuery(), amount=10
        )

    first = log()
    assert len(first.commits) == 2
    steps = lake.count(log)
    assert steps.calls == ["get_many"]  # for the branch; its history does not change
    assert log() is first
    staging.put(engine, LAKE, MAIN, entry(b"new", "1"))
    made = HeadChanges(engine).commit(LAKE, MAIN, REQUEST).commit
    assert log().commits == (made, *first.commits)


def test_a_log_does_not_show_a_repository_that_was_deleted(lake: Lake) -> None:
    engine, other = lake.process(), lake.process()
    engine.readings.commit_of(LAKE, MAIN)
    other.repositories.delete(LAKE)
    with pytest.raises(RepositoryNotFound):
        engine.readings.commit_of(LAKE, MAIN)
    other.repositories.create(LAKE, Namespace.parse("mem://lake/y"), committer="")
    repository, head = engine.readings.commit_of(LAKE, MAIN)
    assert (
        len(
            engine.history.page(
                repository, engine.committed(repository), head, LogQuery(), amount=10
            ).commits
        )
        == 1
    )
