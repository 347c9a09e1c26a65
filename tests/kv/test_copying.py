"""A store is copied whole, or not at all; a copy that was cut off goes on."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import pytest

from lakebed.kv import Store, StoreHalted, copying
from lakebed.kv.copying import (
    CopyCounts,
    CopyRefused,
    CopySide,
    StoreCopy,
    partition_hashes,
    release,
)
from lakebed.kv.drivers.memory import MemoryStore
from lakebed.kv.halt import (
    CHECK_SECONDS,
    SETTLE_SECONDS,
    Permit,
    check_not_halted,
    decode_halt,
    find_halt,
)
from lakebed.kv.managed import ManagedStore
from lakebed.kv.schema import check_schema
from lakebed.kv.store import Limits, puts
from lakebed.testing.faults import FaultyStore, StoreCall
from tests.kit.hand_clock import HandClock

ResultT = TypeVar("ResultT")

RECORDS = 186


class DiedError(BaseException):
    """The process ended here."""


@dataclass
class Database:
    """A database in memory that several processes open."""

    name: str
    runtime: HandClock
    driver: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        self.driver = MemoryStore(self.runtime)

    def open(self, driver: Store | None = None) -> CopySide:
        """As a tool opens it."""
        permit = Permit()
        store = ManagedStore(driver or self.driver, self.runtime, permit=permit)
        return CopySide(store, permit, self.name)

    def serve(self) -> Store:
        """As a server opens it."""
        side = self.open()
        check_not_halted(side.store)
        check_schema(side.store)
        return side.store

    def content(self) -> dict[bytes, str]:
        return partition_hashes(self.driver)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "CHUNK_KEYS", 50)


@pytest.fixture
def runtime() -> HandClock:
    return HandClock()


@pytest.fixture
def old(runtime: HandClock) -> Database:
    database = Database("sqlite:///old", runtime)
    store = database.serve()
    for number in range(4):
        keys = [(b"key/%05d" % each, b"value %d" % each) for each in range(30 * number)]
        store.write(puts(b"token-%d" % number, [*keys, (b"\xff", b"")]))
    store.set(b"auth", b"users/ada", b"\x00\xff")
    return database


@pytest.fixture
def new(runtime: HandClock) -> Database:
    return Database("postgresql://new", runtime)


def copied(old: Database, new: Database, target: Store | None = None) -> CopyCounts:
    return StoreCopy(old.open(), new.open(target), old.runtime, SETTLE_SECONDS).run()


def test_everything_is_copied_and_the_old_store_stays_halted(old: Database, new: Database) -> None:
    before = old.content()
    counts = copied(old, new)
    assert old.content() == new.content() == before
    assert counts.records == counts.written == RECORDS
    assert new.serve().get(b"auth", b"users/ada").value == b"\x00\xff"
    with pytest.raises(StoreHalted, match="was copied to postgresql://new"):
        old.serve()
    assert release(old.open()).finished
    old.serve()


def test_a_run_that_died_anywhere_is_completed_by_the_next(
    old: Database, runtime: HandClock
) -> None:
    """At every write to either store, before and after it takes effect."""
    before = old.content()
    for at in count():
        source, target = Database(old.name, runtime), Database("postgresql://new", runtime)
        for partition in old.driver.partitions():
            items = [(item.key, item.value) for item in old.driver.scan(partition)]
            source.driver.write(puts(partition, items))
        dies = Dying(at)
        ended = False
        try:
            StoreCopy(
                source.open(FaultyStore(source.driver, dies)),
                target.open(FaultyStore(target.driver, dies)),
                runtime,
                SETTLE_SECONDS,
            ).run()
            ended = True
        except DiedError:
            if find_halt(source.driver) is not None:
                with pytest.raises(CopyRefused, match="cannot copy sqlite:///old: this store"):
                    copied(source, Database("another", runtime))
            mark = find_halt(target.driver)
            if mark is not None and decode_halt(mark.value).halts:
                with pytest.raises(StoreHalted, match="incomplete copy of sqlite:///old"):
                    target.serve()
                copied(source, target)
            elif not target.content():
                copied(source, target)
        assert target.content() == before
        target.serve()
        if ended:
            assert at > 20
            return


class Dying:
    """Ends a process at its n-th write: before it if the number is even, else after it."""

    def __init__(self, at: int) -> None:
        self._left = at // 2
        self._after = at % 2

    def __call__(self, call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if not call.writes:
            return apply()
        self._left -= 1
        if self._left == -1 and not self._after:
            raise DiedError
        result = apply()
        if self._left == -1:
            raise DiedError
        return result


def test_the_next_run_writes_only_what_is_missing(old: Database, new: Database) -> None:
    with pytest.raises(DiedError):
        copied(old, new, FaultyStore(new.driver, Dying(13)))
    there = sum(1 for partition in new.driver.partitions() for _ in new.driver.scan(partition)) - 1
    assert there > 50
    counts = copied(old, new)
    assert (counts.records, counts.written) == (RECORDS, RECORDS - there)


def test_a_target_that_is_not_empty_is_refused_and_nothing_changes(
    old: Database, new: Database
) -> None:
    new.serve().set(b"graveler", b"repos/mine", b"x")
    before = new.content()
    with pytest.raises(CopyRefused, match=r"is not empty \(it contains key 'repos/mine'"):
        copied(old, new)
    assert new.content() == before
    old.serve()


def test_foreign_stores_are_not_copied(runtime: HandClock, new: Database) -> None:
    with pytest.raises(CopyRefused, match="not a Lakebed store"):
        copied(Database("sqlite:///empty", runtime), new)
    new.serve()


def test_a_server_that_runs_stops_writing_before_anything_is_copied(
    old: Database, new: Database, runtime: HandClock
) -> None:
    server = old.serve()
    written: list[bytes] = []
    copy = StoreCopy(old.open(), new.open(), runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        runtime.seconds += 0.9
        with suppress(StoreHalted):
            server.set(b"auth", b"users/eve", text.encode())
            written.append(text.encode())

    server.set(b"auth", b"users/eve", b"just before")
    copy.print_line = say
    copy.run()
    assert [text.partition(b" ")[0] for text in written] == [b"sqlite:///old", b"waiting"]
    assert new.serve().get(b"auth", b"users/eve").value == written[-1]


def test_a_write_that_lands_late_is_found_out(old: Database, new: Database) -> None:
    """The process slept between its look at the mark and its write."""
    copy = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        if text.startswith("comparing"):
            old.driver.set(b"late", b"key", b"x")

    copy.print_line = say
    with pytest.raises(CopyRefused, match="differ in partition 'late'"):
        copy.run()
    with pytest.raises(StoreHalted, match="incomplete"):
        new.serve()


@pytest.mark.parametrize(
    ("partition", "key"),
    [(b"token-2", b"key/00005"), (b"token-2", b"\xff"), (b"auth", b"users/ada")],
)
def test_a_copy_refuses_extra_records_in_the_target(
    old: Database, new: Database, partition: bytes, key: bytes
) -> None:
    """What the source has not was written by a server that used the target, as far as one knows."""
    copy = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        if text.startswith("comparing"):
            old.driver.delete(partition, key)

    copy.print_line = say
    with pytest.raises(CopyRefused, match=f"differ in partition '{partition.decode()}':"):
        copy.run()
    with pytest.raises(
        CopyRefused, match=f"has a record that .* in partition '{partition.decode()}'"
    ):
        copied(old, new)
    assert new.driver.get(partition, key)
    for each in list(new.driver.partitions()):
        for item in list(new.driver.scan(each)):
            new.driver.delete(each, item.key)
    copied(old, new)
    assert old.content() == new.content()


def test_the_next_run_takes_along_what_was_changed_since(old: Database, new: Database) -> None:
    copy = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        if text.startswith("comparing"):
            old.driver.set(b"token-2", b"key/00006", b"changed")
            old.driver.set(b"token-1", b"key/new", b"new")

    copy.print_line = say
    with pytest.raises(CopyRefused, match="differ in partition 'token-1', 'token-2':"):
        copy.run()
    assert copied(old, new).written == 2
    assert old.content() == new.content()


def test_a_complete_copy_of_an_empty_store_is_not_copied_into_again(
    runtime: HandClock, new: Database
) -> None:
    """Nothing but the mark of the source tells that the target may be in use."""
    empty = Database("sqlite:///empty", runtime)
    empty.serve()
    copied(empty, new)
    with pytest.raises(CopyRefused, match="is a complete copy of sqlite:///empty"):
        copied(empty, new)
    new.serve()


def test_a_copy_can_be_copied_on(old: Database, new: Database, runtime: HandClock) -> None:
    newer = Database("etcd://newer", runtime)
    copied(old, new)
    before = new.content()
    copied(new, newer)
    assert newer.content() == before
    newer.serve()
    with pytest.raises(StoreHalted, match="was copied to etcd://newer"):
        new.serve()
    assert release(new.open()).other == "etcd://newer"
    new.serve()
    with pytest.raises(CopyRefused, match="is not halted"):
        release(new.open())


def test_a_run_that_slept_does_not_take_a_complete_copy_for_an_empty_store(
    runtime: HandClock, new: Database
) -> None:
    """It looked at the marks before another run set them, and claims the target afterwards."""
    empty = Database("sqlite:///empty", runtime)
    empty.serve()

    def intercept(call: StoreCall, apply: Callable[[], ResultT]) -> ResultT:
        if call.operation == "set_if" and find_halt(empty.driver) is not None:
            copied(empty, new)
            new.serve().set(b"auth", b"users/new", b"since")
        return apply()

    with pytest.raises(CopyRefused, match="run only one copy at a time"):
        copied(empty, new, FaultyStore(new.driver, intercept))
    assert new.serve().get(b"auth", b"users/new").value == b"since"


def test_a_run_that_another_took_over_from_stops(old: Database, new: Database) -> None:
    first = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        if text.startswith("2 partitions"):
            with pytest.raises(DiedError):
                copied(old, new, FaultyStore(new.driver, Dying(2)))
            old.runtime.seconds += CHECK_SECONDS

    first.print_line = say
    with pytest.raises(StoreHalted, match="incomplete copy of sqlite:///old"):
        first.run()


def test_stores_are_compared_only_when_all_writers_have_ended(old: Database, new: Database) -> None:
    began = old.runtime.seconds
    copied(old, new)
    assert old.runtime.seconds - began >= SETTLE_SECONDS


def test_only_the_last_run_writes_to_the_target(old: Database, new: Database) -> None:
    """One that was taken for dead must not write into a store that is in use by then."""
    first = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)
    second: list[CopyCounts] = []

    def say(text: str) -> None:
        if text.startswith("3 partitions"):
            second.append(copied(old, new))
            new.serve().set(b"auth", b"users/new", b"since")

    first.print_line = say
    with pytest.raises((StoreHalted, CopyRefused)):
        first.run()
    assert second
    assert new.serve().get(b"auth", b"users/new").value == b"since"


def test_a_copy_that_was_given_up_leaves_no_target_that_servers_use(
    old: Database, new: Database
) -> None:
    with pytest.raises(DiedError):
        copied(old, new, FaultyStore(new.driver, Dying(13)))
    release(old.open())
    old.serve().set(b"auth", b"users/eve", b"x")
    with pytest.raises(StoreHalted, match="incomplete"):
        new.serve()
    with pytest.raises(CopyRefused, match="incomplete copy"):
        release(new.open())
    with pytest.raises(CopyRefused, match="no longer halted for it"):
        copied(old, new)


def test_a_copy_is_not_finished_once_its_source_was_released(old: Database, new: Database) -> None:
    copy = StoreCopy(old.open(), new.open(), old.runtime, SETTLE_SECONDS)

    def say(text: str) -> None:
        if text.startswith("comparing"):
            release(old.open())

    copy.print_line = say
    with pytest.raises(CopyRefused, match="cancelled it"):
        copy.run()
    with pytest.raises(StoreHalted, match="incomplete"):
        new.serve()


def test_a_record_that_does_not_fit_is_named(old: Database, new: Database) -> None:
    old.serve().set(b"token-2", b"large", b"x" * 500)
    new.driver.limits = Limits(partition_bytes=100, key_bytes=100, value_bytes=400)
    with pytest.raises(
        CopyRefused, match="partition 'token-2' exceeds the limits of postgresql://new"
    ):
        copied(old, new)


def test_the_hash_names_the_differing_partitions(old: Database, new: Database) -> None:
    copied(old, new)
    before = new.content()
    new.driver.set(b"token-3", b"key/00001", b"another")
    changed = new.content()
    assert [name for name in before if before[name] != changed[name]] == [b"token-3"]
