"""How many calls to the store, one after the other, the operations on objects take.

On a database that is reached through a network each of them is a round trip, so their number is
what an operation costs. Counted as a process makes them that has seen the branch before.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from lakebed.block import Address, Namespace
from lakebed.block.drivers.memory import MemoryBlockStore
from lakebed.engine.commits.requests import CommitRequest
from lakebed.engine.engine import Engine
from lakebed.engine.errors import EntryNotFound
from lakebed.engine.reading import RECENT_SECONDS
from lakebed.engine.staging.writer import if_absent
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.lake.catalog import Catalog
from lakebed.lake.commits import HeadChanges
from lakebed.lake.settings import CatalogSettings
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.engines import new_engine
from tests.kit.lake import MAIN, REPOSITORY, TurnableClock

ResultT = TypeVar("ResultT")
REQUEST = CommitRequest(committer="ann", message="m")


class CountedLake:
    """A catalog, and the calls that it makes to its store."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.clock = TurnableClock()
        self._store = MemoryStore(TurnableClock())
        self.block = MemoryBlockStore(TurnableClock())
        self.engine, self.catalog = self.process()
        namespace = Namespace.parse("mem://lakes/lake")
        self.engine.repositories.create(REPOSITORY, namespace, committer="ann")
        self.upload(b"committed")
        self.commit_id = HeadChanges(self.engine).commit(REPOSITORY, MAIN, REQUEST).commit.id
        self.upload(b"staged")
        self.catalog.objects.stat(REPOSITORY, MAIN, b"committed")
        self.catalog.objects.stat(REPOSITORY, self.commit_id, b"committed")

    def process(self) -> tuple[Engine, Catalog]:
        """The engine and the catalog of a process that has seen nothing yet."""
        store = FaultyStore(self._store, self._note)
        engine = new_engine(store, self.block, runtime=self.clock)
        return engine, Catalog(engine, store, self.block, self.clock, CatalogSettings())

    def upload(self, path: bytes) -> None:
        self.catalog.uploads.upload(REPOSITORY, MAIN, path, [b"x"])

    def counted(self, operation: Callable[[], object]) -> list[str]:
        """The calls that an operation makes."""
        self.calls.clear()
        operation()
        return list(self.calls)

    def _note(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        self.calls.append(call.operation)
        return apply()


@pytest.fixture
def lake() -> CountedLake:
    return CountedLake()


@pytest.mark.parametrize("path", [b"new", b"staged", b"committed"])
def test_an_upload_takes_three(lake: CountedLake, path: bytes) -> None:
    made = lake.counted(lambda: lake.upload(path))
    assert made == ["get_many", "set_if", "get_many"]


def test_an_upload_whose_bytes_take_long_is_checked_again(lake: CountedLake) -> None:
    def slowly() -> Iterator[bytes]:
        lake.clock.ahead_seconds += 2 * RECENT_SECONDS
        yield b"x"

    made = lake.counted(lambda: lake.catalog.uploads.upload(REPOSITORY, MAIN, b"slow", slowly()))
    assert made == ["get_many", "get_many", "set_if", "get_many"]


def test_a_conditional_upload_takes_four(lake: CountedLake) -> None:
    made = lake.counted(
        lambda: lake.catalog.uploads.upload(
            REPOSITORY, MAIN, b"only once", [b"x"], condition=if_absent
        )
    )
    assert made == ["get_many", "set_if", "get_many", "set_if"]


def test_the_first_upload_of_a_process_takes_five(lake: CountedLake) -> None:
    _, catalog = lake.process()
    made = lake.counted(lambda: catalog.uploads.upload(REPOSITORY, MAIN, b"cold", [b"x"]))
    assert made == ["get_many", "get_many", "get_many", "set_if", "get_many"]


def test_the_first_upload_after_a_commit_goes_to_the_new_token_at_once(lake: CountedLake) -> None:
    lake.upload(b"to be committed")
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    made = lake.counted(lambda: lake.upload(b"after it"))
    assert made == ["get_many", "set_if", "get_many"]


def test_a_delete_takes_three(lake: CountedLake) -> None:
    made = lake.counted(lambda: lake.catalog.objects.delete(REPOSITORY, MAIN, b"committed"))
    assert made == ["get_many", "set", "get"]


def test_staging_an_external_object_takes_four(lake: CountedLake) -> None:
    address = Address.parse("mem://other/some/deep/folder/object")
    made = lake.counted(
        lambda: lake.catalog.external.stage(
            REPOSITORY, MAIN, b"external", address, checksum="c", size=1
        )
    )
    assert made == ["get_many", "get_many", "set_if", "get_many"]


def test_a_copy_of_a_committed_object_takes_five(lake: CountedLake) -> None:
    def copy() -> None:
        lake.catalog.copies.copy(
            REPOSITORY, MAIN, b"copy", source_ref=MAIN, source_path=b"committed"
        )

    made = lake.counted(copy)
    assert made == ["get_many", "get_many", "get", "set_if", "get_many"]


@pytest.mark.parametrize("path", [b"staged", b"committed"])
def test_a_stat_takes_one(lake: CountedLake, path: bytes) -> None:
    made = lake.counted(lambda: lake.catalog.objects.stat(REPOSITORY, MAIN, path))
    assert made == ["get_many"]


def test_the_first_stat_after_a_commit_takes_one(lake: CountedLake) -> None:
    """Whoever commits knows the branch as it is then."""
    HeadChanges(lake.engine).commit(REPOSITORY, MAIN, REQUEST)
    made = lake.counted(lambda: lake.catalog.objects.stat(REPOSITORY, MAIN, b"staged"))
    assert made == ["get_many"]


@pytest.mark.parametrize("path", [b"staged", b"committed"])
def test_a_stat_that_is_asked_again_sees_what_others_did(lake: CountedLake, path: bytes) -> None:
    _, others = lake.process()
    stat = lake.catalog.objects.stat
    before = stat(REPOSITORY, MAIN, path)
    assert stat(REPOSITORY, MAIN, path) == before
    others.uploads.upload(REPOSITORY, MAIN, b"another", [b"more"])
    assert stat(REPOSITORY, MAIN, path) == before
    others.uploads.upload(REPOSITORY, MAIN, path, [b"more"])
    assert stat(REPOSITORY, MAIN, path).size == len(b"more")
    others.objects.delete(REPOSITORY, MAIN, path)
    with pytest.raises(EntryNotFound):
        stat(REPOSITORY, MAIN, path)
    others.uploads.upload(REPOSITORY, MAIN, path, [b"x"])
    assert stat(REPOSITORY, MAIN, path).address != before.address


def test_a_stat_at_a_commit_takes_one(lake: CountedLake) -> None:
    made = lake.counted(lambda: lake.catalog.objects.stat(REPOSITORY, lake.commit_id, b"committed"))
    assert made == ["get_many"]


def test_a_link_takes_seven(lake: CountedLake) -> None:
    given = lake.catalog.links.get_physical_address(REPOSITORY, MAIN, b"linked")
    lake.block.put(given.address, [b"x"])
    made = lake.counted(
        lambda: lake.catalog.links.link(REPOSITORY, MAIN, b"linked", given.address, checksum="c")
    )
    assert made == ["get_many", "get", "set_if", "set_if", "get_many", "get", "set_if"]
